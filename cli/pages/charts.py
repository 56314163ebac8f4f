"""Where the marks of each chart are, in units of its own; the template draws them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cli.pages.treemap import Box, squarified
from importer.engine.values import Sample
from importer.models.places import Role, layer_of, role_of
from importer.models.quality import Quality
from importer.sources.stored.tensors import StoredTensor
from store.tensorfile import elements
from store.text import count, printable, size

_GROUPS: Final = 96
"""Areas of a tree map: more layers than these share one."""
_STRIP: Final = 14.0
"""Height of the strip with a layer's name."""
_LABELLED: Final = (46.0, 30.0)
"""Width and height of an area from which on it has a strip."""
_CHARACTER: Final = 6.2
"""Width of a character of a label, about."""
_POINTS: Final = 800
_LINES: Final = 8
_STEPS: Final = (1, 5, 10, 20, 50, 100, 1000, 10_000)
"""Decibels between two lines of a grid; SQNR is a logarithm of floats, and has an end."""
_REST: Final = "elsewhere"


class Cell(NamedTuple):
    """The tensors of one role in one layer.

    Attributes:
        label: that fits into the box, or empty.
        told: what it is, in a sentence.
    """

    box: Box
    role: str
    label: str
    told: str


class Area(NamedTuple):
    """A layer of a tree map, or a few that follow each other."""

    box: Box
    label: str
    cells: tuple[Cell, ...]


class Point(NamedTuple):
    """A tensor in a scatter plot."""

    x: float
    y: float
    role: str
    told: str


class Tick(NamedTuple):
    """A line of a grid, and what it stands for."""

    place: float
    label: str


