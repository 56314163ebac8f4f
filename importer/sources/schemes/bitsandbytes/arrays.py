"""The arrays of bitsandbytes, and which of them belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor

STATE: Final = ".quant_state.bitsandbytes__"
SCB: Final = "SCB"
FORMAT: Final = "weight_format"
INT8: Final = "int8"
_PARTS: Final = ("absmax", "quant_map", "nested_absmax", "nested_quant_map")


class Quantized(NamedTuple):
    """A weight, and the other arrays of it by the ends of their names.

    Attributes:
        name: of the weight.
        type_name: `int8`; of 4 bits, as the name of the state ends, or empty without one.
        others: at least one.
    """

    name: str
    weight: SourceTensor | None
    type_name: str
    others: Mapping[str, SourceTensor]


def weights_of(tensors: Sequence[SourceTensor]) -> Iterator[Quantized]:
    """Yield each quantized weight with its arrays; also where the weight is missing."""
    marks = [
        tensor
        for tensor in tensors
        if STATE in tensor.name or tensor.name.rpartition(".")[2] in {SCB, _PARTS[0]}
    ]
    if not marks:
        return
    by_name = {tensor.name: tensor for tensor in tensors}
    seen: set[str] = set()
    # States come first: without one the magnitudes of blocks say that it is missing.
    for mark in sorted(marks, key=lambda tensor: STATE not in tensor.name):
        stem, _, last = mark.name.rpartition(".")
        if last == SCB:
            name, type_name = f"{stem}.weight", INT8
            parts = {SCB: mark, FORMAT: by_name.get(f"{stem}.{FORMAT}")}
        else:
            name, _, type_name = (
                mark.name.partition(STATE) if STATE in mark.name else (stem, "", "")
            )
            if not type_name and (name in seen or name not in by_name):
                continue
            seen.add(name)
            parts = {part: by_name.get(f"{name}.{part}") for part in _PARTS}
            parts["state"] = mark if type_name else None
        others = {part: tensor for part, tensor in parts.items() if tensor is not None}
        yield Quantized(name, by_name.get(name), type_name, others)
