from __future__ import annotations

import pytest

from store.errors import InputError
from store.manifest import Layer, MediaType
from store.tensorblob import layer_mismatches, read_header
from store.tensorfile import TensorEntry, encode_header, parse_header
from tests.store.builders import create, name, ref_of, tensor_blob


def header(*tensors):
    entries = [(name, dtype, shape, 4) for name, dtype, shape in tensors]
    text = encode_header(entries)
    return parse_header(text[8:], len(text) + 4 * len(entries), "x")


def layer(name, dtype=None, shape=None):
    return Layer(MediaType.TENSOR, ref_of(b"").digest, 0, name, dtype, shape)


QUANTIZED = (("w", "U32", (1,)), ("w.bias", "F16", (2,)), ("w.scale", "F16", (2,)))

AGREEING = {
    "plain": (layer("w", "F32", (1,)), [("w", "F32", (1,))]),
    "nothing said": (layer("w"), [("w", "F32", (1,))]),
    "the older key": (layer("w", "F32", (1,)), [("data", "F32", (1,))]),
    "quantized": (layer("w", "BF16", (8,)), QUANTIZED),
    "group": (layer("e"), [("e.0.up", "F32", (1,)), ("e.1.up", "F32", (1,))]),
    "group quantized": (layer("e"), [(f"e.{key}", *rest) for key, *rest in QUANTIZED]),
}
DIFFERING = {
    "another dtype": (layer("w", "F16", (1,)), [("w", "F32", (1,))]),
    "another shape": (layer("w", "F32", (1, 1)), [("w", "F32", (1,))]),
    "another dtype under the older key": (layer("w", "F16"), [("data", "F32", (1,))]),
    "another name": (layer("w"), [("v", "F32", (1,))]),
    "a name that only begins alike": (layer("w"), [("ww", "F32", (1,))]),
    "a stranger beside it": (layer("w"), [("w", "F32", (1,)), ("v", "F32", (1,))]),
    "a stranger in a group": (layer("e"), [("e.0", "F32", (1,)), ("f.0", "F32", (1,))]),
    "nothing": (layer("w"), []),
}


@pytest.mark.parametrize(("layer", "tensors"), AGREEING.values(), ids=AGREEING)
def test_a_layer_agrees_with_its_blob(layer, tensors):
    assert list(layer_mismatches(layer, header(*tensors))) == []


@pytest.mark.parametrize(("layer", "tensors"), DIFFERING.values(), ids=DIFFERING)
def test_a_layer_that_differs_from_its_blob_is_seen(layer, tensors):
    assert len(list(layer_mismatches(layer, header(*tensors)))) == 1


def test_each_difference_is_told():
    both = layer("w", "F16", (7,))

    assert len(list(layer_mismatches(both, header(("w", "F32", (1,)))))) == 2


def test_the_header_of_a_blob_in_the_store_is_read(store):
    create(store, tensors={"w": b"12"})
    content = tensor_blob("w", b"12")

    with store.blobs.open(ref_of(content).digest) as file:
        found = read_header(store, file, len(content), "w")

    assert found.entries == (TensorEntry("w", "U8", (2,), 0, 2),)


def test_a_blob_that_is_no_tensor_file_is_named(store):
    with store.writing(name()) as writer:
        ref, _ = writer.put(b"no tensor file")

    with store.blobs.open(ref.digest) as file, pytest.raises(InputError, match=r"^`w`: "):
        read_header(store, file, ref.size, "`w`")
