"""Every decision is in the plan: blobs and their bytes, files, what is left out, warnings."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.classify import classify
from importer.plan import make_plan
from importer.quant import QUANT_TYPES
from importer.recipe import PLAIN, Recipe, Rule
from importer.sources.tree import LeftOut
from store import MediaType
from store.errors import InputError, UnsupportedError
from store.tensorfile import parse_header
from tests.importer.builders import inventory, plan

EXPERTS = "model.layers.0.mlp.experts"


def layers(made):
    return [blob.name for blob in made.blobs]


def test_a_tensor_becomes_a_blob_with_the_documented_header():
    (blob,) = plan({"model.norm.weight": ("BF16", (2560,))}).blobs

    header = b'{"model.norm.weight":{"dtype":"BF16","shape":[2560],"data_offsets":[0,5120]}}'
    assert blob.header == struct.pack("<Q", 80) + header.ljust(80)
    assert (blob.name, blob.nbytes, blob.is_group) == ("model.norm.weight", 88 + 5120, False)


def test_blobs_are_tensors_then_groups_each_bytewise():
    names = (
        "z",
        f"{EXPERTS}.0.w",
        "é",
        "B",
        f"{EXPERTS}.1.w",
        "model.layers.0.mlp.gate.weight",
    )
    shared = "model.layers.0.mlp.shared_experts"

    made = plan(dict.fromkeys((*names, f"{shared}.w"), ("U8", (1,))))

    assert layers(made) == [
        "B",
        "model.layers.0.mlp.gate.weight",
        "z",
        "é",
        EXPERTS,
        shared,
    ]


def test_members_of_a_group_are_in_bytewise_order():
    made = plan({f"{EXPERTS}.{number}.w": ("F16", (number + 1,)) for number in range(11)})

    (group,) = made.blobs
    numbers = [0, 1, 10, *range(2, 10)]
    assert [t.name for t in group.tensors] == [f"{EXPERTS}.{n}.w" for n in numbers]
    header = parse_header(group.header[8:], group.nbytes, "x")
    assert [entry.name for entry in header.entries] == [f"{EXPERTS}.{n}.w" for n in numbers]
    assert [entry.nbytes for entry in header.entries] == [2 * (n + 1) for n in numbers]
    assert header.metadata == {}
    assert group.is_group


def test_groups_do_not_span_components():
    tensors = {
        f"{part}/layers.0.experts.{n}.w": ("U8", (1,)) for part in "ab" for n in range(2)
    }

    made = plan(tensors, components=("a", "b"))

    assert layers(made) == ["a/layers.0.experts", "b/layers.0.experts"]


def test_a_component_whose_name_looks_like_a_block_is_none():
    made = plan({"layers.0/experts.0.w": ("U8", (1,))}, components=("layers.0",))

    assert layers(made) == ["layers.0/experts.0.w"]


_shapes = st.lists(st.integers(0, 9), max_size=4).map(tuple)
_tensors = st.dictionaries(
    st.sampled_from(
        ["a", "b.weight", "é", "a<b>", f"{EXPERTS}.0.w", f"{EXPERTS}.1.w", "h.1.x"]
    ),
    st.tuples(st.sampled_from(["F32", "BF16", "U8", "I64", "F8_E4M3"]), _shapes),
    min_size=1,
)


@given(_tensors)
def test_sizes_are_those_that_the_header_promises(tensors):
    made = plan(tensors)

    for blob in made.blobs:
        header = parse_header(blob.header[8:], blob.nbytes, blob.name)  # which checks them
        assert header.nbytes == len(blob.header)
        assert {(e.name, e.dtype, e.shape) for e in header.entries} == {
            (t.name, t.dtype, t.shape) for t in blob.tensors
        }
    assert sorted(t.name for t in made.tensors) == sorted(tensors)
    assert made.nbytes == sum(blob.nbytes for blob in made.blobs)


def test_files_become_layers_with_media_types():
    made = plan(files=(("LICENSE", 3), ("config.json", 2), ("tokenizer.model", 1)))

    assert [(file.file.path, file.media_type, file.nbytes) for file in made.files] == [
        ("LICENSE", MediaType.LICENSE, 3),
        ("config.json", MediaType.JSON, 2),
        ("tokenizer.model", MediaType.FILE, 1),
    ]
    assert made.nbytes == sum(blob.nbytes for blob in made.blobs) + 6


def test_what_the_inventory_leaves_out_is_in_the_plan():
    found = replace(inventory(), left_out=(LeftOut("x.bin", "weights in another format"),))

    assert make_plan(found, classify(found), PLAIN).left_out == found.left_out


def test_a_tensor_that_is_kept_says_why():
    assert {tensor.decision.reason for tensor in plan().tensors} == {"kept as it is"}


def test_a_tensor_that_cannot_be_quantized_is_kept_and_counted():
    recipe = Recipe("int4", (Rule(("*",), QUANT_TYPES["int4"], "asked for"),))

    made = plan({"ids": ("I64", (32,)), "a": ("F32", (2, 32))}, recipe)

    assert [(one.name, one.decision.reason) for one in made.misfits] == [
        ("ids", "I64 cannot be quantized")
    ]
    assert "1 of 2 tensors stay as they are" in made.warnings[0]


def test_the_first_rule_that_matches_decides():
    keep, other = Rule(("*.norm.*",), None, "a norm"), Rule(("*",), None, "the rest")

    reasons = [
        tensor.decision.reason for tensor in plan(recipe=Recipe("r", (keep, other))).tensors
    ]

    assert reasons == ["the rest", "a norm"]


@pytest.mark.parametrize(
    ("tensors", "parameters"),
    [
        ({"a": ("F32", (2, 3)), "b": ("BF16", ()), "c": ("F8_E4M3", (4,))}, 11),
        ({"a": ("F32", (2,)), "ids": ("I64", (99,)), "mask": ("BOOL", (99,))}, 2),
        ({"a.weight": ("U32", (9,)), "a.scales": ("F16", (9,))}, None),
    ],
)
def test_parameters_are_elements_of_floating_tensors(tensors, parameters):
    assert plan(tensors).parameters == parameters


def test_a_tensor_with_the_name_of_a_group_is_refused():
    tensors = {EXPERTS: ("U8", (1,)), f"{EXPERTS}.0.w": ("U8", (1,))}

    with pytest.raises(InputError) as caught:
        plan(tensors)
    assert caught.value.code == "E_NAME_COLLISION"
    assert f"`{EXPERTS}`" in str(caught.value)


def test_more_tensors_than_a_manifest_names_are_unsupported():
    with pytest.raises(UnsupportedError) as caught:
        plan({f"t{number}": ("U8", (1,)) for number in range(100_001)})
    assert (caught.value.code, caught.value.exit_code) == ("E_LIMIT", 4)


def test_tensors_in_a_group_count_once(monkeypatch):
    monkeypatch.setattr("store.limits.TENSOR_LAYERS", 2)
    members = {f"{EXPERTS}.{number}.w": ("U8", (1,)) for number in range(5)}

    assert len(plan({**members, "a": ("U8", (1,))}).blobs) == 2
    with pytest.raises(UnsupportedError):
        plan({**members, "a": ("U8", (1,)), "b": ("U8", (1,))})


def test_a_header_that_one_reader_refuses_is_told():
    one = f"{EXPERTS}.{{:04}}.{'x' * 900}.w"

    small = plan({one.format(number): ("U8", (1,)) for number in range(1000)})
    large = plan({one.format(number): ("U8", (1,)) for number in range(1100)})

    assert small.warnings == ()
    (warning,) = large.warnings
    assert warning.startswith(f"the header of `{EXPERTS}` has {len(large.blobs[0].header)} ")


def test_empty_tensors_are_told():
    (warning,) = plan({"a": ("F32", (0, 2**60)), "b": ("F32", (0,)), "c": ("F32", ())}).warnings

    assert warning == "tensor `a` and 1 more has no elements"
