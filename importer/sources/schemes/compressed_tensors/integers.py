"""The integers of compressed-tensors: packed into words, or one in each byte."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from importer.codecs.scaled.blocks import Grid
from importer.codecs.scaled.integers import Layout, PackedInt, Zeros
from importer.sources.schemes.compressed_tensors.config import METHOD, CtGroup
from importer.sources.schemes.parts import Parts, contradict, told
from importer.sources.tensor import SourceTensor

_WORD: Final = 32
_BITS: Final = range(2, 9)
_SCALES: Final = ("F32", "BF16", "F16")
_MATRIX: Final = 2


class _Found(NamedTuple):
    """The arrays of a weight that are there."""

    packed: SourceTensor
    scale: SourceTensor
    zeros: SourceTensor | None
    order: SourceTensor | None
    sides: SourceTensor | None

    @property
    def arrays(self) -> tuple[SourceTensor, ...]:
        every = (self.packed, self.scale, self.zeros, self.order, self.sides)
        return tuple(tensor for tensor in every if tensor is not None)


def join_words(
    parts: Parts,
    stem: str,
    arrays: tuple[SourceTensor, SourceTensor],
    groups: Sequence[CtGroup],
    values: Mapping[str, bytes],
) -> None:
    """Make one tensor of packed integers, their scales and zero points.

    Args:
        stem: of the names.
        arrays: codes and scales.
        groups: that the module may belong to.
        values: of small arrays, by name.

    Raises:
        InputError: they do not fit each other or their group.
    """
    found = _find(parts, stem, arrays)
    packed = found.packed
    sides = _sides(found, values)
    made = [
        (group, shape, decoder)
        for group in groups or tuple(_any_group(found, sides))
        for shape, decoder in _fitting(found, group, sides)
    ]
    others = [group for group in groups if group.kind == "int" and group.bits not in _BITS]
    if not made and others:
        parts.leave(packed, f"config.json says {others[0]}")
        return
    if not made:
        said = " and ".join(map(str, groups)) or "nothing"
        real = f" of {list(sides)}" if sides else ""
        contradict(
            packed,
            f"{list(packed.shape)}{real} has {told(found.scale)}, and config.json says {said}",
        )
    if len({(shape, d.bits, Grid.of(shape, d.block).sides) for _, shape, d in made}) > 1:
        said = " and ".join(str(group) for group, _, _ in made) if groups else "nothing"
        contradict(packed, f"may have several numbers of bits, and config.json says {said}")
    _, shape, decoder = made[0]
    _check(found, shape, decoder)
    parts.join(f"{stem}.weight", shape, found.arrays, decoder)


def join_bytes(
    parts: Parts,
    stem: str,
    arrays: tuple[SourceTensor, SourceTensor],
    groups: Sequence[CtGroup],
) -> None:
    """Make one tensor of integers of a byte, their scales and zero points.

    Raises:
        InputError: they do not fit each other or their group.
    """
    found = _find(parts, stem, arrays)._replace(sides=None)
    weight, scale = arrays
    fitting = [
        group
        for group in groups
        if group.kind == "int" and _has_scales(weight.shape, group.block, scale)
    ]
    if not fitting:
        said = " and ".join(map(str, groups)) or "nothing"
        contradict(
            weight,
            f"I8 {list(weight.shape)} has {told(scale)}, and config.json says {said}",
        )
    if len({Grid.of(weight.shape, group.block).sides for group in fitting}) > 1:
        said = " and ".join(map(str, fitting))
        contradict(
            weight,
            f"I8 {list(weight.shape)} has {told(scale)}, which fits several of the groups that "
            f"config.json allows: {said}",
        )
    group = fitting[0]
    zeros = Zeros.NONE if found.zeros is None else Zeros.BYTES
    decoder = PackedInt(
        METHOD,
        group.bits,
        scale.dtype,
        group.block,
        Layout.BYTES,
        zeros,
        has_order=found.order is not None,
    )
    _check_zeros(found, group)
    _check(found, weight.shape, decoder)
    parts.join(weight.name, weight.shape, found.arrays, decoder)


def _find(parts: Parts, stem: str, arrays: tuple[SourceTensor, SourceTensor]) -> _Found:
    ends = ("zero_point", "g_idx", "shape")
    return _Found(*arrays, *(parts.get(f"{stem}.weight_{end}") for end in ends))


def _sides(found: _Found, values: Mapping[str, bytes]) -> tuple[int, ...] | None:
    """Return the logical shape that is stored, or None where none is, or it cannot be read."""
    sides = found.sides
    if sides is None:
        return None
    if sides.dtype != "I64" or len(sides.shape) != 1 or sides.shape[0] > 8:  # noqa: PLR2004
        contradict(sides, f"is {sides.dtype} {list(sides.shape)}, expected I64 [2]")
    data = values.get(sides.name, b"")
    if not any(data):
        return None
    shape = struct.unpack(f"<{sides.shape[0]}q", data)
    rows = found.packed.shape
    # Of a stack of matrices it may be that of each.
    if shape[:-1] != rows[:-1][-len(shape) + 1 :] or not 0 < shape[-1] < 1 << 40:
        contradict(sides, f"says {list(shape)}, and {told(found.packed)} has other rows")
    return (*rows[:-1], shape[-1])


def _any_group(found: _Found, sides: tuple[int, ...] | None) -> Iterator[CtGroup]:
    """Yield every way to quantize that the shapes allow where nothing is said."""
    *_, across = found.scale.shape or (0,)
    if sides is None or not across or sides[-1] % across:
        return
    block = (1, sides[-1] // across if across > 1 else 0)
    for bits in _BITS:
        yield CtGroup("any", (), "", bits, "int", block, found.zeros is None)


def _fitting(
    found: _Found, group: CtGroup, sides: tuple[int, ...] | None
) -> Iterator[tuple[tuple[int, ...], PackedInt]]:
    """Yield logical shape and decoder where the arrays are those of a group."""
    packed, scale = found.packed, found.scale
    if group.kind != "int" or group.bits not in _BITS or len(packed.shape) < _MATRIX:
        return
    *rows, words = packed.shape
    *_, groups = scale.shape or (0,)
    width = group.block[1]
    zeros = Zeros.NONE
    if (found.zeros is None) != group.is_symmetric and not _is_needless(found, group):
        return
    if found.zeros is not None:
        zeros = Zeros.PACKED if found.zeros.dtype == "I32" else Zeros.BYTES
    for layout in (Layout.WORDS, Layout.PADDED):
        decoder = PackedInt(
            METHOD,
            group.bits,
            scale.dtype,
            group.block,
            layout,
            zeros,
            has_order=found.order is not None,
            sides=0 if found.sides is None else found.sides.nbytes // 8,
        )
        in_a_word = _WORD // group.bits
        whole = words * _WORD // group.bits if layout is Layout.WORDS else words * in_a_word
        columns = sides[-1] if sides else groups * width if width else whole
        shape = (*rows, columns)
        if decoder.words(columns) == words and _has_scales(shape, group.block, scale):
            yield shape, decoder
            return


def _is_needless(found: _Found, group: CtGroup) -> bool:
    """Return whether there are zero points that are 0, as in old files of symmetric types."""
    return group.is_symmetric and found.zeros is not None and found.zeros.dtype == "I8"


def _has_scales(shape: tuple[int, ...], block: tuple[int, int], scale: SourceTensor) -> bool:
    """Return whether scales are those of blocks, and blocks of whole groups."""
    height, width = block
    if len(shape) < _MATRIX:
        return False
    if height == 1 and width and shape[-1] % width:
        return False
    grid = Grid.of(shape, block)
    if block == (0, 0):
        return scale.shape in {(), (1,)} and grid.matrices == 1
    if block == (1, 0) and scale.shape == shape[:-1]:
        return True
    return scale.shape == (*shape[:-_MATRIX], grid.down, grid.across)


def _check_zeros(found: _Found, group: CtGroup) -> None:
    if found.zeros is None and not group.is_symmetric:
        contradict(
            found.packed, f"has no zero points, and config.json says {group}, not symmetric"
        )


def _check(found: _Found, shape: tuple[int, ...], decoder: PackedInt) -> None:
    """Refuse small arrays of other dtypes or shapes: decoding reads where these point."""
    scale, zeros, order = found.scale, found.zeros, found.order
    if scale.dtype not in _SCALES:
        contradict(scale, f"is {scale.dtype}, expected one of {', '.join(_SCALES)}")
    grid = Grid.of(shape, decoder.block)
    if zeros is not None and decoder.zeros is Zeros.PACKED:
        down = decoder.zero_words.count(grid.rows)
        expected = ("I32", (*shape[:-_MATRIX], down, grid.across))
        if (zeros.dtype, zeros.shape) != expected or grid.height != 1:
            contradict(
                zeros, f"is {zeros.dtype} {list(zeros.shape)}, expected I32 {list(expected[1])}"
            )
    elif zeros is not None and (zeros.dtype, zeros.shape) != ("I8", scale.shape):
        contradict(
            zeros, f"is {zeros.dtype} {list(zeros.shape)}, expected I8 {list(scale.shape)}"
        )
    if order is not None:
        check_order(order, found.packed, shape, decoder.block)


def check_order(
    order: SourceTensor, codes: SourceTensor, shape: tuple[int, ...], block: tuple[int, int]
) -> None:
    """Refuse groups of columns that are not those of a weight in groups.

    Args:
        shape: of the weight.
        block: rows and columns that share a scale.

    Raises:
        InputError: they are of another dtype or shape, or the weight has no groups.
    """
    if (order.dtype, order.shape) != ("I32", shape[-1:]):
        contradict(order, f"is {order.dtype} {list(order.shape)}, expected I32 [{shape[-1]}]")
    height, width = block
    if height != 1 or not width:
        contradict(order, f"tells the groups of {told(codes)}, which has none")
