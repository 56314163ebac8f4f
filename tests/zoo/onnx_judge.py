"""What onnx and onnxruntime read in an ONNX file: every array, and every quantized weight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, TensorProto, helper, numpy_helper

_PACKED = {TensorProto.UINT4: "u1", TensorProto.UINT2: "u1"}
_PACKED |= {TensorProto.INT4: "i1", TensorProto.INT2: "i1"}
_DTYPES = {
    "FLOAT": "F32",
    "FLOAT16": "F16",
    "DOUBLE": "F64",
    "BFLOAT16": "BF16",
    "COMPLEX64": "C64",
    "FLOAT8E4M3FN": "F8_E4M3",
    "FLOAT8E4M3FNUZ": "F8_E4M3FNUZ",
    "FLOAT8E5M2": "F8_E5M2",
    "FLOAT8E5M2FNUZ": "F8_E5M2FNUZ",
    "FLOAT8E8M0": "F8_E8M0",
    "FLOAT4E2M1": "F4",
    "FLOAT6E2M3": "F6_E2M3",
    "FLOAT6E3M2": "F6_E3M2",
    "UINT4": "U8",
    "UINT2": "U8",
    "INT4": "I8",
    "INT2": "I8",
    "BOOL": "BOOL",
}


class Array(NamedTuple):
    """An array as ingot should store it."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


_NONE = Array("", (0,), b"")


class Judged:
    """One file, read with its external data.

    Attributes:
        arrays: by the names that ingot gives them.
        weights: values of quantized weights, by the names of their codes.
    """

    def __init__(self, path: Path) -> None:
        """Read a file."""
        self._tensors: dict[str, TensorProto] = {}
        self.arrays: dict[str, Array] = {}
        self.weights: dict[str, np.ndarray] = {}
        model = onnx.load(path)
        self._read(model.graph, "")
        for name, proto in self._tensors.items():
            if proto.data_type != TensorProto.STRING:
                self.arrays[name] = _array(proto)
        for node in model.graph.node:
            self._weigh(node)
        for name in self.arrays.keys() - self.weights.keys():
            stem = name.removesuffix("_quantized")
            names = [name, f"{stem}_scale", f"{stem}_zero_point"]
            if stem != name and self.arrays.get(names[1], _NONE).shape == ():
                self._dequantize(names, 0)

    def _read(self, graph: onnx.GraphProto, path: str) -> None:
        for proto in graph.initializer:
            self._tensors[path + proto.name] = proto
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    self._read(attribute.g, f"{path}{node.output[0]}.{attribute.name}.")
                elif node.op_type == "Constant" and attribute.type != AttributeProto.STRING:
                    self._tensors[path + node.output[0]] = _constant(attribute)

    def _weigh(self, node: onnx.NodeProto) -> None:
        ints = {one.name: one.i for one in node.attribute}
        match node.op_type:
            case "MatMulNBits":
                self.weights[node.input[1]] = self._times_identity(node, ints)
            case "DequantizeLinear" if node.input[0] in self._tensors:
                axis, block = ints.get("axis", 1), ints.get("block_size", 0)
                self._dequantize(node.input, axis, block)
            case "GatherBlockQuantized":
                names = [node.input[0], *node.input[2:]]
                self._dequantize(names, ints["quantize_axis"], ints["block_size"])
            case "MatMulInteger" | "ConvInteger":
                stem = node.input[1].removesuffix("_quantized")
                names = [node.input[1], f"{stem}_scale", node.input[3]]
                self._dequantize(names, 0 if node.op_type[0] == "C" else -1)
            case "QLinearMatMul" | "QLinearConv" | "QGemm":
                is_first = node.op_type == "QLinearConv" or ints.get("transB")
                self._dequantize(node.input[3:6], 0 if is_first else -1)
            case _:
                return

    def _dequantize(self, names: list[str], axis: int, block: int = 0) -> None:
        protos = []
        for label, name in zip("wsz", filter(None, names), strict=False):
            proto = TensorProto()
            proto.CopyFrom(self._tensors[name])
            proto.name = label
            protos.append(proto)
        more = {"block_size": block} if block else {}
        labels = [proto.name for proto in protos]
        node = helper.make_node("DequantizeLinear", labels, ["y"], axis=axis, **more)
        self.weights[names[0]] = _run(node, protos, protos[1].data_type)

    def _times_identity(self, node: onnx.NodeProto, ints: dict[str, int]) -> np.ndarray:
        """Return the weight as the operator itself reads it: its product with 1."""
        protos, labels = [], ["a"]
        for number, name in enumerate(node.input[1:5]):
            labels.append(f"i{number}" if name else "")
            if name:
                proto = TensorProto()
                proto.CopyFrom(self._tensors[name])
                proto.name = labels[-1]
                protos.append(proto)
        kept = {key: ints[key] for key in ("K", "N", "bits", "block_size") if key in ints}
        copy = helper.make_node(
            "MatMulNBits", labels, ["y"], domain="com.microsoft", accuracy_level=1, **kept
        )
        kind = protos[1].data_type
        one = np.eye(ints["K"], dtype=helper.tensor_dtype_to_np_dtype(kind))
        return np.ascontiguousarray(_run(copy, protos, kind, one).T) + 0  # a sum has no -0


def _run(
    node: onnx.NodeProto, protos: list[TensorProto], kind: int, given: np.ndarray | None = None
) -> np.ndarray:
    inputs = [] if given is None else [helper.make_tensor_value_info("a", kind, given.shape)]
    output = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([node], "g", inputs, [output], protos)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {} if given is None else {"a": given})[0]


def _array(proto: TensorProto) -> Array:
    kind = TensorProto.DataType.Name(proto.data_type)
    values = numpy_helper.to_array(proto)
    dtype = _DTYPES.get(kind) or kind.replace("UINT", "U").replace("INT", "I")
    if proto.data_type in _PACKED:
        return Array(dtype, values.shape, values.astype(_PACKED[proto.data_type]).tobytes())
    if dtype in {"F4", "F6_E2M3", "F6_E3M2"}:  # stored as they are packed
        packed = proto.raw_data or bytes(proto.int32_data)
        return Array(dtype, values.shape, packed)
    return Array(dtype, values.shape, values.tobytes())


def _constant(attribute: AttributeProto) -> TensorProto:
    match attribute.type:
        case AttributeProto.TENSOR:
            return attribute.t
        case AttributeProto.FLOAT:
            return numpy_helper.from_array(np.asarray(attribute.f, np.float32))
        case AttributeProto.INT:
            return numpy_helper.from_array(np.asarray(attribute.i, np.int64))
        case AttributeProto.FLOATS:
            return numpy_helper.from_array(np.asarray(attribute.floats, np.float32))
    return numpy_helper.from_array(np.asarray(attribute.ints, np.int64))


def files(directory: Path) -> Iterator[Path]:
    """Yield the graphs of a directory, sorted."""
    yield from sorted(directory.glob("*.onnx"))
