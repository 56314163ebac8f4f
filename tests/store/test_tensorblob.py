"""The dialect of tensor blobs: what is written is read back, and older forms are read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import InputError
from store.manifest import Layer, MediaType
from store.tensorblob import (
    PARTS,
    layer_mismatches,
    plain_header_bytes,
    plain_keys,
    quant_metadata,
    read_header,
    read_tensors,
)
from store.tensorfile import (
    ITEM_BITS,
    TensorEntry,
    data_bytes,
    encode_header,
    parse_header,
)
from tests.store.builders import create, name, ref_of, tensor_blob


def header(*tensors, metadata=None):
    entries = [(name, dtype, shape, 4) for name, dtype, shape in tensors]
    text = encode_header(entries, metadata)
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
    "plain, of a component": (layer("c/w", "F32", (1,)), [("w", "F32", (1,))]),
    "the component in the key": (layer("c/w", "F32", (1,)), [("c/w", "F32", (1,))]),
    "half of the component in the key": (layer("a/b/w"), [("b/w", "F32", (1,))]),
    "the older key of a component": (layer("c/w", "F32", (1,)), [("data", "F32", (1,))]),
    "a tensor called as the older key": (layer("c/data"), [("data", "F32", (1,))]),
    "quantized, of a component": (layer("c/w", "BF16", (8,)), QUANTIZED),
    "group of a component": (layer("c/e"), [("e.0.up", "F32", (1,)), ("e.1.up", "F32", (1,))]),
    "group with the component": (
        layer("c/e"),
        [("c/e.0", "F32", (1,)), ("c/e.1", "F32", (1,))],
    ),
    "a slash in a name": (layer("c/a/w"), [("a/w", "F32", (1,))]),
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
    "another dtype in a component": (layer("c/w", "F16"), [("w", "F32", (1,))]),
    "the end of a word": (layer("cw"), [("w", "F32", (1,))]),
    "another component": (layer("c/w"), [("d/w", "F32", (1,))]),
    "more than the name": (layer("w"), [("c/w", "F32", (1,))]),
    "with the component and without": (
        layer("c/w"),
        [("w", "F32", (1,)), ("c/w", "F32", (1,))],
    ),
    "without the component and with": (
        layer("c/w"),
        [("c/w", "F32", (1,)), ("w", "F32", (1,))],
    ),
    "a stranger in a group of a component": (
        layer("c/e"),
        [("e.0", "F32", (1,)), ("c/e.1", "F32", (1,))],
    ),
    "the older key beside another": (layer("w"), [("data", "F32", (1,)), ("w", "F32", (1,))]),
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


# Metadata, written and read.

INT4, INT8 = ("int4", 32), ("int8", 64)


def own(key, quant):
    return {f"{key}.quant_type": quant[0], f"{key}.group_size": str(quant[1])}


METADATA = {
    "plain": ([("w", None)], {}),
    "quantized": ([("w", INT4)], {"quant_type": "int4", "group_size": "32"}),
    "a plain group": ([("e.a", None), ("e.b", None)], {}),
    "alike": (
        [("e.a", INT4), ("e.b", INT4)],
        own("e.a", INT4) | own("e.b", INT4) | {"quant_type": "int4", "group_size": "32"},
    ),
    "unlike": ([("e.a", INT4), ("e.b", INT8)], own("e.a", INT4) | own("e.b", INT8)),
    "unlike in size": (
        [("e.a", INT4), ("e.b", ("int4", 64))],
        own("e.a", INT4) | own("e.b", ("int4", 64)),
    ),
    "blocks": ([("w", ("Q4_K", None))], {"quant_type": "Q4_K"}),
    "blocks alike": (
        [("e.a", ("Q4_K", None)), ("e.b", ("Q4_K", None))],
        {"e.a.quant_type": "Q4_K", "e.b.quant_type": "Q4_K", "quant_type": "Q4_K"},
    ),
    "one beside a plain one": ([("e.a", INT4), ("e.b", None)], own("e.a", INT4)),
    "alike beside a plain one": (
        [("e.a", INT4), ("e.b", None), ("e.c", INT4)],
        own("e.a", INT4) | own("e.c", INT4),
    ),
}


@pytest.mark.parametrize(("members", "metadata"), METADATA.values(), ids=METADATA)
def test_metadata_tells_of_each_member_and_of_all_where_they_are_alike(members, metadata):
    assert quant_metadata(members) == metadata


def bytes_header(dtype, shape, metadata):
    """The header of a blob with one array of bytes."""
    nbytes = math.prod(shape)
    text = encode_header([("w", dtype, shape, nbytes)], metadata)
    return parse_header(text[8:], len(text) + nbytes, "x")


BLOCKS = [
    ({"quant_type": "Q4_K"}, "U8", (2, 144), "Q4_K"),
    ({"w.quant_type": "Q4_K"}, "U8", (2, 144), "Q4_K"),
    ({}, "U8", (2, 144), None),
    ({"quant_type": "Q4_K"}, "I8", (2, 144), None),
    ({"quant_type": "Q4_K"}, "U8", (), None),
    ({"quant_type": "int4", "group_size": "32"}, "U8", (2, 144), None),
]


@pytest.mark.parametrize(("metadata", "dtype", "shape", "quant_type"), BLOCKS)
def test_bytes_of_a_declared_type_are_blocks(metadata, dtype, shape, quant_type):
    (found,) = read_tensors("w", bytes_header(dtype, shape, metadata))

    assert found.quant_type == quant_type
    assert found.is_blocks == (quant_type is not None)
    assert not found.is_quantized


@pytest.mark.parametrize(("shape", "is_wrong"), [((2, 256), False), ((3, 256), True)])
def test_the_layer_of_blocks_has_the_logical_shape(shape, is_wrong):
    found = bytes_header("U8", (2, 144), {"quant_type": "Q4_K"})

    assert bool(list(layer_mismatches(layer("w", "F32", shape), found))) == is_wrong


def blob_header(members, metadata=None):
    """The header of a blob with these members, whose quantized ones have a scale and a bias."""
    arrays = []
    for key, quant in members:
        if quant is None:
            arrays.append((key, "F32", (1,)))
        else:
            arrays += [
                (key, "U32", (1,)),
                (f"{key}.scale", "F16", (2,)),
                (f"{key}.bias", "F16", (2,)),
            ]
    return header(*arrays, metadata=quant_metadata(members) if metadata is None else metadata)


def read(layer, found):
    """What `read_tensors` finds, as members."""
    return [
        (one.name, (one.quant_type, one.group_size) if one.is_quantized else None)
        for one in read_tensors(layer, found)
    ]


_quants = st.none() | st.tuples(
    st.sampled_from(["int4", "int8", "x y", "Q4_K"]), st.integers(1, 2**20)
)
_endings = st.text("ab.0/_", min_size=1, max_size=6) | st.sampled_from(
    ["quant_type", "group_size", "data"]
)
_components = st.sampled_from(["", "c/", "a/b/", "layers.0/", "data/"])


@given(_components, st.sampled_from(["", "c/"]), st.dictionaries(_endings, _quants, min_size=1))
def test_members_are_read_as_they_were_written(component, slashed, members):
    group = f"{slashed}layers.0.experts"
    written = [(f"{group}.{ending}", quant) for ending, quant in members.items()]

    found = read(component + group, blob_header(written))

    assert found == [(component + key, quant) for key, quant in written]


@given(_components, _endings, _quants)
def test_a_single_tensor_is_read_as_it_was_written(component, key, quant):
    found = blob_header([(key, quant)])

    assert read(component + key, found) == [(component + key, quant)]
    assert list(layer_mismatches(layer(component + key), found)) == []
    if quant is None:
        assert key in list(plain_keys(component + key))


def test_parts_are_in_the_order_of_the_file():
    (tensor,) = read_tensors(
        "c/w",
        header(
            ("w", "U32", (1,)),
            ("w.global_scale", "F32", (1,)),
            ("w.bias", "F16", (2,)),
            ("w.scale", "F16", (2,)),
        ),
    )

    assert tuple(tensor.parts) == PARTS
    assert tensor.nbytes == 16
    assert tensor.weight.name == "w"


@pytest.mark.parametrize("prefix", ["", "c/"])
def test_global_keys_hold_for_what_says_nothing_of_its_own(prefix):
    """As groups were written before their members had keys of their own."""
    members = [(f"{prefix}e.a", INT4), (f"{prefix}e.b", None), (f"{prefix}e.c", INT4)]

    found = blob_header(members, {"quant_type": "int4", "group_size": "32"})

    assert read("c/e", found) == [("c/e.a", INT4), ("c/e.b", None), ("c/e.c", INT4)]


def test_a_member_s_own_keys_come_first():
    metadata = own("e.a", INT8) | {"quant_type": "int4", "group_size": "32"}

    found = blob_header([("e.a", INT4), ("e.b", INT4)], metadata)

    assert read("e", found) == [("e.a", INT8), ("e.b", INT4)]


@pytest.mark.parametrize("size", ["", "x", "-1", "9" * 5000, "٣", " 3"])
def test_a_group_size_that_is_not_a_number_is_not_declared(size):
    found = blob_header([("w", INT4)], {"quant_type": "int4", "group_size": size})

    assert read("w", found) == [("w", ("int4", None))]


def test_what_does_not_belong_to_the_layer_is_named_by_its_key():
    assert read("c/e", blob_header([("e.a", None), ("f.b", None)])) == [
        ("c/e.a", None),
        ("f.b", None),
    ]


def test_a_long_name_of_a_layer_takes_no_time():
    name = "a/" * 500_000

    assert len(list(plain_keys(name))) < 10
    assert read(f"{name}w", blob_header([("w", None)])) == [(f"{name}w", None)]


@given(st.text(max_size=9), st.sampled_from(sorted(ITEM_BITS)), st.lists(st.integers(0, 99)))
def test_the_size_of_a_plain_header_is_told_without_writing_it(key, dtype, shape):
    nbytes = data_bytes(dtype, shape)

    told = plain_header_bytes(key, dtype, tuple(shape), nbytes)

    assert told == len(encode_header([(key, dtype, tuple(shape), nbytes)]))
