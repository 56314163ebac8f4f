"""Repeated layers as one row: `model.layers.{0-31}.mlp.up_proj.weight`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

# Up to 18 digits: Python refuses to read 4301, and no model has so many layers.
_NUMBER = re.compile(r"(?<![^./])(?:0|[1-9][0-9]{0,17})(?![^./])")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Tensor = TypeVar("_Tensor", bound=_Named)


class Row(NamedTuple, Generic[_Tensor]):
    """Tensors that differ in numbers alone.

    Attributes:
        pattern: their names, with `{0-31}` where the numbers differ.
        members: at least one; they agree in what was asked for.
    """

    pattern: str
    members: tuple[_Tensor, ...]

    @property
    def first(self) -> _Tensor:
        """One of them."""
        return self.members[0]

    @property
    def repeats(self) -> int:
        """How many there are."""
        return len(self.members)


def collapse(
    tensors: Iterable[_Tensor], facts: Callable[[_Tensor], Hashable]
) -> list[Row[_Tensor]]:
    """Join tensors whose names differ in whole numeric components, and in nothing else.

    Rows keep the order of their first tensors, numbers in numeric order.

    Args:
        facts: in which tensors of one row agree.
    """
    alike: dict[Hashable, list[_Tensor]] = {}
    for tensor in tensors:
        # A number becomes `#`, and one that a name has of itself stays two.
        stem = _NUMBER.sub("#", tensor.name.replace("#", "##"))
        alike.setdefault((stem, facts(tensor)), []).append(tensor)
    # Numbers alone are compared within a group: parts of all names at once took 90 MiB for
    # 100 000 of them.
    groups = [sorted(group, key=_numbers) for group in alike.values()]
    groups.sort(key=lambda group: _natural(group[0]))
    return [row for group in groups for row in _rows(group)]


def _rows(group: list[_Tensor]) -> list[Row[_Tensor]]:
    numbers = [_numbers(tensor) for tensor in group]
    columns = [sorted(set(column)) for column in zip(*numbers, strict=True)]
    # None varies where a malformed manifest names one tensor twice.
    first = next((number for number, column in enumerate(columns) if len(column) > 1), None)
    if first is not None and math.prod(map(len, columns)) != len(group):
        # Not every combination is there, so one pattern would promise too much: one row for
        # each value of the first column that varies.
        parts: dict[int, list[_Tensor]] = {}
        for tensor, values in zip(group, numbers, strict=True):
            parts.setdefault(values[first], []).append(tensor)
        return [row for part in parts.values() for row in _rows(part)]
    ranges = iter(columns)
    pattern = _NUMBER.sub(lambda _: _ranges(next(ranges)), group[0].name)
    return [Row(pattern, tuple(group))]


def _ranges(values: list[int]) -> str:
    if len(values) == 1:
        return str(values[0])
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    shown = (f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return "{" + ",".join(shown) + "}"


def _numbers(tensor: _Named) -> tuple[int, ...]:
    return tuple(map(int, _NUMBER.findall(tensor.name)))


def _natural(tensor: _Named) -> list[tuple[int, str]]:
    # Every component as a pair, so that numbers and words compare.
    parts = re.split(r"[./]", tensor.name)
    return [(int(part), "") if _NUMBER.fullmatch(part) else (-1, part) for part in parts]
