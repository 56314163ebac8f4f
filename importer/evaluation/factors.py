"""Measure how much the error of each matrix matters: what it does to outputs alone."""

# ruff: noqa: ANN401 - torch and transformers, of which there are no types here

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from importer.evaluation.models import LoadedModel
from importer.evaluation.outputs import Comparison, compare_outputs
from importer.evaluation.text import Sequences, Text
from importer.events import Evaluated, Listener, silent
from store.durable import replace_file
from store.errors import InputError, UnsupportedError

_MATRIX, _STACK = 2, 3
_LEAST: Final = 1e-3
"""Of the mean factor: below that a difference is noise, and a factor has to be above 0."""
_DIGITS: Final = 5


class _Change(NamedTuple):
    """What a matrix of the second model has in place of the first's.

    Attributes:
        values: in memory.
        error: squared error over squared values, times elements: what a plan counts.
    """

    values: Any
    error: float


def measure_factors(
    a: LoadedModel,
    b: LoadedModel,
    text: Text,
    sequences: tuple[Sequences, Sequences],
    listen: Listener = silent,
) -> dict[str, float]:
    """Return for each matrix that differs what its error does, beside the mean of all.

    Each is put into the first model alone, and the text is run through both. What that does to
    the outputs, over the squared error that a plan within a size counts, is the factor. The
    second model ends with the weights of the first.

    Args:
        a: the original.
        b: the same, in few bits.
        text: that the sequences are of.
        sequences: as the tokenizer of each gives them.
        listen: told of the work.

    Raises:
        UnsupportedError: the models are not two of one kind.
        InputError: no matrix differs.
    """
    places = dict(b.model.named_parameters())
    changes = _exchanged(dict(a.model.named_parameters()), places)
    if not changes:
        raise InputError("the two models have the same matrices", code="E_SENSITIVITY")
    total = text.nbytes * len(changes)
    sums: dict[str, list[float]] = {}
    for name, change in changes.items():
        own, places[name].data = places[name].data, change.values
        found = compare_outputs(
            a,
            b,
            text,
            sequences,
            lambda event: listen(_part(event, total)),
        )
        places[name].data = own
        key = _key(name, places[name].dim(), a.tensors)
        damage, error = sums.setdefault(key, [0.0, 0.0])
        sums[key] = [damage + _damage(found), error + change.error]
    usual = math.fsum(damage for damage, _ in sums.values())
    usual /= math.fsum(error for _, error in sums.values())
    if not (math.isfinite(usual) and usual > 0):
        raise InputError(
            "what the matrices do to outputs is not a number", code="E_SENSITIVITY"
        )
    return {
        key: float(f"{max(damage / error / usual, _LEAST):.{_DIGITS}g}")
        for key, (damage, error) in sorted(sums.items())
    }


def write_factors(path: Path, factors: Mapping[str, float]) -> None:
    """Write factors as `read_sensitivity` reads them, whole or not at all."""
    replace_file(path, [(json.dumps(factors, indent=1) + "\n").encode()])


def _exchanged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, _Change]:
    """Give the second model the weights of the first; return the matrices that it had."""
    found = {}
    for name, place in second.items():
        before = first.get(name)
        if before is None or before.shape != place.shape:
            raise UnsupportedError(
                f"only one of the two has a weight `{name}` of this shape", code="E_EVAL_KINDS"
            )
        was, place.data = place.data, before.data
        if place.dim() < _MATRIX or before.data.equal(was):
            continue
        signal = float(before.data.double().square().sum())
        noise = float((before.data.double() - was.double()).square().sum())
        if signal and math.isfinite(noise):
            found[name] = _Change(was, noise / signal * was.numel())
    return found


def _part(event: Any, total: int) -> Any:
    return event._replace(total=total) if isinstance(event, Evaluated) else event


def _damage(found: Comparison) -> float:
    if found.divergence is not None:
        return found.divergence.mean
    assert found.embedding is not None, "an encoder has embeddings"
    return max(1 - found.embedding.mean, 0.0)


def _key(name: str, dimensions: int, tensors: Collection[str]) -> str:
    """Return what the file calls a weight: as the model's files have it, or a glob.

    transformers adds or leaves out what stands before the names of a model, and stacks experts.
    """
    if name in tensors:
        return name
    alike = [one for one in tensors if one.endswith("." + name) or name.endswith("." + one)]
    if len(alike) == 1:
        return alike[0]
    stack = name.rpartition(".")[0]
    return f"*{stack}.*" if dimensions == _STACK else name
