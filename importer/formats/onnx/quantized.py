"""Which tensors of a model are the codes, scales and zero points of one weight: nodes say it.

Source: the operators of ONNX (DequantizeLinear, MatMulInteger, ConvInteger, QLinearMatMul,
QLinearConv) and of onnxruntime's `com.microsoft` (docs/ContribOperators.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from importer.formats.onnx.graph import Node, Scope
from importer.formats.onnx.tensors import Tensor

_MS: Final = "com.microsoft."
N_BITS: Final = f"{_MS}MatMulNBits"
_QUANTIZED: Final = "_quantized"
_DEQUANTIZE: Final = frozenset({"DequantizeLinear", f"{_MS}DequantizeLinear"})


class _Inputs(NamedTuple):
    """Which inputs of an operator are a weight.

    Attributes:
        axis: that has a scale for each of its elements, unless there is one scale for all.
    """

    weight: int
    scale: int
    zero: int
    axis: int


_OPERATORS: Final = {
    "QLinearMatMul": _Inputs(3, 4, 5, -1),
    "QLinearConv": _Inputs(3, 4, 5, 0),
    f"{_MS}MatMulIntegerToFloat": _Inputs(1, 3, 5, -1),
    f"{_MS}DynamicQuantizeMatMul": _Inputs(1, 2, 3, -1),
    f"{_MS}QAttention": _Inputs(1, 4, 7, -1),
    f"{_MS}QGemm": _Inputs(3, 4, 5, -1),
}
_INTEGER: Final = {"MatMulInteger": -1, "ConvInteger": 0}
"""The scale of their second input is multiplied later; the axis that it is for."""
_LOOKUP: Final = f"{_MS}GatherBlockQuantized"
_UNREAD: Final = {
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
_FLOATS: Final = frozenset({"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"})
_STEPS: Final = frozenset({"Cast", "Mul", "Gather"})
OPS: Final = frozenset(
    {N_BITS, _LOOKUP, *_DEQUANTIZE, *_OPERATORS, *_INTEGER, *_UNREAD, *_STEPS}
)
"""The operators that say something about weights."""


class Linear(NamedTuple):
    """A weight that is `(codes - zero) * scale`.

    Attributes:
        zero: the code of zero, or None for 0.
        axis: that scales and zero points are along; may be negative.
        block: elements along the axis that have one scale, or 0 for one.
        output: the number of the type of the values, or 0 for that of the scales.
    """

    codes: Tensor
    scale: Tensor
    zero: Tensor | None
    axis: int
    block: int
    output: int = 0


class Blocks(NamedTuple):
    """A weight as MatMulNBits has it: blocks of a row of packed codes.

    Attributes:
        groups: of each column, the block whose scale it has; None for its own.
        ints: `K` and `N`, columns and rows, `bits` and `block_size`.
    """

    codes: Tensor
    scale: Tensor
    zero: Tensor | None
    groups: Tensor | None
    ints: tuple[tuple[str, int], ...]


class Unread(NamedTuple):
    """A weight of an operator whose quantization is not known.

    Attributes:
        op: the operator.
    """

    codes: Tensor
    op: str


Quantized = Linear | Blocks | Unread


class _Place(NamedTuple):
    """Which input has the zero points, and what they and the scales are along."""

    zero: int
    axis: int
    block: int = 0


def find_quantized(
    scopes: Iterable[Scope], tensors: Mapping[str, Tensor]
) -> Iterator[Quantized]:
    """Yield what the graphs say about weights, in the order of the nodes.

    Args:
        scopes: of all graphs.
        tensors: of all graphs, by name.
    """
    known = set()
    for scope in scopes:
        graph = _Graph(scope)
        for node in scope.nodes:
            for found in graph.weights(node):
                known.add(found.codes.name)
                yield found
    for name, codes in tensors.items():
        stem = name.removesuffix(_QUANTIZED)
        scale = tensors.get(f"{stem}_scale") if stem != name and name not in known else None
        # Where the nodes are too far apart: onnxruntime's names for weights with one scale.
        if scale is not None and scale.elements == 1:
            yield Linear(codes, scale, tensors.get(f"{stem}_zero_point"), 0, 0)


class _Graph:
    """The nodes of one graph by the names that they read and make."""

    def __init__(self, scope: Scope) -> None:
        self._scope: Final = scope
        self._makers = {name: node for node in scope.nodes for name in node.outputs if name}
        self._readers: dict[str, list[Node]] = {}
        for node in scope.nodes:
            for name in filter(None, node.inputs):
                self._readers.setdefault(name, []).append(node)

    def weights(self, node: Node) -> Iterator[Quantized]:
        """Yield what a node says about weights whose values are in the file."""
        for number in _UNREAD.get(node.op, ()):
            codes = self._input(node, number)
            if codes is not None and codes.kind.name not in _FLOATS:
                yield Unread(codes, node.op)
        if (found := self._weight(node)) is not None:
            yield found

    def _weight(self, node: Node) -> Quantized | None:
        if node.op == N_BITS:
            return self._blocks(node)
        if node.op in _DEQUANTIZE:
            return self._dequantized(node)
        if node.op == _LOOKUP:
            return self._looked_up(node)
        if node.op in _INTEGER:
            codes, scale = self._input(node, 1), self._later_scale(node)
            return self._linear(node, codes, scale, _Place(3, _INTEGER[node.op]))
        if (inputs := _OPERATORS.get(node.op)) is None:
            return None
        codes, scale = self._input(node, inputs.weight), self._input(node, inputs.scale)
        axis = 0 if node.ints.get("transB") else inputs.axis
        return self._linear(node, codes, scale, _Place(inputs.zero, axis))

    def _linear(
        self,
        node: Node,
        codes: Tensor | None,
        scale: Tensor | None,
        place: _Place,
    ) -> Linear | None:
        if codes is None or scale is None or self._is_computed(node, place.zero):
            return None
        zero = self._input(node, place.zero)
        return Linear(codes, scale, zero, place.axis, place.block)

    def _dequantized(self, node: Node) -> Linear | None:
        codes, scale = self._input(node, 0), self._input(node, 1)
        maker = self._makers.get(node.inputs[0]) if node.inputs else None
        if codes is None and maker is not None and maker.op == "Gather" and scale is not None:
            # Rows of a table are looked up first; one scale for all is that of the table.
            codes = self._input(maker, 0) if scale.elements == 1 else None
        axis, block = node.ints.get("axis", 1), node.ints.get("block_size", 0)
        found = self._linear(node, codes, scale, _Place(2, axis, block))
        return found and found._replace(output=node.ints.get("output_dtype", 0))

    def _blocks(self, node: Node) -> Blocks | None:
        codes, scale = self._input(node, 1), self._input(node, 2)
        if codes is None or scale is None:
            return None
        if self._is_computed(node, 3) or self._is_computed(node, 4):
            return None
        ints = tuple(sorted(node.ints.items()))
        return Blocks(codes, scale, self._input(node, 3), self._input(node, 4), ints)

    def _looked_up(self, node: Node) -> Quantized | None:
        codes, scale = self._input(node, 0), self._input(node, 2)
        axis, block = node.ints.get("quantize_axis", 1), node.ints.get("block_size", 128)
        if codes is None or codes.kind.name != "UINT8":
            sides = codes.shape if codes is not None and block == 0 else ()
            if -len(sides) <= axis < len(sides):
                block = sides[axis]
            return self._linear(node, codes, scale, _Place(3, axis, block))
        # Packed in bytes, it has the layout of MatMulNBits where blocks are full.
        bits = node.ints.get("bits", 4)
        if scale is None or self._is_computed(node, 3):
            return None
        columns = codes.shape[-1] * 8 // max(bits, 1) if codes.shape else 0
        is_last = len(codes.shape) == 2 and axis in {1, -1}  # noqa: PLR2004 - a matrix
        if not is_last or block <= 0 or columns % block:
            return Unread(codes, node.op)
        ints = {"K": columns, "N": codes.shape[0], "bits": bits, "block_size": block}
        return Blocks(codes, scale, self._input(node, 3), None, tuple(ints.items()))

    def _later_scale(self, node: Node) -> Tensor | None:
        """Return the scale of an integer product: (Cast of it) * (scale of A * scale of B)."""
        for cast in self._readers.get(node.outputs[0], []) if node.outputs else []:
            if cast.op != "Cast" or not cast.outputs:
                continue
            for product in self._readers.get(cast.outputs[0], []):
                for name in product.inputs if product.op == "Mul" else ():
                    scales = self._makers.get(name)
                    if scales is None or scales.op != "Mul":
                        continue
                    known = [self._scope.tensor(one) for one in scales.inputs]
                    found = [one for one in known if one is not None]
                    if len(found) == 1:
                        return found[0]
        return None

    def _input(self, node: Node, number: int) -> Tensor | None:
        if number >= len(node.inputs) or not node.inputs[number]:
            return None
        return self._scope.tensor(node.inputs[number])

    def _is_computed(self, node: Node, number: int) -> bool:
        """Return whether an input is there whose values are not in the file."""
        there = number < len(node.inputs) and bool(node.inputs[number])
        return there and self._input(node, number) is None
