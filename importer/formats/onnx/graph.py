"""The tensors in the graphs of a model, each under a name that no other has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from importer.formats.onnx.problems import malformed, unread
from importer.formats.onnx.reader import Reader, Value
from importer.formats.onnx.scope import FILL, Node, Scope
from importer.formats.onnx.tensors import Tensor, attribute_values, read_tensor
from importer.formats.onnx.wire import Span
from store import limits
from store.text import printable

_CONSTANTS: Final = {
    "value": "t",
    "value_float": "f",
    "value_floats": "floats",
    "value_int": "i",
    "value_ints": "ints",
    "value_string": "s",
    "value_strings": "strings",
    "sparse_value": "sparse_tensor",
}
"""Of the operator `Constant`: the field of each attribute that may have its value."""
_TEXTS: Final = frozenset({"s", "strings"})
_TENSORS: Final = frozenset({"t", "tensors", "sparse_tensor", "sparse_tensors"})
_AROUND: Final = 2
"""Messages around a graph in a graph: a node and an attribute."""


class Graphs:
    """Reads graphs, graphs in their nodes, and functions.

    Attributes:
        tensors: every one that was found, by its unambiguous name, in the order of the file.
        scopes: of all graphs.
        functions: the scopes of functions, by the operators that call them.
        texts: names of tensors that hold text.
        others: operators with tensors among their attributes, which are not read.
    """

    def __init__(self, reader: Reader, ops: frozenset[str]) -> None:
        """Read with `reader`; keep the nodes of some operators."""
        self.tensors: Final[dict[str, Tensor]] = {}
        self.scopes: Final[list[Scope]] = []
        self.functions: Final[dict[str, Scope]] = {}
        self.texts: Final[list[str]] = []
        self.others: Final[dict[str, None]] = {}
        self._reader: Final = reader
        self._ops: Final = ops

    def read_graph(self, span: Span, path: str = "", above: Scope | None = None) -> None:
        """Read a `GraphProto`.

        Args:
            path: where the graph is, put before the names of its tensors.
            above: what names stand for around it.
        """
        scope = self._scope(above)
        wanted = {"node", "initializer", "sparse_initializer"}
        for number, value in enumerate(self._reader.fields("GraphProto", span, wanted)):
            if value.name == "node":
                self._read_node(value.span, path, scope, number)
            elif value.name == "initializer":
                self._add(read_tensor(self._reader, value.span), path, scope)
            else:
                self._refuse_sparse(value)

    def read_function(self, span: Span) -> None:
        """Read a `FunctionProto`, whose constants bear its domain and name."""
        names = {"domain": "", "name": "", "overload": ""}
        nodes, parameters = [], []
        for value in self._reader.fields("FunctionProto", span, {*names, "input", "node"}):
            if value.name == "node":
                nodes.append(value.span)
                self._reader.charge()
            elif value.name == "input":
                parameters.append(self._reader.text(value))
                self._reader.charge(100 + len(parameters[-1]))
            else:
                names[value.name] = self._reader.text(value)
        path = ".".join(name for name in names.values() if name)
        scope = self._scope(None)
        scope.parameters = tuple(parameters)
        self.functions[path] = scope
        for number, node in enumerate(nodes):
            self._read_node(node, f"{path}.", scope, number)

    def charge(self, nodes: int) -> None:
        """Count the nodes of a function for one time that it is called.

        Raises:
            InputError: they are too many.
        """
        self._reader.charge(1000 * (1 + nodes))

    def _scope(self, above: Scope | None) -> Scope:
        scope = Scope(above)
        self.scopes.append(scope)
        self._reader.charge()
        return scope

    def _read_node(self, span: Span, path: str, scope: Scope, number: int) -> None:
        found: dict[str, list[Value]] = {}
        wanted = {"input", "output", "op_type", "domain", "attribute"}
        for value in self._reader.fields("NodeProto", span, wanted):
            self._reader.collect(found, value)
        texts = {
            name: self._reader.text(found[name][0]) if name in found else ""
            for name in ("op_type", "domain")
        }
        domain = texts["domain"].removeprefix("ai.onnx")
        op = f"{domain}.{texts['op_type']}" if domain else texts["op_type"]
        attributes = found.get("attribute", [])
        is_wanted = op in self._ops or bool(domain)  # which may be a function's
        if not (attributes or is_wanted):
            return
        outputs = tuple(map(self._reader.text, found.get("output", [])))
        name = next(filter(None, outputs), f"{texts['op_type']}_{number}")
        ints: dict[str, int] = {}
        for attribute in attributes:
            self._read_attribute(attribute.span, _Place(op, name, path), scope, ints)
        if is_wanted:
            inputs = tuple(map(self._reader.text, found.get("input", [])))
            self._reader.charge(1000 + sum(map(len, (*inputs, *outputs))))
            scope.add_node(Node(op, inputs, outputs, ints))

    def _read_attribute(
        self, span: Span, place: _Place, scope: Scope, ints: dict[str, int]
    ) -> None:
        name, found = "", dict[str, list[Value]]()
        wanted = {"name", "i", "g", "graphs", *_TENSORS}
        if place.op == "Constant":
            wanted.update(_CONSTANTS.values())
        for value in self._reader.fields("AttributeProto", span, wanted):
            if value.name == "name":
                name = self._reader.text(value)
            else:
                self._reader.collect(found, value)
        if place.op == "Constant" and name in _CONSTANTS:
            field = _CONSTANTS[name]
            self._add_constant(field, found.pop(field, []), place, scope)
        elif (number := self._int(found, place)) is not None:
            ints[name] = number
        graphs = [*found.pop("g", []), *found.pop("graphs", [])]
        for number, graph in enumerate(graphs):
            which = f".{number}" if len(graphs) > 1 else ""
            self._reader.deepen(_AROUND)
            self.read_graph(graph.span, f"{place.path}{place.node}.{name}{which}.", scope)
            self._reader.deepen(-_AROUND)
        for values in found.values():
            for value in values:
                self._reader.check(value)
        if place.op != FILL and _TENSORS.intersection(found):
            self._reader.charge(1000 + len(place.op))
            self.others[place.op] = None

    def _int(self, found: Mapping[str, Sequence[Value]], place: _Place) -> int | None:
        """Return the integer of an attribute; of a tensor of one number its bits."""
        if "i" in found:
            return self._reader.number(found["i"][0])
        if place.op != FILL or "t" not in found:
            return None
        tensor = read_tensor(self._reader, found["t"][0].span)
        if tensor.elements != 1 or not tensor.data.nbytes:
            return -1  # of several, or elsewhere
        return int.from_bytes(self._reader.take(tensor.data), "little")

    def _add_constant(
        self, field: str, values: Sequence[Value], place: _Place, scope: Scope
    ) -> None:
        reader = self._reader
        if not values:
            return  # a function's constant, whose value the caller gives
        if field in _TEXTS:
            reader.charge(1000 + len(place.path))
            self.texts.append(place.path + place.node)
        elif field == "sparse_tensor":
            self._refuse_sparse(values[0], place.path + place.node)
        elif field == "t":
            tensor = read_tensor(reader, values[0].span, place.node)
            self._add(tensor._replace(name=place.node), place.path, scope)
        else:
            tensor = attribute_values(reader, place.node, values)
            self._add(tensor, place.path, scope)

    def _add(self, tensor: Tensor, path: str, scope: Scope) -> None:
        reader = self._reader
        own = reader.tensor_name(tensor.name)
        name = reader.tensor_name(path + own)
        reader.charge(1000 + len(name))
        if name in self.tensors:
            malformed(reader.where, f"two tensors `{name}`", "E_ONNX_NAME")
        if len(self.tensors) >= limits.TENSORS_PER_FILE:
            message = f"more than {limits.TENSORS_PER_FILE} tensors"
            malformed(reader.where, message, "E_LIMIT")
        if tensor.kind.field == "string_data":
            self.texts.append(name)
            return
        self.tensors[name] = tensor._replace(name=name)
        scope.add(own, self.tensors[name])

    def _refuse_sparse(self, sparse: Value, name: str = "") -> None:
        for value in self._reader.fields("SparseTensorProto", sparse.span, {"values"}):
            for one in self._reader.fields("TensorProto", value.span, {"name"}):
                name = self._reader.text(one) or name
        unread(self._reader.where, f"tensor `{printable(name)}` is sparse")


class _Place(NamedTuple):
    """Where an attribute is.

    Attributes:
        op: of its node.
        node: what to call the node: its first output, the only name that graphs make unique.
        path: of the node's graph.
    """

    op: str
    node: str
    path: str
