"""The families of UQFF's layers: shapes that fit each other, and what reads the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

from importer.codecs.base import Decoder, Shape
from importer.codecs.ggml.decoder import Ggml
from importer.codecs.ggml.types import GGML_TYPES
from importer.codecs.plain import Plain
from importer.codecs.registry import codec_for
from importer.codecs.scaled.block_fp8 import BlockFp8
from importer.codecs.spec import GROUP_SIZES, QUANT_TYPES, Mode, with_group_size
from importer.codecs.uqff import hqq
from importer.codecs.uqff.f8q8 import BLOCK, BLOCK_BYTES, F8Q8
from importer.codecs.uqff.hqq import Hqq
from importer.formats.uqff.layers import Family, Layer
from importer.formats.uqff.problems import malformed, unread
from importer.sources.dtypes import is_floating
from importer.sources.tensor import StoredArray
from store.tensorfile import elements

_MATRIX: Final = 2
_STACK: Final = 3
_WORD: Final = 32
_BYTE: Final = 8
_FLOATS: Final = ("F32", "F16", "BF16")
_GGML: Final = frozenset({0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 30})
"""The types of GGML that mistral.rs has, in GGML's own numbers."""
_AFQ_BITS: Final = (2, 3, 4, 6, 8)
_E4M3: Final = 9
"""What mistral.rs calls the dtype of FP8 layers, in a table of its own."""
_MXFP4_VALUES: Final = "BF16"
"""What mistral.rs decodes MXFP4 to, and MLX: every value is exact in it."""


class Found(NamedTuple):
    """What a layer is.

    Attributes:
        shape: logical.
        arrays: that the decoder reads, as it wants them.
        is_ours: whether the store has a type of its own for just these arrays, so that the
            layer's other entries say nothing more.
    """

    shape: Shape
    arrays: tuple[StoredArray, ...]
    decoder: Decoder
    is_ours: bool = False


Arrays = Mapping[str, StoredArray]
"""The entries of a layer, by what follows `<key>.weight.`; its data have an empty name."""


def _ggml(layer: Layer, arrays: Arrays) -> Found:
    weight, shape = arrays[""], layer.shape
    number = layer.number("dtype")
    if number not in _GGML:
        name = GGML_TYPES[number].name if number in GGML_TYPES else "none"
        _unread(weight, f"is of GGML's type {number} ({name}), which mistral.rs does not have")
    kind = GGML_TYPES[number]
    if weight.dtype != "U8" or len(weight.shape) != 1:
        _bad(weight, "expected U8 in one dimension")
    if shape[-1] % kind.elements:
        _bad(weight, f"{kind.name} has blocks of {kind.elements}, and rows have {shape[-1]}")
    expected = elements(shape[:-1]) * kind.row_nbytes(shape[-1])
    if weight.nbytes != expected:
        _bad(weight, f"expected {expected} bytes for {list(shape)} in {kind.name}")
    if not kind.is_plain:
        return Found(shape, (weight,), Ggml(kind.name))
    values = weight._replace(dtype=kind.name, shape=shape)
    return Found(shape, (values,), Plain(kind.name), is_ours=True)


def _plain(_: Layer, arrays: Arrays) -> Found:
    weight = arrays[""]
    if not is_floating(weight.dtype):
        _bad(weight, "expected floats")
    return Found(weight.shape, (weight,), Plain(weight.dtype), is_ours=True)


