"""The tensors of stored models: ours, Ollama's, those of older forms of the format."""

from __future__ import annotations

import json
import struct

import pytest

from importer.sources.stored.tensors import read_layer
from store import Layer, MediaType, ModelName, Store
from store.digest import Digest
from store.errors import InputError, IntegrityError
from store.tensorblob import quant_metadata
from store.tensorfile import encode_header
from tests.importer.builders import (
    BITS,
    MODELS,
    create,
    framed,
    handmade,
    safetensors,
    tensor_layer,
)

WEIGHT = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def read(store, content, name=WEIGHT, *, headers=False, **fields):
    """Read the one layer of a model made by hand."""
    model = handmade(store, [tensor_layer(content, name, **fields)])
    (layer,) = store.catalog.get(model).parse().layers
    return list(read_layer(store, layer, headers=headers))


def mlx_blob(tensors, metadata):
    """Write a blob as MLX does: fields sorted, no padding, the weight last in the data."""
    order = sorted(tensors, key=lambda name: (not name.endswith((".bias", ".scale")), name))
    begin, header = 0, {"__metadata__": metadata}
    for name in order:
        dtype, shape, nbytes = tensors[name]
        header[name] = {"data_offsets": [begin, begin + nbytes], "dtype": dtype, "shape": shape}
        begin += nbytes
    text = json.dumps(dict(sorted(header.items())), separators=(",", ":")).encode()
    text += b"" if len(text) % 8 else b" "  # so that no padding is what is tested
    return struct.pack("<Q", len(text)) + text + bytes(begin)


def quantized(name=WEIGHT, words=8, groups=2, rows=4, scale="BF16"):
    """The parts of an affine tensor: its packed words, scales and biases."""
    nbytes = rows * groups * BITS[scale] // 8
    parts = {
        name: ("U32", [rows, words], 4 * rows * words),
        f"{name}.scale": (scale, [rows, groups], nbytes),
    }
    if scale != "U8":
        parts[f"{name}.bias"] = (scale, [rows, groups], nbytes)
    return parts


def facts(tensor):
    return tensor.quant, tensor.group_size, tensor.dtype, tensor.shape


def test_a_plain_tensor_needs_no_header(store):
    content = encode_header([(WEIGHT, "BF16", (32,), 64)]) + bytes(64)

    (tensor,) = read(store, content, dtype="BF16", shape=(32,))

    assert tensor.offset is None
    assert facts(tensor) == (None, None, "BF16", (32,))
    assert (tensor.name, tensor.layer, tensor.nbytes) == (WEIGHT, WEIGHT, 64)
    assert tensor.type_name == "BF16"


@pytest.mark.parametrize("headers", [False, True])
def test_our_own_blobs_are_read_with_and_without_headers(store, headers):
    create(store, MODELS / "tiny-moe")
    manifest = store.catalog.get(ModelName.parse("m")).parse()
    layers = [la for la in manifest.layers if la.media_type == MediaType.TENSOR]

    tensors = [t for layer in layers for t in read_layer(store, layer, headers=headers)]

    assert len(tensors) == 61
    assert {tensor.quant for tensor in tensors} == {None}
    vectors = [t for t in tensors if t.name == t.layer and len(t.shape) == 1]
    assert len(vectors) == 12
    assert all((tensor.offset is None) is not headers for tensor in vectors)


@pytest.mark.parametrize("component", ["", "text_encoder/"])
def test_a_small_quantized_tensor_of_a_plain_one_s_size_is_quantized(store, component):
    """Its longer header may take what its shorter data saves."""
    sizes = []
    for length in range(32):
        key = "w" * length + ".weight"
        parts = quantized(key, 32, 2, 2)
        metadata = quant_metadata([(key, ("int8", 64))])
        entries = [(name, dtype, tuple(shape), n) for name, (dtype, shape, n) in parts.items()]
        header = encode_header(entries, metadata)
        content = header + bytes(sum(nbytes for *_, nbytes in entries))
        sizes.append(len(content) - len(encode_header([(key, "BF16", (2, 128), 512)])) - 512)

        (tensor,) = read(store, content, component + key, dtype="BF16", shape=(2, 128))

        assert facts(tensor) == ("int8", 64, "BF16", (2, 128))
    assert 0 in sizes


