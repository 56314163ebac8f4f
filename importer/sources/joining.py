"""Make a model's logical tensors of the arrays of its components, by their schemes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from importer.sources.document import Document
from importer.sources.joined import Joined, Unread, in_order, notes_of
from importer.sources.schemes.declaration import method_of
from importer.sources.schemes.registry import (
    OF_GRAPHS,
    SCHEMES,
    UNKNOWN,
    first_quantized,
    join_tensors,
)
from importer.sources.tensor import SourceTensor
from store.errors import UnsupportedError
from store.text import printable

NONE: Final[Mapping[str, Sequence[SourceTensor]]] = MappingProxyType({})
"""No container made a tensor of several arrays."""


def join(
    parts: Mapping[str, Sequence[SourceTensor]],
    configs: Mapping[str, Document],
    metadata: Mapping[str, Mapping[str, str]],
    known: Mapping[str, Sequence[SourceTensor]] = NONE,
    *,
    as_arrays: bool = False,
) -> Joined:
    """Make tensors of the arrays of every component.

    Args:
        parts: what is stored, by component.
        configs: the `config.json` of each component that has one.
        metadata: what each file of weights says about itself, by path.
        known: weights that containers themselves made of several arrays, by component.
        as_arrays: make no tensors of the arrays of quantized weights.

    Raises:
        InputError: arrays are missing, or contradict each other or a configuration.
        UnsupportedError: a form of a scheme that is not decoded.
    """
    stored = in_order(parts.values())
    joined = [
        part
        if as_arrays
        else join_tensors(part, configs.get(component, {}), metadata, known.get(component, ()))
        for component, part in parts.items()
    ]
    # Most sources have nothing to join, and may have 100 000 tensors.
    is_joined = any(made is not part for made, part in zip(joined, parts.values(), strict=True))
    scheme = scheme_among(stored, configs)
    is_unjoined = any(tensor.unjoined for tensor in stored)
    if scheme is None and (is_unjoined or any(known.values())):
        scheme = OF_GRAPHS
    tensors = in_order(joined) if is_joined else stored
    left = None
    if scheme is not None:
        left = _first_quantized([tensor for tensor in tensors if tensor.is_plain], configs)
    is_decoded = (
        scheme is not None
        and SCHEMES[scheme].decodes
        and is_joined
        and not is_unjoined
        and left is None
    )
    return Joined(tensors, scheme, is_decoded, tuple(notes_of(tensors)), left)


def scheme_among(stored: Sequence[SourceTensor], configs: Mapping[str, Document]) -> str | None:
    """Name the scheme of the first component that has one, with the configuration of each."""
    found = _first_quantized(stored, configs)
    return None if found is None else found.scheme


def _first_quantized(
    stored: Sequence[SourceTensor], configs: Mapping[str, Document]
) -> Unread | None:
    arrays = [(tensor.name, tensor.arrays[0].dtype) for tensor in stored]
    for component, config in configs.items():
        prefix = f"{component}/" if component else ""
        own = (array for array in arrays if array[0].startswith(prefix))
        if found := first_quantized(own, config):
            return Unread(*found, config)
    config = configs.get("", {})
    last = first_quantized(arrays, config)
    return None if last is None else Unread(*last, config)


def check_read(made: Joined) -> None:
    """Make sure that everything that is quantized became tensors: no model is a part of one.

    Raises:
        UnsupportedError: an array is of a scheme, or of a form of one, that is not decoded.
    """
    unread = made.unread
    for tensor in made.tensors:
        if tensor.is_computed:
            continue  # the plan refuses another type for it
        if tensor.unjoined:
            what = f"is not decoded: {tensor.unjoined}"
        elif unread is not None and tensor.name == unread.name:
            what = _why_unread(unread)
        else:
            continue
        raise UnsupportedError(
            f"`{tensor.file.path}`: `{printable(tensor.name)}` {what}", code="E_QUANT_FORMAT"
        )


def _why_unread(unread: Unread) -> str:
    method = method_of(unread.config)
    is_known = unread.scheme != UNKNOWN
    how = f"by {unread.scheme}" if is_known else "in a way that is not known"
    said = f" (config.json: `{printable(method)}`)" if method else ""
    return f"is quantized {how}{said}, and is not decoded"
