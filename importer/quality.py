"""The report of a quantized model's quality: a small blob beside the tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from importer.deviation import Deviation
from store.errors import InputError
from store.json import Json, JsonError, loads

_SCHEMA: Final = "ingot.quality/1"


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


def quality_bytes(found: Sequence[Quality]) -> bytes:
    """Write a report; floats as the shortest text that is read back as the same."""
    rows = [
        {"name": one.name, "type": one.type, "shape": list(one.shape)}
        | ({} if one.deviation is None else asdict(one.deviation))
        for one in found
    ]
    document = {"schema": _SCHEMA, "tensors": rows}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def read_quality(data: bytes) -> list[Quality]:
    """Read a report.

    Raises:
        InputError: it is none.
    """
    try:
        document = loads(data, floats=True)
    except JsonError as error:
        raise _none(str(error)) from error
    rows = document.get("tensors") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise _none("it has no `tensors`")
    return list(map(_quality, rows))


def _quality(row: Json) -> Quality:
    name, kind, shape = (
        (row.get("name"), row.get("type"), row.get("shape"))
        if isinstance(row, dict)
        else [0] * 3
    )
    if not (isinstance(name, str) and isinstance(kind, str) and isinstance(shape, list)):
        raise _none("a tensor has no `name`, `type` and `shape`")
    lengths = tuple(size for size in shape if type(size) is int and size >= 0)
    assert isinstance(row, dict)
    numbers = [row.get(field.name) for field in fields(Deviation)]
    if numbers == [None] * len(numbers):
        return Quality(name, kind, lengths, None)
    elements, source, decoded, product, error, largest, clipped, zeroed = map(_number, numbers)
    deviation = Deviation(
        int(elements), source, decoded, product, error, largest, int(clipped), int(zeroed)
    )
    return Quality(name, kind, lengths, deviation)


def _number(value: Json) -> float:
    # JSON may have an integer that no float can hold.
    if type(value) is int and abs(value) < 1 << 63:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    raise _none("a tensor has a measure that is no number")


def _none(why: str) -> InputError:
    return InputError(f"this is no report of quality: {why}", code="E_QUALITY")
