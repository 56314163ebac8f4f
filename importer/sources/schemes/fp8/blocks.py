"""Which block of an FP8 weight has a scale: by the shapes of both, and what is declared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.codecs.registry import codec_for
from importer.codecs.scaled.block_fp8 import SCALES, BlockFp8, in_words
from importer.codecs.scaled.blocks import Block, Grid
from importer.codecs.spec import QUANT_TYPES
from importer.sources.schemes.parts import contradict, told

if TYPE_CHECKING:
    from importer.codecs.base import Decoder, Shape
    from importer.sources.tensor import SourceTensor

_MATRIX: Final = 2
_STACK: Final = 3
_USUAL: Final = (128, 128)
_MX: Final = QUANT_TYPES["mxfp8"]
_BLOCKED: Final = 4


class Declared(NamedTuple):
    """What a configuration says of the scales of a weight.

    Attributes:
        block: rows and columns that share a scale, or None where nothing is said.
        where: that says it, for messages.
    """

    block: Block | None = None
    where: str = "config.json"


NOTHING: Final = Declared()


def fp8_decoder(
    weight: SourceTensor, scale: SourceTensor, declared: Declared, *, may_be_mx: bool = True
) -> Decoder:
    """Return what reads an FP8 weight with a scale.

    A matrix with a power of two for each 32 codes is MXFP8, a type of the store.

    Args:
        may_be_mx: whether it is taken for that, as its arrays can be named again.

    Raises:
        InputError: the shapes do not fit each other or what is declared.
    """
    kinds = (*SCALES, "U8")
    if scale.dtype not in kinds:
        contradict(scale, f"is {scale.dtype}, expected one of {', '.join(kinds)}")
    block, is_shared = _block(weight, scale, declared)
    kind = "F8_E8M0" if scale.dtype == "U8" else scale.dtype
    is_mx = kind == "F8_E8M0" and weight.dtype == "F8_E4M3"
    if may_be_mx and is_mx and _is_mx(weight.shape, scale.shape):
        return codec_for(_MX, "BF16")
    return BlockFp8(weight.dtype, kind, block, is_shared=is_shared)


def fitting_block(weight: SourceTensor, scale: SourceTensor, block: Block) -> Block | None:
    """Return what shares a scale (`Grid.sides`), or None where a weight has other scales."""
    found = _by_declared(weight.shape, _sizes(scale.shape, weight.shape), block)
    return None if found is None else Grid.of(weight.shape, found[0]).sides


def _is_mx(weight: Shape, scale: Shape) -> bool:
    size = _MX.group_size
    fits = bool(weight) and weight[-1] % size == 0
    return fits and scale == (*weight[:-1], weight[-1] // size)


def _block(weight: SourceTensor, scale: SourceTensor, declared: Declared) -> tuple[Block, bool]:
    shape, sizes = weight.shape, _sizes(scale.shape, weight.shape)
    if declared.block is not None:
        if (told_by := _by_declared(shape, sizes, declared.block)) is not None:
            return told_by
        words = in_words(declared.block)
        said = f"one for each {words}" if words else "one for the tensor"
        contradict(weight, f"{list(shape)} has {told(scale)}, and {declared.where} says {said}")
    found = _by_shapes(shape, sizes)
    if found is None:
        contradict(
            weight,
            f"{list(shape)} has {told(scale)}, which is neither a scale of the tensor, nor of "
            "channels, nor of blocks",
        )
    return found


def _sizes(scale: Shape, weight: Shape) -> Shape:
    """Return the shape of the scales as if there was one for each block of each matrix."""
    *outer, rows, columns = (1, 1, *weight)[-max(len(weight), _MATRIX) :]
    if math.prod(scale) == 1:
        return (1,) * max(len(weight), 1)
    if len(scale) == _BLOCKED and len(weight) == _MATRIX and scale[1] == scale[3] == 1:
        return scale[0], scale[2]  # ModelOpt keeps the dimensions that it reduced
    if scale == tuple(outer):
        return (*scale, 1, 1)
    if len(scale) != len(weight) - 1 or scale[:-1] != tuple(outer):
        return scale
    if outer and rows == columns:
        return ()  # of rows or of columns: nothing tells
    return (*outer, 1, columns) if outer and scale[-1] == columns else (*scale, 1)


def _by_declared(shape: Shape, sizes: Shape, block: Block) -> tuple[Block, bool] | None:
    """Return the block, and whether one is for all matrices; None where it does not fit."""
    if _expected(shape, block) == sizes:
        return block, False
    if sizes == _halves(shape, block):
        return (shape[-_MATRIX] // 2, block[1]), False
    if block == (0, 0) and _by_shapes(shape, sizes) == ((0, 0), True):
        return (0, 0), True
    return None


def _by_shapes(shape: Shape, sizes: Shape) -> tuple[Block, bool] | None:
    """Return the block that the number of scales tells, and whether one is for all matrices."""
    if all(side == 1 for side in sizes) and len(sizes) == max(len(shape), 1):
        return (0, 0), any(side != 1 for side in shape[:-_MATRIX])
    if len(sizes) != len(shape) or len(shape) < _MATRIX or sizes[:-_MATRIX] != shape[:-_MATRIX]:
        return None
    (rows, columns), (down, across) = shape[-_MATRIX:], sizes[-_MATRIX:]
    for block in ((0, 0), (1, 0), (0, 1), _USUAL):
        if _expected(shape, block) == sizes:
            return block, False
    if not (down and across and rows and columns) or rows % down or columns % across:
        return None
    return (rows // down, columns // across), False


def _expected(shape: Shape, block: Block) -> Shape:
    """Return the shape of the scales of blocks."""
    if len(shape) < _MATRIX:
        return (1,) if block == (0, 0) else ()
    sides = zip(shape[-_MATRIX:], block, strict=True)
    return (
        *shape[:-_MATRIX],
        *(-(-side // wanted) if wanted else 1 for side, wanted in sides),
    )


def _halves(shape: Shape, block: Block) -> Shape:
    """Return the shape of the scales of gate and up in one matrix of fewer rows than a block.

    transformers keeps room for a row of each (`_alloc_expert_proj`), and so knows the height of
    a block by the number of rows.
    """
    expected = _expected(shape, block)
    is_one = len(shape) == _STACK and expected[-_MATRIX] == 1 and not shape[-_MATRIX] % 2
    return (shape[0], 2, expected[-1]) if is_one else ()