def _hqq(layer: Layer, arrays: Arrays) -> Found:
    weight, scales, zeros = arrays[""], arrays["scales"], arrays["zeros"]
    shape, bits, group_size = layer.shape, layer.number("bits"), layer.number("group_size")
    if bits not in hqq.BITS:
        _unread(weight, f"is HQQ in {bits} bits, expected one of {hqq.BITS}")
    if layer.number("axis") or not layer.number("channel_wise"):
        _unread(weight, "is HQQ with groups that mistral.rs does not decode")
    _check_matrix(weight, shape)
    if scales.dtype not in hqq.SCALES or zeros.dtype != scales.dtype:
        _unread(weight, f"has scales of {scales.dtype} and zero points of {zeros.dtype}")
    count = elements(shape)
    if not group_size or count % group_size or group_size * bits % _BYTE:
        _bad(weight, f"{list(shape)} in {bits} bits has no groups of {group_size}")
    width = count // group_size
    if weight.dtype != "U8" or weight.shape != (group_size * bits // _BYTE, width):
        _bad(weight, f"expected U8 {[group_size * bits // _BYTE, width]}")
    for array in (scales, zeros):
        if array.shape != (1, width):
            _bad(array, f"expected [1, {width}]")
    return Found(shape, (weight, scales, zeros), Hqq(bits, group_size, scales.dtype))


def _fp8(layer: Layer, arrays: Arrays) -> Found:
    weight, scale = arrays[""], arrays["dequant_w_scale"]
    if layer.number("dtype") != _E4M3 or weight.dtype != "F8_E4M3":
        _unread(weight, f"is FP8 of type {layer.number('dtype')}, expected {_E4M3} in F8_E4M3")
    _check_matrix(weight, weight.shape)
    for name in ("dequant_w_scale", "dequant_x_scale", "quant_scale"):
        if arrays[name].dtype != "F32" or arrays[name].shape:
            _bad(arrays[name], "expected a scalar of F32")
    return Found(weight.shape, (weight, scale), BlockFp8("F8_E4M3", "F32"))


def _afq(layer: Layer, arrays: Arrays) -> Found:
    weight, scales, biases = arrays[""], arrays["scales"], arrays["biases"]
    bits, group_size = layer.number("bits"), layer.number("group_size")
    if bits not in _AFQ_BITS or group_size not in GROUP_SIZES[Mode.AFFINE]:
        _unread(weight, f"is AFQ in {bits} bits and groups of {group_size}")
    _check_stack(weight)
    if weight.dtype != "U32" or weight.shape[-1] * _WORD % bits:
        _bad(weight, f"expected U32 with rows of {bits} bits")
    shape = (*weight.shape[:-1], weight.shape[-1] * _WORD // bits)
    for array in (scales, biases):
        if (*array.shape[:-1], array.shape[-1:] and array.shape[-1] * group_size) != shape:
            _bad(array, f"expected one for each {group_size} of {list(shape)}")
    if scales.dtype not in _FLOATS or biases.dtype != scales.dtype:
        _unread(weight, f"has scales of {scales.dtype} and biases of {biases.dtype}")
    name = f"int{bits}"
    codec = codec_for(with_group_size(QUANT_TYPES[name], group_size), scales.dtype)
    return Found(shape, (weight, scales, biases), codec, is_ours=True)


def _f8q8(layer: Layer, arrays: Arrays) -> Found:
    weight, shape = arrays[""], layer.shape
    _check_matrix(weight, shape)
    blocks = -(-elements(shape) // BLOCK)
    if weight.dtype != "U8" or weight.shape != (blocks * BLOCK_BYTES,):
        _bad(weight, f"expected {blocks} blocks of {BLOCK_BYTES} bytes for {list(shape)}")
    if layer.number("num_blocks") != blocks:
        _bad(weight, f"{layer.number('num_blocks')} blocks are declared, expected {blocks}")
    return Found(shape, (weight,), F8Q8())


def _mxfp4(_: Layer, arrays: Arrays) -> Found:
    weight, scales = arrays[""], arrays["scales"]
    spec = QUANT_TYPES["mxfp4"]
    _check_stack(weight)
    shape = (*weight.shape[:-1], weight.shape[-1] * 2)
    if weight.dtype != "U8" or shape[-1] % spec.group_size:
        _bad(weight, f"expected U8 with rows of whole groups of {spec.group_size}")
    if scales.dtype != "U8" or scales.shape != (*shape[:-1], shape[-1] // spec.group_size):
        _bad(scales, f"expected U8, one for each {spec.group_size} of {list(shape)}")
    return Found(shape, (weight, scales), codec_for(spec, _MXFP4_VALUES), is_ours=True)


FAMILIES: Final[Mapping[Family, Callable[[Layer, Arrays], Found]]] = MappingProxyType(
    {
        Family.GGML: _ggml,
        Family.PLAIN: _plain,
        Family.HQQ: _hqq,
        Family.FP8: _fp8,
        Family.AFQ: _afq,
        Family.F8Q8: _f8q8,
        Family.MXFP4: _mxfp4,
    }
)
"""What makes of a family's entries what is read, all checked against each other."""


def _check_matrix(weight: StoredArray, shape: Shape) -> None:
    if len(shape) == _STACK:
        _unread(weight, "has all experts, which mistral.rs does not read in this family")
    if len(shape) != _MATRIX:
        _bad(weight, "expected a matrix")


def _check_stack(weight: StoredArray) -> None:
    if len(weight.shape) not in {_MATRIX, _STACK}:
        _bad(weight, "expected a matrix, or those of all experts")


def _bad(array: StoredArray, expected: str) -> NoReturn:
    shown = f"`{array.name}` is {array.dtype} {list(array.shape)}: {expected}"
    malformed(f"`{array.file.path}`", shown)


def _unread(array: StoredArray, what: str) -> NoReturn:
    unread(f"`{array.file.path}`", f"`{array.name}` {what}")
