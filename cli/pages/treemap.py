"""Rectangles whose areas are numbers, as square as they can be (Bruls et al., 2000)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle; y goes down."""

    x: float
    y: float
    width: float
    height: float

    def inside(self, top: float, border: float) -> Box:
        """Return what is left within a border, and below a strip at the top."""
        return Box(
            self.x + border,
            self.y + top,
            max(self.width - 2 * border, 0.0),
            max(self.height - top - border, 0.0),
        )


def squarified(sizes: Sequence[float], box: Box) -> list[Box]:
    """Divide a rectangle into one for each size, in the order of the sizes.

    Args:
        sizes: positive, the largest first.
        box: that they fill.
    """
    total = sum(sizes)
    if not total or not box.width or not box.height:
        return [Box(box.x, box.y, 0.0, 0.0) for _ in sizes]
    scale = box.width * box.height / total
    areas = [size * scale for size in sizes]
    boxes: list[Box] = []
    start = 0
    while start < len(areas):
        side = min(box.width, box.height)
        end = start + 1
        while end < len(areas) and _worst(areas[start : end + 1], side) <= _worst(
            areas[start:end], side
        ):
            end += 1
        row, box = _row(areas[start:end], box)
        boxes += row
        start = end
    return boxes


def _worst(areas: Sequence[float], side: float) -> float:
    """Return the largest ratio of sides in a row of rectangles along a side."""
    depth = sum(areas) / side
    if not depth:
        return float("inf")
    lengths = [max(area / depth, 1e-9) for area in areas]
    return max(max(depth / length, length / depth) for length in lengths)


def _row(areas: Sequence[float], box: Box) -> tuple[list[Box], Box]:
    """Lay rectangles along the shorter side; return them, and what is left."""
    is_tall = box.height > box.width
    # What is left beside an area of 10^10 times its size is off by some millionths.
    depth = min(sum(areas) / min(box.width, box.height), max(box.width, box.height))
    boxes, place = [], box.x if is_tall else box.y
    for area in areas:
        length = area / depth if depth else 0.0
        here = Box(place, box.y, length, depth) if is_tall else Box(box.x, place, depth, length)
        boxes.append(here)
        place += length
    if is_tall:
        return boxes, Box(box.x, box.y + depth, box.width, max(box.height - depth, 0.0))
    return boxes, Box(box.x + depth, box.y, max(box.width - depth, 0.0), box.height)
