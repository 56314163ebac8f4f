"""What is in a file is found: names, shapes, places, and what nodes say about weights."""

from __future__ import annotations

import struct

import pytest

from importer.formats.onnx.model import is_onnx, read_model
from importer.formats.onnx.quantized import Blocks, Linear
from importer.formats.onnx.tensors import STEP, Numbers
from importer.formats.onnx.wire import Span
from store.errors import InputError
from tests.importer.formats.onnx.builders import (
    GOOD,
    INT32,
    INT64,
    TEXT,
    attribute,
    constant,
    external,
    field,
    graph,
    inside,
    model,
    node,
    packed,
    tensor,
)


def read(data, log=None):
    def read_range(start, end):
        assert 0 <= start <= end <= len(data)
        if log is not None:
            log.append((start, end))
        return data[start:end]

    return read_model("`x`", len(data), read_range)


def test_an_initializer_is_where_its_bytes_are():
    (found,) = read(GOOD).tensors.values()

    assert (found.name, found.kind.dtype, found.shape) == ("w", "F32", (2, 3))
    assert GOOD[found.data.start : found.data.end] == bytes(range(24))


def test_dims_may_be_packed_and_data_unpacked():
    dims = field(1, packed(2, 2))
    data = b"".join(field(7, number) for number in (5, -1, 1 << 40, 0))
    (found,) = read(model(tensor(kind=INT64, dims=(), data=dims + data))).tensors.values()

    assert found.shape == (2, 2)
    assert found.numbers == Numbers(is_tagged=True)


def test_packed_floats_are_where_raw_data_would_be():
    data = struct.pack("<6f", *range(6))
    whole = model(tensor(data=field(4, data)))
    (found,) = read(whole).tensors.values()

    assert found.numbers is None
    assert whole[found.data.start : found.data.end] == data