@pytest.mark.parametrize("name", [WEIGHT, f"text_encoder/{WEIGHT}", f"a/b/{WEIGHT}"])
def test_the_header_of_a_large_plain_tensor_is_not_read(store, name):
    content = encode_header([(WEIGHT, "BF16", (64, 256), 1 << 15)]) + bytes(1 << 15)

    (tensor,) = read(store, content, name, dtype="BF16", shape=(64, 256))

    assert (tensor.name, tensor.offset) == (name, None)


def test_a_plain_header_is_read_where_the_layer_does_not_match_it(store):
    content = framed({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, bytes(8))

    (tensor,) = read(store, content, "w", dtype="F32", shape=(2,))

    assert tensor.offset == len(content) - 8


def test_a_quantized_tensor_of_mlx_is_read(store):
    metadata = {"quant_type": "int4", "group_size": "32"}

    (tensor,) = read(store, mlx_blob(quantized(), metadata))

    assert facts(tensor) == ("int4", 32, "BF16", (4, 64))
    assert tensor.nbytes == 4 * 8 * 4 + 2 * 4 * 2 * 2
    assert tensor.type_name == "int4"


def test_a_blob_of_mlx_without_metadata_is_read(store):
    (tensor,) = read(store, mlx_blob({"w": ("F16", [2, 2], 8)}, None), "w")

    assert facts(tensor) == (None, None, "F16", (2, 2))


@pytest.mark.parametrize(
    ("name", "group", "words", "scale"),
    [
        ("int2", 64, 8, "BF16"),
        ("int3", 64, 12, "F16"),
        ("int4", 64, 16, "F32"),
        ("int5", 64, 20, "BF16"),
        ("int6", 64, 24, "BF16"),
        ("int8", 64, 32, "BF16"),
        ("nvfp4", 16, 16, "U8"),
        ("mxfp4", 32, 16, "U8"),
        ("mxfp8", 32, 32, "U8"),
    ],
)
@pytest.mark.parametrize("prefix", ["", f"{WEIGHT}."], ids=["global", "own"])
def test_every_type_is_read_from_the_metadata(store, prefix, name, group, words, scale):  # noqa: PLR0913, PLR0917 - a table
    metadata = {f"{prefix}quant_type": name, f"{prefix}group_size": str(group)}
    parts = quantized(WEIGHT, words, 128 // group, 4, scale)

    (tensor,) = read(store, mlx_blob(parts, metadata))

    assert (tensor.quant, tensor.group_size, tensor.shape) == (name, group, (4, 128))


def test_members_of_a_group_may_have_types_of_their_own(store):
    up, down = "g.0.up.weight", "g.0.down.weight"
    parts = {**quantized(up), **quantized(down, 16, 1), "g.0.norm": ("F32", [2], 8)}
    metadata = {
        f"{up}.quant_type": "int4",
        f"{up}.group_size": "32",
        f"{down}.quant_type": "int8",
        f"{down}.group_size": "64",
    }

    tensors = {tensor.name: tensor for tensor in read(store, mlx_blob(parts, metadata), "g")}

    assert facts(tensors[up]) == ("int4", 32, "BF16", (4, 64))
    assert facts(tensors[down]) == ("int8", 64, "BF16", (4, 64))
    assert facts(tensors["g.0.norm"]) == (None, None, "F32", (2,))


@pytest.mark.parametrize(
    ("words", "groups", "scale", "expected"),
    [
        (8, 2, "BF16", ("int4", 32, (4, 64))),
        (32, 2, "BF16", ("int8", 64, (4, 128))),
        (16, 2, "BF16", ("int4", 64, (4, 128))),
        (8, 4, "U8", ("nvfp4", 16, (4, 64))),
        (8, 2, "U8", ("mxfp4", 32, (4, 64))),
        (16, 2, "U8", ("mxfp8", 32, (4, 64))),
        (9, 4, "BF16", ("unknown", 0, (4, 36))),
    ],
)
def test_a_type_without_metadata_is_inferred_from_the_shapes(
    store, words, groups, scale, expected
):
    (tensor,) = read(store, mlx_blob(quantized(WEIGHT, words, groups, 4, scale), None))

    assert (tensor.quant, tensor.group_size, tensor.shape) == expected


def test_a_global_scale_belongs_to_its_tensor(store):
    parts = {**quantized(scale="U8", groups=4), f"{WEIGHT}.global_scale": ("F32", [], 4)}
    metadata = {"quant_type": "nvfp4", "group_size": "16"}

    (tensor,) = read(store, mlx_blob(parts, metadata))

    assert tensor.nbytes == 4 * 8 * 4 + 4 * 4 + 4


def test_the_layer_says_the_dtype_of_the_source(store):
    content = mlx_blob(quantized(scale="U8"), {"quant_type": "mxfp4"})

    assert read(store, content, dtype="BF16", shape=(4, 64))[0].dtype == "BF16"


def test_a_bias_without_a_scale_is_a_tensor(store):
    content = safetensors({"m.weight": ("F32", (1,)), "m.weight.bias": ("F32", (1,))})

    assert [t.name for t in read(store, content, "m")] == ["m.weight", "m.weight.bias"]


def test_a_scale_beside_a_plain_tensor_is_a_tensor(store):
    content = safetensors({WEIGHT: ("BF16", (4, 8)), f"{WEIGHT}.scale": ("BF16", (4,))})

    tensors = read(store, content, "model.layers.0.mlp.experts")

    assert [(one.name, one.type_name, one.shape) for one in tensors] == [
        (WEIGHT, "BF16", (4, 8)),
        (f"{WEIGHT}.scale", "BF16", (4,)),
    ]


def test_the_single_key_of_the_older_form_is_named_by_its_layer(store):
    content = framed(
        {"data": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}, b"8" * 8
    )
    name = "text_encoder/model.layers.0.mlp.down_proj.weight"

    (tensor,) = read(store, content, name, dtype="BF16", shape=(2, 2))

    assert (tensor.name, tensor.shape, tensor.nbytes) == (name, (2, 2), 8)


@pytest.mark.parametrize("group_size", ["", "x", "-1", "9" * 5000, "٣", "0"])
def test_an_odd_group_size_does_no_harm(store, group_size):
    metadata = {"quant_type": "int4", "group_size": group_size}

    (tensor,) = read(store, mlx_blob(quantized(), metadata))

    assert (tensor.quant, tensor.shape) == ("int4", (4, 64))


@pytest.mark.parametrize("metadata", [{"quant_type": "q9"}, {"quant_type": ""}, {"x": "y"}])
def test_an_unknown_type_is_inferred(store, metadata):
    assert read(store, mlx_blob(quantized(), metadata))[0].quant == "int4"


@pytest.mark.parametrize("shape", [[], [0], [4, 0]])
def test_a_scale_of_something_without_columns_does_no_harm(store, shape):
    nbytes = 0 if 0 in shape else 4
    parts = {"w": ("U32", shape, nbytes), "w.scale": ("F16", [], 2)}

    tensors = read(store, mlx_blob(parts, None), "w")

    assert "w" in [tensor.name for tensor in tensors]


@pytest.mark.parametrize("content", [b"", b"1234567", b"\xff" * 99, safetensors({})[:-1]])
def test_a_blob_that_is_no_tensor_is_an_error(store, content):
    with pytest.raises(InputError) as caught:
        read(store, content)
    assert "blob sha256:" in str(caught.value)


def test_a_missing_blob_is_named(store):
    store.prepare()
    layer = Layer(MediaType.TENSOR, Digest("0" * 64), 8, WEIGHT)

    with pytest.raises(IntegrityError) as caught:
        list(read_layer(store, layer))
    assert WEIGHT in str(caught.value)


def test_a_blob_of_another_size_is_named(store):
    model = handmade(store, [tensor_layer(safetensors({"w": ("F32", (1,))}), "w")])
    (layer,) = store.catalog.get(model).parse().layers
    path = store.blobs.path(layer.digest)
    path.chmod(0o600)
    path.write_bytes(b"")

    with pytest.raises(IntegrityError):
        list(read_layer(store, layer))
