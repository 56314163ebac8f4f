"""The messages of an ONNX file: fields by number, as `onnx.proto` of onnx 1.23 has them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto, unique
from typing import Final, NamedTuple


@unique
class Kind(Enum):
    """What the value of a field is."""

    INT_64 = auto()
    INT_32 = auto()
    UINT_64 = auto()
    FLOAT = auto()
    DOUBLE = auto()
    TEXT = auto()
    BYTES = auto()
    MESSAGE = auto()


class Field(NamedTuple):
    """A field of a message.

    Attributes:
        message: the name of the message that the value is, or empty.
    """

    name: str
    kind: Kind
    message: str = ""
    is_repeated: bool = False


def _message(name: str, message: str, *, repeated: bool = True) -> Field:
    return Field(name, Kind.MESSAGE, message, repeated)


def _text(name: str, *, repeated: bool = False) -> Field:
    return Field(name, Kind.TEXT, is_repeated=repeated)


def _number(name: str, kind: Kind = Kind.INT_64, *, repeated: bool = False) -> Field:
    return Field(name, kind, is_repeated=repeated)


def _bytes(name: str, *, repeated: bool = False) -> Field:
    return Field(name, Kind.BYTES, is_repeated=repeated)


# Explanations may be long, and nobody reads them here.
_DOC: Final = _bytes("doc_string")
_PROPS: Final = _message("metadata_props", "StringStringEntryProto")

SCHEMA: Final[Mapping[str, Mapping[int, Field]]] = {
    "ModelProto": {
        1: _number("ir_version"),
        2: _text("producer_name"),
        3: _text("producer_version"),
        4: _text("domain"),
        5: _number("model_version"),
        6: _DOC,
        7: _message("graph", "GraphProto", repeated=False),
        8: _message("opset_import", "OperatorSetIdProto"),
        14: _PROPS,
        20: _message("training_info", "TrainingInfoProto"),
        25: _message("functions", "FunctionProto"),
        26: _message("configuration", "DeviceConfigurationProto"),
    },
    "GraphProto": {
        1: _message("node", "NodeProto"),
        2: _text("name"),
        5: _message("initializer", "TensorProto"),
        10: _DOC,
        11: _message("input", "ValueInfoProto"),
        12: _message("output", "ValueInfoProto"),
        13: _message("value_info", "ValueInfoProto"),
        14: _message("quantization_annotation", "TensorAnnotation"),
        15: _message("sparse_initializer", "SparseTensorProto"),
        16: _PROPS,
    },
    "NodeProto": {
        1: _text("input", repeated=True),
        2: _text("output", repeated=True),
        3: _text("name"),
        4: _text("op_type"),
        5: _message("attribute", "AttributeProto"),
        6: _DOC,
        7: _text("domain"),
        8: _text("overload"),
        9: _PROPS,
        10: _message("device_configurations", "NodeDeviceConfigurationProto"),
    },
    "AttributeProto": {
        1: _text("name"),
        2: _number("f", Kind.FLOAT),
        3: _number("i"),
        4: _bytes("s"),
        5: _message("t", "TensorProto", repeated=False),
        6: _message("g", "GraphProto", repeated=False),
        7: _number("floats", Kind.FLOAT, repeated=True),
        8: _number("ints", repeated=True),
        9: _bytes("strings", repeated=True),
        10: _message("tensors", "TensorProto"),
        11: _message("graphs", "GraphProto"),
        13: _DOC,
        14: _message("tp", "TypeProto", repeated=False),
        15: _message("type_protos", "TypeProto"),
        20: _number("type", Kind.INT_32),
        21: _text("ref_attr_name"),
        22: _message("sparse_tensor", "SparseTensorProto", repeated=False),
        23: _message("sparse_tensors", "SparseTensorProto"),
    },
    "TensorProto": {
        1: _number("dims", repeated=True),
        2: _number("data_type", Kind.INT_32),
        3: _message("segment", "Segment", repeated=False),
        4: _number("float_data", Kind.FLOAT, repeated=True),
        5: _number("int32_data", Kind.INT_32, repeated=True),
        6: _bytes("string_data", repeated=True),
        7: _number("int64_data", repeated=True),
        8: _text("name"),
        9: _bytes("raw_data"),
        10: _number("double_data", Kind.DOUBLE, repeated=True),
        11: _number("uint64_data", Kind.UINT_64, repeated=True),
        12: _DOC,
        13: _message("external_data", "StringStringEntryProto"),
        14: _number("data_location", Kind.INT_32),
        16: _PROPS,
    },
    "Segment": {1: _number("begin"), 2: _number("end")},
    "SparseTensorProto": {
        1: _message("values", "TensorProto", repeated=False),
        2: _message("indices", "TensorProto", repeated=False),
        3: _number("dims", repeated=True),
    },
    "StringStringEntryProto": {1: _text("key"), 2: _text("value")},
    "OperatorSetIdProto": {1: _text("domain"), 2: _number("version")},
    "FunctionProto": {
        1: _text("name"),
        4: _text("input", repeated=True),
        5: _text("output", repeated=True),
        6: _text("attribute", repeated=True),
        7: _message("node", "NodeProto"),
        8: _DOC,
        9: _message("opset_import", "OperatorSetIdProto"),
        10: _text("domain"),
        11: _message("attribute_proto", "AttributeProto"),
        12: _message("value_info", "ValueInfoProto"),
        13: _text("overload"),
        14: _PROPS,
    },
    "TrainingInfoProto": {
        1: _message("initialization", "GraphProto", repeated=False),
        2: _message("algorithm", "GraphProto", repeated=False),
        3: _message("initialization_binding", "StringStringEntryProto"),
        4: _message("update_binding", "StringStringEntryProto"),
    },
    "TensorAnnotation": {
        1: _text("tensor_name"),
        2: _message("quant_parameter_tensor_names", "StringStringEntryProto"),
    },
    "ValueInfoProto": {
        1: _text("name"),
        2: _message("type", "TypeProto", repeated=False),
        3: _DOC,
        4: _PROPS,
    },
    "TypeProto": {
        1: _message("tensor_type", "TensorType", repeated=False),
        4: _message("sequence_type", "ElementType", repeated=False),
        5: _message("map_type", "MapType", repeated=False),
        6: _text("denotation"),
        7: _message("opaque_type", "OpaqueType", repeated=False),
        8: _message("sparse_tensor_type", "TensorType", repeated=False),
        9: _message("optional_type", "ElementType", repeated=False),
    },
    "TensorType": {
        1: _number("elem_type", Kind.INT_32),
        2: _message("shape", "TensorShapeProto", repeated=False),
    },
    "ElementType": {1: _message("elem_type", "TypeProto", repeated=False)},
    "MapType": {
        1: _number("key_type", Kind.INT_32),
        2: _message("value_type", "TypeProto", repeated=False),
    },
    "OpaqueType": {1: _text("domain"), 2: _text("name")},
    "TensorShapeProto": {1: _message("dim", "Dimension")},
    "Dimension": {1: _number("dim_value"), 2: _text("dim_param"), 3: _text("denotation")},
    "NodeDeviceConfigurationProto": {
        1: _text("configuration_id"),
        2: _message("sharding_spec", "ShardingSpecProto"),
        3: _number("pipeline_stage", Kind.INT_32),
    },
    "ShardingSpecProto": {
        1: _text("tensor_name"),
        2: _number("device", repeated=True),
        3: _message("index_to_device_group_map", "IntIntListEntryProto"),
        4: _message("sharded_dim", "ShardedDimProto"),
    },
    "IntIntListEntryProto": {1: _number("key"), 2: _number("value", repeated=True)},
    "ShardedDimProto": {
        1: _number("axis"),
        2: _message("simple_sharding", "SimpleShardedDimProto"),
    },
    "SimpleShardedDimProto": {
        1: _number("dim_value"),
        2: _text("dim_param"),
        3: _number("num_shards"),
    },
    "DeviceConfigurationProto": {
        1: _text("name"),
        2: _number("num_devices", Kind.INT_32),
        3: _text("device", repeated=True),
    },
}
