"""ModelOpt's types: which arrays hold each, and what reads them."""

from __future__ import annotations

from typing import Final, NamedTuple

from importer.codecs.base import Decoder
from importer.codecs.registry import codec_for
from importer.codecs.scaled.columns import ColumnScaled
from importer.codecs.scaled.fp4_down import HEIGHT, Fp4Down
from importer.codecs.scaled.global_scaled import GROUPS, GlobalNvfp4, ScaledFp4
from importer.codecs.scaled.integers import Layout, PackedInt
from importer.codecs.spec import QUANT_TYPES
from importer.sources.schemes.fp8.blocks import Declared, fp8_decoder
from importer.sources.schemes.fp8.scheme import READ
from importer.sources.schemes.modelopt.config import Algorithm
from importer.sources.schemes.parts import contradict, told
from importer.sources.tensor import SourceTensor

_FAMILY: Final = "modelopt"
_FLOATS: Final = ("F32", "BF16", "F16")
_BLOCKS: Final = {"FP8": (0, 0), "FP8_PER_CHANNEL_PER_TOKEN": (1, 0)}
_IN_A_BYTE: Final = 2
_MATRIX: Final = 2
_STACK: Final = 3

Pair = tuple[SourceTensor, SourceTensor]


class Read(NamedTuple):
    """The logical shape of a weight, and what reads its arrays."""

    shape: tuple[int, ...]
    decoder: Decoder


def nvfp4(
    arrays: tuple[SourceTensor, SourceTensor, SourceTensor], algorithm: Algorithm | None
) -> Read:
    """Read FP4 codes, their scales, and the scales of the matrices."""
    weight, scale, second = arrays
    _check_kind(weight, "nvfp4", algorithm)
    if (weight.dtype, scale.dtype, second.dtype) != ("U8", "F8_E4M3", "F32"):
        contradict(
            weight,
            f"is {weight.dtype} and has {told(scale)} and {told(second)}, expected U8, "
            "F8_E4M3 and F32",
        )
    down = _down(weight, scale)
    shape, size = (down, HEIGHT) if down else _unpacked(weight, scale)
    _check_size(weight, scale, size, algorithm)
    if size not in GROUPS:
        contradict(weight, f"has {told(scale)}, groups of {size}, expected 16 or 32")
    matrices, count = ScaledFp4(size).matrices(shape), second.nbytes // 4
    if count not in {1, matrices}:
        contradict(second, f"has {count} numbers, and {told(weight)} is {matrices} matrices")
    is_shared = count < matrices
    if down:
        return Read(shape, Fp4Down(is_shared=is_shared))
    if size == QUANT_TYPES["nvfp4"].group_size and second.shape == shape[:-_MATRIX]:
        return Read(shape, GlobalNvfp4())  # in other shapes there is no way back
    return Read(shape, ScaledFp4(size, is_shared=is_shared))


def mxfp4(arrays: Pair, algorithm: Algorithm | None) -> Read:
    """Read FP4 codes and their powers of two."""
    weight, scale = arrays
    _check_kind(weight, "mxfp4", algorithm)
    shape, size = _unpacked(weight, scale)
    _check_size(weight, scale, size, algorithm)
    spec = QUANT_TYPES["mxfp4"]
    if size != spec.group_size:
        contradict(weight, f"{list(weight.shape)} has {told(scale)}, expected groups of 32")
    return Read(shape, codec_for(spec, "BF16"))


def fp8(arrays: Pair, algorithm: Algorithm | None) -> Read | None:
    """Read FP8 codes and their scales; None of other codes than those of the OCP."""
    weight, scale = arrays
    kind = "mxfp8" if scale.dtype in {"U8", "F8_E8M0"} else "fp8"
    _check_kind(weight, kind, algorithm)
    if weight.dtype not in READ:
        return None
    block = None if algorithm is None else _BLOCKS.get(algorithm.name.upper())
    if len(weight.shape) > _MATRIX:
        block = None  # of experts one each, or one for all
    where = "its configuration" if algorithm is None else algorithm.name
    return Read(weight.shape, fp8_decoder(weight, scale, Declared(block, where)))


