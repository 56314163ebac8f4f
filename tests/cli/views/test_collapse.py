"""Repeated layers as one row: what differs in numbers alone, and in nothing that is told."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.views.collapse import collapse


class Tensor(NamedTuple):
    name: str
    kind: str = ""


def rows(*names):
    tensors = [Tensor(*name) if isinstance(name, tuple) else Tensor(name) for name in names]
    return [(row.pattern, row.repeats) for row in collapse(tensors, lambda one: one.kind)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        (["a"], [("a", 1)]),
        (["l.0.w", "l.1.w", "l.2.w"], [("l.{0-2}.w", 3)]),
        (["l.10.w", "l.9.w"], [("l.{9-10}.w", 2)]),
        (["l.0.w", "l.2.w", "l.3.w"], [("l.{0,2-3}.w", 3)]),
        (["l.0.w", ("l.1.w", "x"), "l.2.w"], [("l.{0,2}.w", 2), ("l.1.w", 1)]),
        ([f"l.{i}.e.{j}" for i in range(2) for j in range(3)], [("l.{0-1}.e.{0-2}", 6)]),
        (["l.0.e.0", "l.0.e.1", "l.1.e.0"], [("l.0.e.{0-1}", 2), ("l.1.e.0", 1)]),
        (["c/0/w", "c/1/w"], [("c/{0-1}/w", 2)]),
        (["l.01.w", "l.1.w"], [("l.1.w", 1), ("l.01.w", 1)]),
        (["l1.w", "l2.w"], [("l1.w", 1), ("l2.w", 1)]),
        (["l.#.w", "l.1.w", "l.2.w"], [("l.#.w", 1), ("l.{1-2}.w", 2)]),
        (["#.1", "1.#"], [("#.1", 1), ("1.#", 1)]),
    ],
)
def test_rows_are_these(names, expected):
    assert sorted(rows(*names)) == sorted(expected)


_names = st.lists(
    st.sampled_from(["l", "#", "##", "0", "1", "2", "10", "w"]), min_size=1, max_size=4
)
_tensors = st.lists(
    st.builds(Tensor, _names.map(".".join), st.sampled_from("xy")),
    unique_by=lambda tensor: tensor.name,
)


@given(_tensors)
def test_every_tensor_is_in_one_row_of_its_kind(tensors):
    found = collapse(tensors, lambda tensor: tensor.kind)

    assert sum(row.repeats for row in found) == len(tensors)
    patterns = [set(expand(row.pattern)) for row in found]
    assert all(row.first.name in names for row, names in zip(found, patterns, strict=True))
    assert [len(names) for names in patterns] == [row.repeats for row in found]
    assert set(chain.from_iterable(patterns)) == {tensor.name for tensor in tensors}
    kinds = {tensor.name: tensor.kind for tensor in tensors}
    for row, names in zip(found, patterns, strict=True):
        assert {kinds[name] for name in names} == {row.first.kind}


def expand(pattern):
    """Every name that a pattern stands for."""
    before, brace, rest = pattern.partition("{")
    if not brace:
        return [before]
    inside, _, after = rest.partition("}")
    numbers = []
    for part in inside.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return [f"{before}{number}{tail}" for number in numbers for tail in expand(after)]
