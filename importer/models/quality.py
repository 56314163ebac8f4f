"""The report of quality of a quantized model: a small blob next to the tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Final

from importer.codecs.metrics import Deviation
from importer.planning.plan import Plan, TensorPlan
from store import limits
from store.errors import IntegrityError
from store.json import Json, loads
from store.tensorfile import elements

_KEYS: Final = (
    "elements",
    "source",
    "decoded",
    "product",
    "error",
    "largest",
    "clipped",
    "zeroed",
)
"""Of a tensor in a report: the fields of `Deviation`, in their order."""
_SCHEMA: Final = "ingot.quality/1"
_LARGEST: Final = 1e200
"""Of a sum: squares of float32 are below 1e77. The square of this would be infinite, and as
many sums as there may be tensors are not."""


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a quantized tensor stands for its source.

    Attributes:
        type: with its group size where that is not the usual one.
        deviation: None where values or sums are not finite.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    deviation: Deviation | None


def sums_of(deviation: Deviation) -> dict[str, float]:
    """Return the sums under the keys that reports have."""
    return dict(zip(_KEYS, astuple(deviation), strict=True))


def quality_bytes(found: Sequence[Quality]) -> bytes:
    """Return a report as JSON; floats are the shortest text that reads back the same."""
    rows = [
        {"name": one.name, "type": one.type, "shape": list(one.shape)}
        | ({} if one.deviation is None else sums_of(one.deviation))
        for one in found
    ]
    document = {"schema": _SCHEMA, "tensors": rows}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


_LONG: Final = -1.2345678901234567e-300
"""No number is a longer text."""


def longest_report(plan: Plan) -> int:
    """Return how many bytes the report of a plan has at most, whatever is measured."""
    return len(quality_bytes([_longest(one) for one in plan.tensors if one.rounded_to]))


def _longest(tensor: TensorPlan) -> Quality:
    many = elements(tensor.shape)
    found = Deviation(many, _LONG, _LONG, _LONG, _LONG, _LONG, many, many)
    return Quality(tensor.name, tensor.rounded_to, tensor.shape, found)


class _MalformedError(ValueError):
    """A document is not a report."""


def read_quality(data: bytes, where: str = "the blob") -> list[Quality]:
    """Read a report.

    Args:
        where: what an error calls it.

    Raises:
        IntegrityError: the data is not a report.
    """
    try:
        return list(map(_quality, _rows(loads(data, floats=True))))
    except ValueError as error:  # as JsonError is
        message = f"{where} is not a report of quality: {error}"
        raise IntegrityError(message, code="E_QUALITY") from error


def _rows(document: Json) -> list[Json]:
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise _MalformedError(f"its schema is not the expected `{_SCHEMA}`")
    rows = document.get("tensors")
    if not isinstance(rows, list):
        raise _MalformedError("it has no list `tensors`")
    return rows


def _quality(row: Json) -> Quality:
    if not isinstance(row, dict):
        raise _MalformedError("a tensor is not an object")
    name, kind, shape = row.get("name"), row.get("type"), row.get("shape")
    if not (isinstance(name, str) and isinstance(kind, str) and isinstance(shape, list)):
        raise _MalformedError("a tensor has no `name`, `type` and `shape`")
    if len(shape) > limits.RANK:
        raise _MalformedError(f"a shape has more than {limits.RANK} dimensions")
    lengths = tuple(_count(length) for length in shape)
    if not any(key in row for key in _KEYS):
        return Quality(name, kind, lengths, None)
    deviation = Deviation(
        elements=_count(row.get("elements")),
        sum_x2=_sum(row.get("source")),
        sum_y2=_sum(row.get("decoded")),
        sum_xy=_number(row.get("product")),
        sum_err2=_sum(row.get("error")),
        max_err=_sum(row.get("largest")),
        clipped=_count(row.get("clipped")),
        zeroed=_count(row.get("zeroed")),
    )
    if max(deviation.clipped, deviation.zeroed) > deviation.elements:
        raise _MalformedError("a tensor has fewer elements than were clipped or zeroed")
    return Quality(name, kind, lengths, deviation)


def _count(value: Json) -> int:
    if type(value) is int and 0 <= value <= limits.DIMENSION:
        return value
    raise _MalformedError("a number of elements is not one")


def _sum(value: Json) -> float:
    if (number := _number(value)) >= 0:
        return number
    raise _MalformedError("a sum of squares is negative")


def _number(value: Json) -> float:
    # JSON may have an integer that no float can hold.
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= _LARGEST
    ):
        return float(value)
    raise _MalformedError("a measure is not a number, or too large")
