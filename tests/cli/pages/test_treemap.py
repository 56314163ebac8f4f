"""Rectangles of a tree map: as large as their numbers, inside, side by side."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli.pages.treemap import Box, squarified

SIZES = st.lists(st.integers(1, 10**12), min_size=1, max_size=60).map(
    lambda sizes: sorted(sizes, reverse=True)
)


@given(SIZES, st.floats(1, 2000), st.floats(1, 2000))
@example([17_179_869_004, 1], 15.0, 273.3046875)
def test_areas_are_in_proportion_and_fill_the_box(sizes, width, height):
    boxes = squarified(sizes, Box(3, 5, width, height))

    scale = width * height / sum(sizes)
    for size, box in zip(sizes, boxes, strict=True):
        assert box.width * box.height == pytest.approx(size * scale, rel=1e-6, abs=1e-6)
        assert box.x >= 3 - 1e-6
        assert box.y >= 5 - 1e-6
        assert box.x + box.width <= 3 + width + 1e-6 * width
        assert box.y + box.height <= 5 + height + 1e-6 * height


@given(SIZES)
def test_no_two_overlap(sizes):
    boxes = squarified(sizes, Box(0, 0, 400, 300))

    for one, other in itertools.combinations(boxes, 2):
        across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
        down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
        assert min(across, down) <= 1e-6


def test_what_is_equal_is_nearly_square():
    boxes = squarified([1] * 12, Box(0, 0, 400, 300))

    assert {(round(box.width), round(box.height)) for box in boxes} == {(100, 100)}


@pytest.mark.parametrize("box", [Box(0, 0, 0, 10), Box(0, 0, 10, 0)])
def test_in_no_room_everything_is_empty(box):
    assert all(one.width * one.height == 0 for one in squarified([2, 1], box))


def test_nothing_needs_no_room():
    assert squarified([], Box(0, 0, 1, 1)) == []
    assert squarified([0, 0], Box(0, 0, 1, 1)) == [Box(0, 0, 0, 0)] * 2
