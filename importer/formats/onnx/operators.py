"""Operators that read weights in codes: which of their inputs are codes, scales, zero points.

Source: the operators of ONNX (DequantizeLinear, MatMulInteger, ConvInteger, QLinearMatMul,
QLinearConv) and of onnxruntime's `com.microsoft` (docs/ContribOperators.md).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from importer.formats.onnx.scope import FILL, SAME

_MS: Final = "com.microsoft."
N_BITS: Final = f"{_MS}MatMulNBits"
DEQUANTIZE: Final = frozenset({"DequantizeLinear", f"{_MS}DequantizeLinear"})


class Inputs(NamedTuple):
    """Which inputs of an operator are a weight.

    Attributes:
        axis: that has a scale for each of its elements, unless there is one scale for all.
    """

    weight: int
    scale: int
    zero: int
    axis: int


OPERATORS: Final = {
    "QLinearMatMul": Inputs(3, 4, 5, -1),
    "QLinearConv": Inputs(3, 4, 5, 0),
    f"{_MS}MatMulIntegerToFloat": Inputs(1, 3, 5, -1),
    f"{_MS}DynamicQuantizeMatMul": Inputs(1, 2, 3, -1),
    f"{_MS}QAttention": Inputs(1, 4, 7, -1),
    f"{_MS}QGemm": Inputs(3, 4, 5, -1),
    f"{_MS}QLinearAdd": Inputs(3, 4, 5, -1),
    f"{_MS}QLinearMul": Inputs(3, 4, 5, -1),
}
BIASES: Final = {"QLinearConv": 8, f"{_MS}QGemm": 6}
"""Which input is a bias in codes whose scale is the product of two others."""
INTEGER: Final = {"MatMulInteger": -1, "ConvInteger": 0}
"""The scale of their second input is multiplied later; the axis that it is for."""
LOOKUP: Final = f"{_MS}GatherBlockQuantized"
UNREAD: Final = {
    f"{_MS}MatMulBnb4": (1,),
    f"{_MS}MatMulFpQ4": (1,),
    f"{_MS}QMoE": (2, 5, 8),
    f"{_MS}DynamicQuantizeLSTM": (1, 2),
    f"{_MS}QEmbedLayerNormalization": (2, 3, 4),
    f"{_MS}GemmFloat8": (1,),
    f"{_MS}MatMulBlockQuantizedFp4Weight": (1,),
    f"{_MS}MatMulBlockQuantizedFp8Weight": (1,),
    f"{_MS}MatMulNBitsMlp": (3, 6),
    f"{_MS}MatMulNBitsQLoRA": (1, 3, 5),
    f"{_MS}MatMulNBitsQkv": (3, 6, 9),
    f"{_MS}MatMulPacked": (1,),
    f"{_MS}QOrderedAttention": (5, 6, 7),
    f"{_MS}QOrderedLongformerAttention": (2, 8),
    f"{_MS}QOrderedMatMul": (2,),
}
"""Which inputs of other operators are quantized weights."""
CAST: Final = "Cast"
MOVES: Final = frozenset(
    {"Flatten", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)
"""What gives values in another order, or some of them: one scale for all still fits."""
_STEPS: Final = frozenset({CAST, "Mul", SAME, FILL, *MOVES})
OPS: Final = frozenset({N_BITS, LOOKUP, *DEQUANTIZE, *OPERATORS, *INTEGER, *UNREAD, *_STEPS})
"""The operators that say something about weights."""