@pytest.mark.parametrize("count", [STEP - 1, STEP, STEP + 1, 3 * STEP, 10 * STEP + 7])
def test_it_is_noted_where_numbers_of_any_length_begin(count):
    numbers = [packed(number * 37 % 40_000) for number in range(1009)] * (count // 1009 + 1)
    data = b"".join(numbers[:count])
    whole = model(tensor(kind=INT32, dims=(count,), data=field(5, data)))
    (found,) = read(whole).tensors.values()

    starts = [len(b"".join(numbers[:at])) for at in range(0, count + 1, STEP)]
    assert list(found.numbers.starts) == starts
    assert whole[found.data.start : found.data.end] == data


def test_data_is_jumped_over():
    large = tensor(name="a", dims=(1 << 20,), data=field(9, bytes(4 << 20)))
    whole = model(large, tensor(name="b"), large.replace(b"\x01a", b"\x01c"))
    log = []

    assert list(read(whole, log).tensors) == ["a", "b", "c"]
    assert sum(end - start for start, end in log) < 200_000


def test_constants_are_named_by_their_outputs():
    floats = b"".join(field(7, value) for value in (1.0, 2.0))
    whole = model(
        nodes=[
            constant("a", value=tensor(name="other")),
            constant("b", value_float=1.5),
            constant("c", value_int=7),
            constant("d", value_floats=floats),
            constant("e", value_ints=field(8, packed(1, 2, 300))),
            node("ConstantOfShape", ("n",), ("f",), [attribute("value", field(5, tensor()))]),
        ]
    )
    found = read(whole)

    shapes = {name: (one.kind.dtype, one.shape) for name, one in found.tensors.items()}
    assert shapes == {
        "a": ("F32", (2, 3)),
        "b": ("F32", ()),
        "c": ("I64", ()),
        "d": ("F32", (2,)),
        "e": ("I64", (3,)),
    }
    assert found.notes == ()


def test_tensors_of_branches_bear_the_names_of_their_nodes():
    then = inside("y", tensor(), nodes=[inside("z", tensor(), op="Loop", branch="body")])
    function = field(1, "f") + field(10, "my.domain") + field(7, constant("k", value_int=1))
    whole = model(tensor(), nodes=[then], after=field(25, function))

    assert set(read(whole).tensors) == {
        "w",
        "y.then_branch.z.body.w",
        "y.then_branch.w",
        "my.domain.f.k",
    }


def test_what_is_left_out_is_said():
    tree = node("TreeEnsemble", ("x",), ("y",), [attribute("nodes", field(5, tensor()))])
    text = tensor(name="labels", kind=TEXT, dims=(2,), data=field(6, "a") + field(6, "b"))
    training = field(20, field(1, graph()))

    assert read(model(tensor(), text, nodes=[tree], after=training)).notes == (
        "`x`: left out what is there for training alone",
        "`x`: left out tensors of text: `labels`",
        "`x`: left out tensors that are attributes of `TreeEnsemble`",
    )


def codes(name, *dims):
    return tensor(name=name, kind=2, dims=dims, data=external(location="d"))


def floats(name, *dims):
    return tensor(name=name, dims=dims, data=external(location="d"))


def ints(**values):
    return [attribute(name, field(3, value)) for name, value in values.items()]


def test_a_dequantized_weight_is_found_from_inside_of_a_branch():
    inner = node("DequantizeLinear", ("q", "s"), ("w",), ints(axis=0, block_size=16))
    branch = node("If", ("c",), ("y",), [attribute("g", field(6, graph(nodes=[inner])))])

    (found,) = read(model(codes("q", 64, 4), floats("s", 4, 4), nodes=[branch])).quantized
    assert isinstance(found, Linear)
    assert (found.codes.name, found.scale.name, found.zero) == ("q", "s", None)
    assert (found.axis, found.block) == (0, 16)


def test_a_dequantized_activation_is_not_a_weight():
    nodes = [node("DequantizeLinear", ("x", "s"), ("y",)), node("Relu", ("y",), ("z",))]

    assert read(model(floats("s"), nodes=nodes)).quantized == ()


def zeros(name, kind=INT32, data=None):
    value = [] if data is None else [attribute("value", field(5, tensor("", kind, (1,), data)))]
    return node("ConstantOfShape", ("n",), (name,), value)


def passed(op, name, out, **more):
    return node(op, (name,), (out,), ints(**more))


def dequantized(*names, **more):
    return node("DequantizeLinear", names, ("y",), ints(**more))


FLOAT = 1
KNOWN = {
    "a scale behind Identity": [passed("Identity", "s", "t"), dequantized("q", "t")],
    "codes behind Identity": [passed("Identity", "q", "r"), dequantized("r", "s")],
    "Identity in a chain": [
        passed("Identity", "s", "t"),
        passed("Identity", "t", "u"),
        dequantized("q", "u"),
    ],
    "codes in another order, one scale": [
        passed("Transpose", "q", "r"),
        passed("Reshape", "r", "t"),
        dequantized("t", "s"),
    ],
    "zeros that the graph makes": [zeros("z"), dequantized("q", "s", "z")],
    "zeros that are said": [
        zeros("f", data=field(5, packed(0))),
        passed("Cast", "f", "z", to=2),
        dequantized("q", "s", "z"),
    ],
}


@pytest.mark.parametrize("row", KNOWN)
def test_nodes_that_pass_a_tensor_on_are_looked_through(row):
    (found,) = read(model(codes("q", 4, 4), floats("s"), nodes=KNOWN[row])).quantized

    assert (found.codes.name, found.scale.name, found.zero) == ("q", "s", None)


@pytest.mark.parametrize(("kind", "output"), [(FLOAT, 1), (10, 1), (16, 1)])
def test_a_scale_that_is_widened_gives_wider_values(kind, output):
    scale = tensor("s", kind, (), external(location="d"))
    nodes = [passed("Cast", "s", "t", to=FLOAT), dequantized("q", "t")]
    (found,) = read(model(codes("q", 4, 4), scale, nodes=nodes)).quantized

    assert (found.scale.name, found.output) == ("s", output)


def test_a_function_reads_what_it_is_called_with():
    body = field(4, "q") + field(4, "t") + field(7, dequantized("q", "t"))
    function = field(1, "f") + field(10, "my.domain") + body
    call = node("f", ("a", "s"), ("y",), (), "my.domain")
    found = read(model(codes("a", 4), floats("s"), nodes=[call], after=field(25, function)))

    assert [(one.codes.name, one.scale.name) for one in found.quantized] == [("a", "s")]


def test_a_function_that_calls_itself_ends():
    body = field(4, "q") + field(7, node("f", ("q",), ("y",), (), "d"))
    function = field(1, "f") + field(10, "d") + body
    call = node("f", ("a",), ("y",), (), "d")

    with pytest.raises(InputError, match="its graph needs more than"):
        read(model(codes("a", 4), nodes=[call], after=field(25, function)))


SCALE, ZERO = "no tensor of the file is the scale", "no tensor of the file is the zero point"
COMPUTED = {
    "a scale of the graph": ([dequantized("q", "x")], SCALE),
    "a scale that is rounded": (
        [passed("Cast", "s", "t", to=10), dequantized("q", "t")],
        SCALE,
    ),
    "a scale that goes in a circle": (
        [passed("Identity", "t", "u"), passed("Identity", "u", "t"), dequantized("q", "t")],
        SCALE,
    ),
    "a zero point of the graph": ([dequantized("q", "s", "x")], ZERO),
    "a zero point that is filled with ones": (
        [zeros("z", data=field(5, packed(1))), dequantized("q", "s", "z")],
        ZERO,
    ),
    "a product that nothing multiplies": ([node("MatMulInteger", ("x", "q"), ("y",))], SCALE),
    "a table whose rows are multiplied as integers": (
        [passed("Gather", "q", "r"), node("ConvInteger", ("r", "x"), ("y",))],
        SCALE,
    ),
    "scales of columns, codes in another order": (
        [passed("Transpose", "q", "r"), dequantized("r", "many")],
        "the graph puts codes in another order before it multiplies them by scales",
    ),
    "a bias": (
        [node("QLinearConv", ("x", "", "", "", "", "", "", "", "q"), ("y",))],
        "the scale is the product of two others",
    ),
    "packed codes, zeros that the graph makes": (
        [
            zeros("z"),
            node("MatMulNBits", ("x", "q", "s", "z"), ("y",), ints(K=4), "com.microsoft"),
        ],
        ZERO,
    ),
}


@pytest.mark.parametrize("row", COMPUTED)
def test_a_weight_whose_values_the_graph_alone_knows_is_said_to_be_one(row):
    nodes, why = COMPUTED[row]
    whole = model(codes("q", 4, 4), floats("s"), floats("many", 4), nodes=nodes)

    assert [(one.codes.name, one.why) for one in read(whole).quantized] == [("q", why)]


def test_what_another_node_knows_of_a_weight_is_taken():
    nodes = [dequantized("q", "x"), dequantized("q", "s")]
    (found,) = read(model(codes("q", 4), floats("s"), nodes=nodes)).quantized

    assert isinstance(found, Linear)


def test_the_scale_of_an_integer_product_is_found_behind_it():
    nodes = [
        node("DynamicQuantizeLinear", ("x",), ("xq", "xs", "xz")),
        node("MatMulInteger", ("xq", "q", "xz"), ("i",)),
        node("Mul", ("xs", "s"), ("ss",)),
        node("Cast", ("i",), ("f",)),
        node("Mul", ("f", "ss"), ("y",)),
    ]
    (found,) = read(model(codes("q", 4, 8), floats("s", 8), nodes=nodes)).quantized

    assert (found.codes.name, found.scale.name, found.axis) == ("q", "s", -1)


def test_a_weight_of_n_bits_is_found():
    attributes = ints(K=64, N=8, bits=4, block_size=32)
    nodes = [node("MatMulNBits", ("x", "q", "s"), ("y",), attributes, "com.microsoft")]
    (found,) = read(model(codes("q", 8, 2, 16), floats("s", 16), nodes=nodes)).quantized

    assert isinstance(found, Blocks)
    assert dict(found.ints) == {"K": 64, "N": 8, "bits": 4, "block_size": 32}


def test_content_tells_an_onnx_file():
    assert is_onnx(GOOD)
    assert is_onnx(field(1, 10) + field(2, "pytorch") + field(3, "2.13.0") + field(7, b"")[:1])
    assert not is_onnx(b"")
    assert not is_onnx(b"\x08\x01\x12\x05\x0a\x03abc")  # TensorFlow's SavedModel
    assert not is_onnx(b"\x08\x04\x12\x03\x0a\x01a")  # Core ML's models
    assert not is_onnx(b"text, some text, and more of it")
    assert Span(3, 5).nbytes == 2


@pytest.mark.parametrize("letter", ["x", "é", "word\n"])
@pytest.mark.parametrize("count", [50, 255, 600])
def test_an_explanation_may_be_long(letter, count):
    whole = field(1, 8) + field(6, letter * count) + field(7, graph(tensor()))

    assert is_onnx(whole[:512])
    assert not is_onnx(field(1, 8) + field(6, b"\0" * count + whole)[:512])
