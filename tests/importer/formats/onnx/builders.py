"""ONNX files written by hand: any fields, in any order, well-formed or not."""

from __future__ import annotations

import struct

FLOAT, UINT8, INT8, INT32, INT64, TEXT, BOOL, UINT4, INT4 = 1, 2, 3, 6, 7, 8, 9, 21, 22
FLOAT8E4M3FN = 17
FIXED_64, LENGTH, FIXED_32 = 1, 2, 5


def varint(value):
    """A number of any length, as it is or in two's complement of 64 bits."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(made) + bytes([value])


def tag(number, wire):
    """What stands before a value."""
    return varint(number << 3 | wire)


def field(number, value):
    """A number, or bytes or text with their length."""
    if isinstance(value, int):
        return tag(number, 0) + varint(value)
    if isinstance(value, float):
        return tag(number, FIXED_32) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return tag(number, LENGTH) + varint(len(data)) + data


def packed(*numbers):
    """Numbers one after the other."""
    return b"".join(map(varint, numbers))


def tensor(name="w", kind=FLOAT, dims=(2, 3), data=None, more=b""):
    """An initializer; `data` are fields, by default raw bytes."""
    sizes = b"".join(field(1, size) for size in dims)
    data = field(9, bytes(range(24))) if data is None else data
    return sizes + field(2, kind) + data + (field(8, name) if name else b"") + more


def external(**entries):
    """Fields that say that the data is elsewhere."""
    pairs = (field(1, key) + field(2, value) for key, value in entries.items())
    return b"".join(field(13, pair) for pair in pairs) + field(14, 1)


def attribute(name, more):
    """An attribute with a value."""
    return field(1, name) + more


def node(op, inputs=(), outputs=(), attributes=(), domain=""):
    """A node of a graph."""
    return (
        b"".join(field(1, name) for name in inputs)
        + b"".join(field(2, name) for name in outputs)
        + field(4, op)
        + b"".join(field(5, one) for one in attributes)
        + (field(7, domain) if domain else b"")
    )


def graph(*tensors, nodes=(), more=b""):
    """A graph with initializers."""
    return (
        b"".join(field(1, one) for one in nodes)
        + field(2, "main")
        + b"".join(field(5, one) for one in tensors)
        + more
    )


def model(*tensors, nodes=(), more=b"", after=b""):
    """A whole file."""
    inner = graph(*tensors, nodes=nodes, more=more)
    return field(1, 8) + field(2, "hand") + field(7, inner) + field(8, field(2, 17)) + after


def constant(name, **values):
    """A node `Constant`."""
    numbers = {"value": 5, "value_float": 2, "value_int": 3, "sparse_value": 22}
    numbers |= {"value_string": 4, "value_floats": 7, "value_ints": 8}
    attributes = [
        attribute(key, value if key.endswith("s") else field(numbers[key], value))
        for key, value in values.items()
    ]
    return node("Constant", (), (name,), attributes)


def inside(name, *tensors, op="If", branch="then_branch", nodes=()):
    """A node with a graph in an attribute."""
    return node(
        op, ("c",), (name,), [attribute(branch, field(6, graph(*tensors, nodes=nodes)))]
    )


GOOD = model(tensor())


def _ints(**values):
    return [attribute(name, field(3, value)) for name, value in values.items()]


_CODES = tensor("q", UINT8, (8, 1, 8), field(9, bytes(64)))
_SCALES = tensor("s", FLOAT, (8,), field(4, bytes(32)))
_WEIGHT = node(
    "MatMulNBits", ("x", "q", "s"), ("y",), _ints(K=16, N=8, block_size=16), "com.microsoft"
)
_TYPED = tensor("i", INT8, (5,), field(5, packed(1, -1, 127, -128, 300)))
_SMALL = tensor("n", INT4, (3,), field(9, b"\x21\x0f"))
_UNPACKED = tensor("u", INT64, (2,), field(7, 3) + field(7, -3))
SEEDS = [
    GOOD,
    model(_TYPED, _SMALL, _UNPACKED, nodes=[constant("k", value_float=1.5)]),
    model(_CODES, _SCALES, nodes=[_WEIGHT, inside("y", tensor())]),
    model(
        tensor("q", INT8, (2, 3), field(9, bytes(6))),
        tensor("s", FLOAT, (3,), field(9, bytes(12))),
        tensor("z", INT8, (3,), field(5, bytes(3))),
        nodes=[node("DequantizeLinear", ("q", "s", "z"), ("w",), _ints(axis=1))],
    ),
]
TENSOR_SEEDS = [
    tensor(),
    _TYPED,
    _SMALL,
    _UNPACKED,
    tensor(data=external(location="d", length="24")),
]
