"""Make tensors of what an ONNX file says about weights; contradictions are errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NoReturn

from importer.codecs.onnx.dequantize_linear import DequantizeLinear
from importer.codecs.onnx.matmul_nbits import LARGEST, MatMulNBits
from importer.formats.onnx.problems import malformed
from importer.formats.onnx.quantized import Blocks, Linear
from importer.formats.onnx.tensors import Tensor
from importer.sources.tensor import SourceTensor

_KINDS: Final = {
    "UINT8": "uint8",
    "INT8": "int8",
    "UINT16": "uint16",
    "INT16": "int16",
    "INT32": "int32",
    "UINT4": "uint4",
    "INT4": "int4",
    "UINT2": "uint2",
    "INT2": "int2",
    "FLOAT8E4M3FN": "float8e4m3fn",
    "FLOAT8E4M3FNUZ": "float8e4m3fnuz",
    "FLOAT8E5M2": "float8e5m2",
    "FLOAT8E5M2FNUZ": "float8e5m2fnuz",
    "FLOAT4E2M1": "float4e2m1",
}
"""The types of codes that DequantizeLinear takes."""
_SCALES: Final = frozenset({"FLOAT", "FLOAT16", "BFLOAT16"})
_OUTPUTS: Final = {0: "", 1: "F32", 10: "F16", 16: "BF16"}
"""The dtypes of values by ONNX's numbers; 0 is not said."""
_LEAST_BLOCK: Final = 16
_BITS: Final = (2, 4, 8)
_CHOSEN_BITS: Final = 4
_HALF: Final = 1 << 31

Tensors = Mapping[str, SourceTensor]


def join_linear(found: Linear, tensors: Tensors, where: str) -> SourceTensor | str:
    """Make a tensor of codes, scales and zero points, or say why not.

    Raises:
        InputError: their shapes or types contradict each other.
    """
    codes, scale, zero = found.codes, found.scale, found.zero
    if codes.kind.name not in _KINDS:
        return f"codes of {codes.kind.name} are not decoded"
    if scale.kind.name not in _SCALES:
        return f"scales of {scale.kind.name} are not decoded"
    if found.output not in _OUTPUTS:
        return f"values of another type are not decoded (output_dtype={found.output})"
    if zero is not None and zero.kind is not codes.kind:
        _bad(where, codes, f"is {codes.kind.name}, its zero point {zero.kind.name}")
    if zero is not None and zero.shape != scale.shape and zero.elements != scale.elements:
        _bad(
            where,
            codes,
            f"has scales {list(scale.shape)} and zero points {list(zero.shape)}",
        )
    kinds = _KINDS[codes.kind.name]
    parts = [tensors[one.name] for one in (codes, scale, zero) if one is not None]
    decoder = DequantizeLinear(
        parts[0].decoder,
        kinds,
        parts[1].decoder,
        None if zero is None else parts[2].decoder,
        output=_OUTPUTS[found.output],
    )
    if scale.elements != 1 or found.block:
        axis = found.axis + (len(codes.shape) if found.axis < 0 else 0)
        if not 0 <= axis < len(codes.shape) or not 0 <= found.block < _HALF:
            _bad(
                where,
                codes,
                f"{list(codes.shape)} has scales along axis {found.axis} in blocks of "
                f"{found.block}",
            )
        decoder = replace(decoder, axis=axis, block=found.block)
        if scale.elements != _count(decoder.scale_shape(codes.shape)) or (
            found.block and scale.shape != decoder.scale_shape(codes.shape)
        ):
            _bad(
                where,
                codes,
                f"{list(codes.shape)} has scales {list(scale.shape)}, expected "
                f"{list(decoder.scale_shape(codes.shape))}",
            )
    if not decoder.is_bounded(codes.shape):
        return "its scales lie too far apart"
    arrays = tuple(array for part in parts for array in part.arrays)
    return SourceTensor(parts[0].name, codes.shape, arrays, decoder, parts[0].component)


def join_blocks(found: Blocks, tensors: Tensors, where: str) -> SourceTensor | str:
    """Make a tensor `[out, in]` of what MatMulNBits reads, or say why not.

    Raises:
        InputError: shapes, types and attributes contradict each other.
    """
    codes, scale, zero, groups = found.codes, found.scale, found.zero, found.groups
    ints = dict(found.ints)
    rows, columns, block = (ints.get(name, 0) for name in ("N", "K", "block_size"))
    bits = ints.get("bits", 4)
    if not (0 < rows < _HALF and 0 < columns < _HALF and _is_power(block)):
        _bad(where, codes, f"has K={columns}, N={rows}, block_size={block}")
    if why := _why_unread(found, ints):
        return why
    if groups is not None and groups.kind.name != "INT32":
        _bad(where, codes, f"has g_idx of {groups.kind.name}, expected INT32")
    is_packed = zero is not None and zero.kind.name == "UINT8"
    if groups is not None and (is_packed or bits != _CHOSEN_BITS):
        # onnxruntime 1.32 refuses 8 bits, and computes with 8 in place of packed zero points.
        return "it has g_idx together with packed zero points, or in another width than 4 bits"
    if columns > LARGEST:
        return f"its rows have more than {LARGEST} columns"
    parts = [tensors[one.name] for one in (codes, scale, zero, groups) if one is not None]
    decoder = MatMulNBits(
        bits,
        block,
        parts[0].decoder,
        parts[1].decoder,
        None if zero is None else parts[2].decoder,
        None if groups is None else parts[-1].decoder,
    )
    expected = decoder.shapes((rows, columns))
    for one, shape in zip((codes, scale, zero, groups), expected, strict=True):
        # Older files have scales and zero points in one dimension, newer ones in two.
        if one is not None and one.elements != _count(shape):
            _bad(where, one, f"is {list(one.shape)}, expected {list(shape)} for K={columns}")
    arrays = tuple(array for part in parts for array in part.arrays)
    return SourceTensor(parts[0].name, (rows, columns), arrays, decoder, parts[0].component)


def _why_unread(found: Blocks, ints: Mapping[str, int]) -> str | None:
    """Return why codes are not decoded, as far as their types and attributes tell."""
    codes, scale, zero, bits = found.codes, found.scale, found.zero, ints.get("bits", 4)
    if layout := ints.get("weight_prepacked"):
        return f"its codes are in the order of a GPU's kernel (weight_prepacked={layout})"
    if bits not in _BITS:
        return f"codes of {bits} bits are not decoded"
    if codes.kind.name != "UINT8" or scale.kind.name not in _SCALES:
        return f"codes of {codes.kind.name} with scales of {scale.kind.name} are not decoded"
    if zero is not None and zero.kind.name not in {"UINT8", *_SCALES}:
        return f"zero points of {zero.kind.name} are not decoded"
    return None


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _is_power(block: int) -> bool:
    return _LEAST_BLOCK <= block < _HALF and block & (block - 1) == 0


def _bad(where: str, tensor: Tensor, what: str) -> NoReturn:
    malformed(where, f"`{tensor.name}` {what}", "E_QUANT_PAIR")
