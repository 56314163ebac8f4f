"""What names stand for in a graph: tensors of the file, or what a node makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from importer.formats.onnx.tensors import Tensor

SAME: Final = "Identity"
FILL: Final = "ConstantOfShape"
"""Has one value in an attribute, which it repeats: not a weight."""
LINKS: Final = 16
"""Nodes that only pass a tensor on, one after the other; more than exporters write."""


class Node(NamedTuple):
    """What one node does: an operator, its inputs and outputs, and its integers.

    Attributes:
        op: with its domain, if that is not ONNX's own: `com.microsoft.MatMulNBits`.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ints: Mapping[str, int]


class Scope:
    """What names stand for in one graph, and in those that it is in.

    Attributes:
        nodes: of the graph, of those operators that were asked for.
        parameters: of a function, the names of what it is called with.
    """

    def __init__(self, above: Scope | None = None) -> None:
        """Know nothing yet."""
        self.nodes: Final[list[Node]] = []
        self.parameters: tuple[str, ...] = ()
        self._above: Final = above
        self._tensors: Final[dict[str, Tensor]] = {}
        self._makers: Final[dict[str, Node]] = {}

    def add(self, name: str, tensor: Tensor) -> None:
        """Let a name of the graph stand for a tensor."""
        self._tensors[name] = tensor

    def add_node(self, node: Node) -> None:
        """Let the outputs of a node stand for what it makes."""
        self.nodes.append(node)
        self._makers.update((name, node) for name in node.outputs if name)

    def tensor(self, name: str) -> Tensor | None:
        """Return the tensor that a name stands for, if it is one whose values are known."""
        for _ in range(LINKS):
            if (found := self._known(name)) is not None:
                return found
            maker = self.maker(name)
            if maker is None or maker.op != SAME or not maker.inputs:
                return None
            name = maker.inputs[0]
        return None

    def maker(self, name: str) -> Node | None:
        """Return the node that makes what a name stands for, if it is one that was kept."""
        if (own := self._makers.get(name)) is not None or self._above is None:
            return own
        return self._above.maker(name)

    def called(self, given: Sequence[Tensor | None]) -> Scope:
        """Return what names stand for in this function where it is called.

        Args:
            given: what it is called with, None where that is computed.
        """
        outside = Scope()
        for name, tensor in zip(self.parameters, given, strict=False):
            if tensor is not None:
                outside.add(name, tensor)
        made = Scope(outside)
        made._tensors.update(self._tensors)
        for node in self.nodes:
            made.add_node(node)
        return made

    def _known(self, name: str) -> Tensor | None:
        if (own := self._tensors.get(name)) is not None or self._above is None:
            return own
        return self._above._known(name)  # noqa: SLF001 - its own kind
