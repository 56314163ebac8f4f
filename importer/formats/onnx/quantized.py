"""Which tensors of a model are the codes, scales and zero points of one weight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from importer.formats.onnx.graph import Graphs
from importer.formats.onnx.operators import (
    BIASES,
    CAST,
    DEQUANTIZE,
    INTEGER,
    LOOKUP,
    MOVES,
    N_BITS,
    OPERATORS,
    UNREAD,
)
from importer.formats.onnx.scope import FILL, LINKS, SAME, Node, Scope
from importer.formats.onnx.tensors import Tensor

_QUANTIZED: Final = "_quantized"
_NO_SCALE: Final = "no tensor of the file is the scale"
_NO_ZERO: Final = "no tensor of the file is the zero point"
_PRODUCT: Final = "the scale is the product of two others"
_MOVED: Final = "the graph puts codes in another order before it multiplies them by scales"
_FLOATS: Final = frozenset({"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"})
_FLOAT: Final = 1
_WIDENED: Final = frozenset({"FLOAT", "FLOAT16", "BFLOAT16"})
"""Types whose numbers a cast to F32 leaves as they are."""


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


class Computed(NamedTuple):
    """A weight whose values are known to the graph alone.

    Attributes:
        why: what is not in the file.
    """

    codes: Tensor
    why: str


Quantized = Linear | Blocks | Unread | Computed


class _Place(NamedTuple):
    """Which input has the zero points, and what they and the scales are along."""

    zero: int
    axis: int
    block: int = 0


def find_quantized(graphs: Graphs) -> Iterator[Quantized]:
    """Yield what the graphs say about weights, in the order of the nodes."""
    tensors = graphs.tensors
    known, computed = set(), dict[str, Computed]()
    for scope in _with_calls(graphs):
        graph = _Graph(scope)
        for node in scope.nodes:
            for found in graph.weights(node):
                if isinstance(found, Computed):
                    computed.setdefault(found.codes.name, found)
                    continue
                known.add(found.codes.name)
                yield found
    for name, codes in tensors.items():
        stem = name.removesuffix(_QUANTIZED)
        scale = tensors.get(f"{stem}_scale") if stem != name and name not in known else None
        # Where the nodes are too far apart: onnxruntime's names for weights with one scale.
        if scale is not None and scale.elements == 1:
            known.add(name)
            yield Linear(codes, scale, tensors.get(f"{stem}_zero_point"), 0, 0)
    # What one node does not tell another one may.
    yield from (one for name, one in computed.items() if name not in known)


def _with_calls(graphs: Graphs) -> Iterator[Scope]:
    """Yield all scopes, those of functions for each time that they are called, too."""
    pending = [*reversed(graphs.scopes)]
    while pending:
        scope = pending.pop()
        yield scope
        for node in scope.nodes:
            function = graphs.functions.get(node.op)
            if function is None:
                continue
            given = [scope.tensor(name) for name in node.inputs]
            if any(given):
                graphs.charge(len(function.nodes))
                pending.append(function.called(given))


class _Graph:
    """The nodes of one graph by the names that they read and make."""

    def __init__(self, scope: Scope) -> None:
        self._scope: Final = scope
        self._readers: dict[str, list[Node]] = {}
        for node in scope.nodes:
            for name in filter(None, node.inputs):
                self._readers.setdefault(name, []).append(node)

    def weights(self, node: Node) -> Iterator[Quantized]:
        """Yield what a node says about weights whose values are in the file."""
        for number in UNREAD.get(node.op, ()):
            codes = self._input(node, number)
            if codes is not None and codes.kind.name not in _FLOATS:
                yield Unread(codes, node.op)
        if (found := self._weight(node)) is not None:
            yield found
        looked_up = self._codes(node, 0)[0] if node.op in INTEGER else None
        if looked_up is not None:
            yield Computed(looked_up, _NO_SCALE)
        bias = self._input(node, BIASES[node.op]) if node.op in BIASES else None
        if bias is not None and bias.kind.name not in _FLOATS:
            yield Computed(bias, _PRODUCT)

    def _weight(self, node: Node) -> Quantized | None:
        if node.op == N_BITS:
            return self._blocks(node)
        if node.op in DEQUANTIZE:
            axis, block = node.ints.get("axis", 1), node.ints.get("block_size", 0)
            found = self._linear(node, 0, self._name(node, 1), _Place(2, axis, block))
            output = node.ints.get("output_dtype", 0)
            return found._replace(output=output) if output and type(found) is Linear else found
        if node.op == LOOKUP:
            return self._looked_up(node)
        if node.op in INTEGER:
            return self._linear(node, 1, self._later_scale(node), _Place(3, INTEGER[node.op]))
        if (inputs := OPERATORS.get(node.op)) is None:
            return None
        place = _Place(inputs.zero, 0 if node.ints.get("transB") else inputs.axis)
        return self._linear(node, inputs.weight, self._name(node, inputs.scale), place)

    def _linear(
        self, node: Node, weight: int, scale: str, place: _Place
    ) -> Linear | Computed | None:
        """Return a weight of an input, whose scale has a name."""
        codes, is_moved = self._codes(node, weight)
        if codes is None or codes.kind.name in _FLOATS:
            return None
        known, output = self._scale(scale)
        if known is None:
            return Computed(codes, _NO_SCALE)
        if self._is_computed(node, place.zero) and not self._is_zero(node, place.zero):
            return Computed(codes, _NO_ZERO)
        if is_moved and (known.elements != 1 or place.block):
            return Computed(codes, _MOVED)
        zero = self._input(node, place.zero)
        return Linear(codes, known, zero, place.axis, place.block, output)

    def _blocks(self, node: Node) -> Quantized | None:
        codes, (scale, _) = self._input(node, 1), self._scale(self._name(node, 2))
        if codes is None:
            return None
        if scale is None:
            return Computed(codes, _NO_SCALE)
        if self._is_computed(node, 3) or self._is_computed(node, 4):
            return Computed(codes, _NO_ZERO)
        ints = tuple(sorted(node.ints.items()))
        return Blocks(codes, scale, self._input(node, 3), self._input(node, 4), ints)

    def _looked_up(self, node: Node) -> Quantized | None:
        codes = self._input(node, 0)
        axis, block = node.ints.get("quantize_axis", 1), node.ints.get("block_size", 128)
        if codes is None or codes.kind.name != "UINT8":
            sides = codes.shape if codes is not None and block == 0 else ()
            if -len(sides) <= axis < len(sides):
                block = sides[axis]
            return self._linear(node, 0, self._name(node, 2), _Place(3, axis, block))
        # Packed in bytes, it has the layout of MatMulNBits where blocks are full.
        bits, (scale, _) = node.ints.get("bits", 4), self._scale(self._name(node, 2))
        if scale is None:
            return Computed(codes, _NO_SCALE)
        if self._is_computed(node, 3):
            return Computed(codes, _NO_ZERO)
        columns = codes.shape[-1] * 8 // max(bits, 1) if codes.shape else 0
        is_last = len(codes.shape) == 2 and axis in {1, -1}  # noqa: PLR2004 - a matrix
        if not is_last or block <= 0 or columns % block:
            return Unread(codes, node.op)
        ints = {"K": columns, "N": codes.shape[0], "bits": bits, "block_size": block}
        return Blocks(codes, scale, self._input(node, 3), None, tuple(ints.items()))

    def _later_scale(self, node: Node) -> str:
        """Name the scale of an integer product: (Cast of it) * (scale of A * scale of B)."""
        for cast in self._readers.get(node.outputs[0], []) if node.outputs else []:
            if cast.op != CAST or not cast.outputs:
                continue
            for product in self._readers.get(cast.outputs[0], []):
                for name in product.inputs if product.op == "Mul" else ():
                    scales = self._scope.maker(name)
                    if scales is None or scales.op != "Mul":
                        continue
                    found = [one for one in scales.inputs if self._scale(one)[0] is not None]
                    if len(found) == 1:
                        return found[0]
        return ""

    def _codes(self, node: Node, number: int) -> tuple[Tensor | None, bool]:
        """Return the codes that an input is made of, and whether they are in another order."""
        name = self._name(node, number)
        is_moved = False
        for _ in range(LINKS):
            if (found := self._scope.tensor(name)) is not None:
                return found, is_moved
            maker = self._scope.maker(name)
            if maker is None or maker.op not in {SAME, *MOVES} or not maker.inputs:
                return None, False
            name = maker.inputs[0]
            is_moved = is_moved or maker.op in MOVES
        return None, False

    def _scale(self, name: str) -> tuple[Tensor | None, int]:
        """Return the tensor of a scale, and the type that it is widened to, or 0."""
        if (found := self._scope.tensor(name)) is not None:
            return found, 0
        maker = self._scope.maker(name)
        if maker is None or maker.op != CAST or not maker.inputs:
            return None, 0
        inner = self._scope.tensor(maker.inputs[0])
        is_exact = inner is not None and inner.kind.name in _WIDENED
        return (inner, _FLOAT) if is_exact and maker.ints.get("to") == _FLOAT else (None, 0)

    def _name(self, node: Node, number: int) -> str:
        return node.inputs[number] if number < len(node.inputs) else ""

    def _input(self, node: Node, number: int) -> Tensor | None:
        return self._scope.tensor(self._name(node, number))

    def _is_computed(self, node: Node, number: int) -> bool:
        """Return whether an input is there whose values are not in the file."""
        return bool(self._name(node, number)) and self._input(node, number) is None

    def _is_zero(self, node: Node, number: int) -> bool:
        """Return whether an input is a tensor of zeros that the graph makes."""
        name = self._name(node, number)
        for _ in range(LINKS):
            maker = self._scope.maker(name)
            if maker is None or maker.op not in {SAME, CAST} or not maker.inputs:
                break
            name = maker.inputs[0]
        maker = self._scope.maker(name)
        return maker is not None and maker.op == FILL and maker.ints.get("value", 0) == 0
