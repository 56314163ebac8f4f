"""Scales of all experts in one array, beside the weights of each: transformers' `FP8Experts`.

transformers holds the experts of a layer as `gate_up_proj` and `down_proj`, of three
dimensions. Where it saves them one by one, under the names of the checkpoint, their scales may
stay stacked.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import TYPE_CHECKING, Final, NamedTuple

from store.text import printable

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.codecs.base import Shape
    from importer.sources.schemes.parts import Parts
    from importer.sources.tensor import SourceTensor

_STACK: Final = 3
_EXPERT: Final = r"(.+\.experts)\.(0|[1-9][0-9]{0,8})\.(\w+)\.weight"
_PLACES: Final = {
    "gate_proj": ("gate_up_proj", 0),
    "up_proj": ("gate_up_proj", 1),
    "w1": ("gate_up_proj", 0),
    "w3": ("gate_up_proj", 1),
    "w2": ("down_proj", None),
}
"""Projection of an expert -> what holds it, and which half of that it is."""
SHARED: Final = "gate and up of an expert share a row of scales"
"""Why a weight is not decoded: its first block begins in another one."""


class Place(NamedTuple):
    """Where the scales of one weight are.

    Attributes:
        name: of the array.
        expert: the number of its matrix.
        half: of the matrix's rows, 0 or 1; None where all are the weight's.
    """

    name: str
    expert: int
    half: int | None = None


def place_of(name: str, names: Container[str]) -> Place | None:
    """Return where the scales of a weight are, if it is an expert's and they are stacked.

    Args:
        name: of the weight.
        names: of all arrays.

    Example:
        >>> place_of("mlp.experts.3.up_proj.weight", ["mlp.experts.gate_up_proj_scale_inv"])
        Place(name='mlp.experts.gate_up_proj_scale_inv', expert=3, half=1)
    """
    found = re.fullmatch(_EXPERT, name)
    if found is None:
        return None
    experts, number, projection = found.groups()
    held_by, half = _PLACES.get(projection, (projection, None))
    places = (
        Place(f"{experts}.{projection}_scale_inv", int(number)),
        Place(f"{experts}.{held_by}_scale_inv", int(number), half),
    )
    return next((place for place in places if place.name in names), None)


def stacked_scale(weight: SourceTensor, parts: Parts) -> SourceTensor | None:
    """Return the scales of an expert's weight, as a part of the array that they are in.

    A weight whose scales cannot be told from those of another is left, and said.

    Raises:
        InputError: the array has no such expert.
    """
    place = place_of(weight.name, parts.arrays)
    if place is None:
        return None
    from importer.sources.schemes.parts import contradict, told  # noqa: PLC0415 - as above

    stack = parts.arrays[place.name]
    if len(stack.shape) != _STACK or place.expert >= stack.shape[0]:
        contradict(weight, f"has no scales in {told(stack)}")
    rows = _rows(stack.shape, place.half)
    if rows is None:
        parts.leave(weight, SHARED)
        parts.leave(stack, f"it has the scales of `{printable(weight.name)}`")
        return None
    return _part(stack, place.expert, rows)


def _rows(stack: Shape, half: int | None) -> range | None:
    """Return a weight's rows of scales in its expert's matrix; None where they are mixed."""
    down = stack[1]
    if half is None or down == 1:
        return range(down)
    if down % 2:
        return None
    return range(down // 2 * half, down // 2 * (half + 1))


def _part(stack: SourceTensor, expert: int, rows: range) -> SourceTensor:
    (array,) = stack.arrays
    experts, down, across = stack.shape
    row = array.nbytes // max(experts * down, 1)
    shape = (len(rows), across)
    part = array._replace(
        shape=shape,
        offset=array.offset + (expert * down + rows.start) * row,
        nbytes=len(rows) * row,
        whole=array,
    )
    return stack._replace(shape=shape, arrays=(part,))
