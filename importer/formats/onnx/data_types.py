"""The types of elements of ONNX: `TensorProto.DataType`, and what of safetensors holds each."""

from __future__ import annotations

from typing import Final, NamedTuple


class DataType(NamedTuple):
    """A type of elements.

    Attributes:
        name: in `TensorProto.DataType`.
        bits: of an element.
        field: that has the values where they are not raw bytes.
        dtype: of safetensors; empty where it has none.
    """

    name: str
    bits: int
    field: str
    dtype: str = ""


_INT: Final = "int32_data"
STRING: Final = 8
TYPES: Final = {
    1: DataType("FLOAT", 32, "float_data", "F32"),
    2: DataType("UINT8", 8, _INT, "U8"),
    3: DataType("INT8", 8, _INT, "I8"),
    4: DataType("UINT16", 16, _INT, "U16"),
    5: DataType("INT16", 16, _INT, "I16"),
    6: DataType("INT32", 32, _INT, "I32"),
    7: DataType("INT64", 64, "int64_data", "I64"),
    STRING: DataType("STRING", 0, "string_data"),
    9: DataType("BOOL", 8, _INT, "BOOL"),
    10: DataType("FLOAT16", 16, _INT, "F16"),
    11: DataType("DOUBLE", 64, "double_data", "F64"),
    12: DataType("UINT32", 32, "uint64_data", "U32"),
    13: DataType("UINT64", 64, "uint64_data", "U64"),
    14: DataType("COMPLEX64", 64, "float_data", "C64"),
    15: DataType("COMPLEX128", 128, "double_data"),
    16: DataType("BFLOAT16", 16, _INT, "BF16"),
    17: DataType("FLOAT8E4M3FN", 8, _INT, "F8_E4M3"),
    18: DataType("FLOAT8E4M3FNUZ", 8, _INT, "F8_E4M3FNUZ"),
    19: DataType("FLOAT8E5M2", 8, _INT, "F8_E5M2"),
    20: DataType("FLOAT8E5M2FNUZ", 8, _INT, "F8_E5M2FNUZ"),
    21: DataType("UINT4", 4, _INT, "U8"),
    22: DataType("INT4", 4, _INT, "I8"),
    23: DataType("FLOAT4E2M1", 4, _INT, "F4"),
    24: DataType("FLOAT8E8M0", 8, _INT, "F8_E8M0"),
    25: DataType("UINT2", 2, _INT, "U8"),
    26: DataType("INT2", 2, _INT, "I8"),
    27: DataType("FLOAT6E2M3", 6, _INT, "F6_E2M3"),
    28: DataType("FLOAT6E3M2", 6, _INT, "F6_E3M2"),
}
"""By their numbers in `TensorProto.DataType`; small integers have the dtype that holds them."""
