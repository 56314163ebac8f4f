"""Tied tensors: what has two names in a checkpoint, and is stored once."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import Final

from importer.sources.base import Contents
from importer.sources.joined import Joined
from importer.sources.tensor import SourceTensor
from store.text import count, printable

_NAMED: Final = 5


def without_ties(made: Joined, contents: Collection[Contents]) -> Joined:
    """Return tensors without those that are another one under a second name, and say so.

    This comes behind the schemes: a scale that two weights share is a part of both.

    Args:
        made: the tensors of a model.
        contents: what they were made of: the name that comes first in a file stays.
    """
    if not any(part.may_tie for part in contents):
        return made
    stored = chain.from_iterable(part.tensors for part in contents)
    order = {tensor.name: number for number, tensor in enumerate(stored)}
    kept: dict[object, list[SourceTensor]] = {}
    tied: dict[str, str] = {}
    for tensor in sorted(made.tensors, key=lambda one: order.get(_first_name(one), 0)):
        if not tensor.nbytes:  # what has no bytes has no place, either
            continue
        places = tuple((array.file.path, array.offset, array.nbytes) for array in tensor.arrays)
        alike = kept.setdefault((tensor.component, tensor.shape, places), [])
        first = next((one for one in alike if one.decoder == tensor.decoder), None)
        if first is None:
            alike.append(tensor)
        else:
            tied[tensor.name] = first.name
    if not tied:
        return made
    pairs = list(tied.items())[:_NAMED]
    named = [f"`{printable(name)}` is `{printable(first)}`" for name, first in pairs]
    more = f" and {len(tied) - _NAMED} more" if len(tied) > _NAMED else ""
    verb = "is" if len(tied) == 1 else "are"
    note = f"{count(len(tied), 'tied tensor')} {verb} stored once: {', '.join(named)}{more}"
    tensors = tuple(one for one in made.tensors if one.name not in tied)
    return made._replace(tensors=tensors, notes=(note, *made.notes))


def _first_name(tensor: SourceTensor) -> str:
    return next(tensor.stored()).name