class Scatter(NamedTuple):
    """Quality against size, in a plot of `width` by `height`."""

    width: float
    height: float
    points: tuple[Point, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    left_out: int


class Bar(NamedTuple):
    """A bin of a histogram."""

    x: float
    y: float
    width: float
    height: float


def tree_map(tensors: Sequence[StoredTensor], width: float, height: float) -> list[Area]:
    """Divide a rectangle among layers, and each of them among the roles in it."""
    groups = _grouped(tensors)
    order = sorted(groups, key=lambda label: (-_nbytes(groups[label]), label))
    whole = sum(tensor.nbytes for tensor in tensors)
    boxes = squarified([_nbytes(groups[label]) for label in order], Box(0, 0, width, height))
    return [
        _area(label, groups[label], box, whole) for label, box in zip(order, boxes, strict=True)
    ]


def _grouped(tensors: Sequence[StoredTensor]) -> dict[str, list[StoredTensor]]:
    found: dict[str, list[StoredTensor]] = {}
    for tensor in tensors:
        if tensor.nbytes:
            layer = layer_of(tensor.name) or str(role_of(tensor.name))
            found.setdefault(layer, []).append(tensor)
    if len(found) <= _GROUPS:
        return found
    # Layers that follow each other share an area; sorted as people count.
    order = sorted(found, key=_natural)
    step = -(-len(order) // _GROUPS)
    joined: dict[str, list[StoredTensor]] = {}
    for start in range(0, len(order), step):
        these = order[start : start + step]
        label = these[0] if len(these) == 1 else f"{these[0]} … {these[-1]}"
        joined[label] = [tensor for layer in these for tensor in found[layer]]
    return joined


def _area(label: str, tensors: list[StoredTensor], box: Box, whole: int) -> Area:
    roles: dict[Role, list[StoredTensor]] = {}
    for tensor in tensors:
        roles.setdefault(role_of(tensor.name), []).append(tensor)
    is_layer = label not in roles
    has_strip = is_layer and box.width >= _LABELLED[0] and box.height >= _LABELLED[1]
    inner = box.inside(_STRIP, 1.0) if has_strip else box
    order = sorted(roles, key=lambda role: (-_nbytes(roles[role]), role))
    boxes = squarified([_nbytes(roles[role]) for role in order], inner)
    cells = tuple(
        Cell(
            place, str(role), _fitting(str(role), place), _told(label, role, roles[role], whole)
        )
        for role, place in zip(order, boxes, strict=True)
    )
    return Area(box, _short(label, box.width) if has_strip else "", cells)


def _told(label: str, role: Role, tensors: list[StoredTensor], whole: int) -> str:
    types = ", ".join(sorted({tensor.type_name for tensor in tensors}))
    nbytes = _nbytes(tensors)
    where = "" if label == str(role) else f"{printable(label)}, "
    return (
        f"{where}{role}: {size(nbytes)}, {100 * nbytes / whole:.1f}% of the model, "
        f"{count(len(tensors), 'tensor')}, {printable(types)}"
    )


def _fitting(text: str, box: Box) -> str:
    return text if box.width > len(text) * _CHARACTER + 8 and box.height > _STRIP + 2 else ""


def _short(label: str, width: float) -> str:
    text = printable(label)
    room = int((width - 8) / _CHARACTER)
    if len(text) <= room:
        return text
    number = text.replace("/", ".").rpartition(".")[2]
    return number if len(number) <= room else ""


def scatter(found: Iterable[Quality], width: float, height: float) -> Scatter | None:
    """Place tensors by their size (a logarithm) and their SQNR; the worst of too many."""
    known = [
        (elements(one.shape), one.deviation.sqnr, one)
        for one in found
        if one.deviation is not None and math.isfinite(one.deviation.sqnr)
    ]
    if not known:
        return None
    known.sort(key=lambda row: (row[1], row[2].name))
    left_out = max(len(known) - _POINTS, 0)
    known = known[:_POINTS]
    sizes = [math.log10(max(number, 1)) for number, *_ in known]
    # A little beyond the outermost points, so that none is cut.
    first, last = min(sizes) - 0.2, max(sizes) + 0.2
    bottom = 5.0 * math.floor(min(db for _, db, _ in known) / 5)
    top = max(5.0 * math.ceil(max(db for _, db, _ in known) / 5), bottom + 5)

    def x_of(number: float) -> float:
        return width * (math.log10(max(number, 1)) - first) / (last - first)

    def y_of(db: float) -> float:
        return height * (top - db) / (top - bottom)

    points = tuple(
        Point(
            x_of(number),
            y_of(db),
            str(role_of(one.name)),
            f"{printable(one.name)}: {db:.1f} dB, {printable(one.type)}, {number:,} values",
        )
        for number, db, one in known
    )
    marks = [
        factor * 10**power
        for power in range(math.floor(first), math.ceil(last) + 1)
        for factor in ((1, 2, 5) if last - first < 2 else (1,))  # noqa: PLR2004 - decades
    ]
    across = tuple(
        Tick(x_of(mark), _count(mark)) for mark in marks if first <= math.log10(mark) <= last
    )
    step = next(step for step in _STEPS if top - bottom <= _LINES * step)
    lowest = math.ceil(bottom / step) * step
    up = tuple(Tick(y_of(db), str(db)) for db in range(lowest, int(top) + 1, step))
    return Scatter(width, height, points, across, up, left_out)


def histogram(sample: Sample, width: float, height: float) -> list[Bar]:
    """Place the bins of a histogram; the highest fills the height."""
    most = max(sample.counts, default=0)
    if not most:
        return []
    step = width / len(sample.counts)
    bars = []
    for number, counted in enumerate(sample.counts):
        tall = height * counted / most
        if counted:
            tall = max(tall, 0.75)  # what is there shows
        bars.append(Bar(step * number, height - tall, step, tall))
    return bars


def _nbytes(tensors: Iterable[StoredTensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _count(number: float) -> str:
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return f"{number:g}"


def _natural(label: str) -> tuple[str, int, str]:
    stem, _, number = label.replace("/", ".").rpartition(".")
    return (stem, int(number[:18]), "") if number.isdecimal() else (label, -1, "")