def int4(arrays: Pair, algorithm: Algorithm | None) -> Read:
    """Read integers of four bits, two rows in a byte, and their scales."""
    weight, scale = arrays
    _check_kind(weight, "int4", algorithm)
    if len(weight.shape) < _MATRIX:
        contradict(weight, f"{list(weight.shape)} has {told(scale)}, and is not a matrix")
    *outer, pairs, columns = weight.shape
    shape = (*outer, pairs * _IN_A_BYTE, columns)
    *rows, groups = scale.shape or (0,)
    if tuple(rows) != shape[:-1] or not groups or columns % groups:
        contradict(weight, f"{list(weight.shape)} does not fit {told(scale)}")
    _check_size(weight, scale, columns // groups, algorithm)
    block = (1, columns // groups if groups > 1 else 0)
    return Read(shape, PackedInt(_FAMILY, 4, _float(scale), block, Layout.ROWS))


def int8(arrays: Pair, algorithm: Algorithm | None) -> Read:
    """Read integers of a byte and the scale of each channel."""
    weight, scale = arrays
    _check_kind(weight, "int8", algorithm)
    shape = weight.shape
    if not shape[:-1] or scale.shape not in {shape[:-1], (*shape[:-1], 1)}:
        contradict(weight, f"{list(shape)} has {told(scale)}, expected one for each row")
    return Read(shape, PackedInt(_FAMILY, 8, _float(scale), (1, 0), Layout.BYTES))


def with_inputs(read: Read, inputs: SourceTensor) -> Read:
    """Read a weight whose inputs are scaled; the scales are the last of its arrays."""
    if inputs.shape != read.shape[-1:] or read.decoder.value_dtype != "F32":
        contradict(
            inputs, f"is {list(inputs.shape)}, and its weight {read.decoder} {list(read.shape)}"
        )
    return Read(read.shape, ColumnScaled(read.decoder, _float(inputs)))


def _down(weight: SourceTensor, scale: SourceTensor) -> tuple[int, ...]:
    """Return the shape of experts with two codes of a column in a byte; empty of others."""
    if len(weight.shape) != _STACK or len(scale.shape) != _STACK:
        return ()
    experts, pairs, columns = weight.shape
    groups = scale.shape[1]
    is_down = groups and scale.shape == (experts, groups, columns)
    rows = pairs * _IN_A_BYTE
    return (experts, rows, columns) if is_down and rows == groups * HEIGHT else ()


def _unpacked(weight: SourceTensor, scale: SourceTensor) -> tuple[tuple[int, ...], int]:
    """Return the shape of two codes a byte, and how many share a scale."""
    *rows, nbytes = weight.shape or (0,)
    *outer, groups = scale.shape or (0,)
    columns = nbytes * _IN_A_BYTE
    if rows != outer or not rows or not groups or columns % groups:
        contradict(weight, f"{list(weight.shape)} does not fit {told(scale)}")
    return (*rows, columns), columns // groups


def _check_kind(weight: SourceTensor, kind: str, algorithm: Algorithm | None) -> None:
    if algorithm is not None and algorithm.kind != kind:
        contradict(weight, f"is stored as {kind}, and {algorithm}")


def _check_size(
    weight: SourceTensor, scale: SourceTensor, size: int, algorithm: Algorithm | None
) -> None:
    said = None if algorithm is None else algorithm.group_size
    if said is not None and said != size:
        contradict(weight, f"has {told(scale)}, groups of {size}, and {algorithm}")


def _float(scale: SourceTensor) -> str:
    if scale.dtype not in _FLOATS:
        contradict(scale, f"is {scale.dtype}, expected one of {', '.join(_FLOATS)}")
    return scale.dtype
