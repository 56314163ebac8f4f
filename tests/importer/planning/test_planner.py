"""Every decision is in the plan: blobs and their bytes, files, what is left out, warnings."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs.spec import QUANT_TYPES, FloatType, parse_target
from importer.planning.outcome import misfits_of
from importer.planning.planner import make_plan
from importer.recipes.recipe import PLAIN, Recipe
from importer.recipes.rule import Rule
from importer.sources.classification import classify
from importer.sources.roles import LeftOut
from store import MediaType
from store.errors import InputError, UnsupportedError, UsageError
from store.tensorfile import parse_header
from tests.importer.builders import inventory, plan

EXPERTS = "model.layers.0.mlp.experts"
TRIPLET = {
    "a.weight": ("U32", (2, 8)),
    "a.scales": ("F16", (2, 1)),
    "a.biases": ("F16", (2, 1)),
}
"""As MLX quantizes to 4 bits in groups of 64."""


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
        f"{EXPERTS}.0.weight",
        "é",
        "B",
        f"{EXPERTS}.1.weight",
        "model.layers.0.mlp.gate.weight",
    )
    shared = "model.layers.0.mlp.shared_experts"

    made = plan(dict.fromkeys((*names, f"{shared}.a", f"{shared}.b"), ("U8", (1, 1, 1))))

    assert layers(made) == [
        "B",
        "model.layers.0.mlp.gate.weight",
        "z",
        "é",
        EXPERTS,
        shared,
    ]


def test_members_of_a_group_are_in_bytewise_order():
    made = plan({f"{EXPERTS}.{n}.weight": ("F16", (n + 1, 1)) for n in range(11)})

    (group,) = made.blobs
    numbers = [0, 1, 10, *range(2, 10)]
    assert [t.name for t in group.tensors] == [f"{EXPERTS}.{n}.weight" for n in numbers]
    header = parse_header(group.header[8:], group.nbytes, "x")
    assert [entry.name for entry in header.entries] == [
        f"{EXPERTS}.{n}.weight" for n in numbers
    ]
    assert [entry.nbytes for entry in header.entries] == [2 * (n + 1) for n in numbers]
    assert header.metadata == {}
    assert group.is_group


def test_groups_do_not_span_components():
    tensors = {
        f"{part}/layers.0.experts.{n}.weight": ("U8", (1, 1)) for part in "ab" for n in range(2)
    }

    made = plan(tensors, components=("a", "b"))

    assert layers(made) == ["a/layers.0.experts", "b/layers.0.experts"]


def test_a_component_whose_name_looks_like_a_block_is_none():
    tensors = {f"layers.0/experts.{n}.weight": ("U8", (1, 1)) for n in range(2)}

    made = plan(tensors, components=("layers.0",))

    assert layers(made) == ["layers.0/experts.0.weight", "layers.0/experts.1.weight"]


def test_keys_do_not_tell_the_component():
    tensors = {
        **{f"a/{EXPERTS}.{n}.weight": ("BF16", (2, 64)) for n in range(2)},
        "a/w": ("BF16", (2, 64)),
        "b/w.scale": ("BF16", (2,)),  # is not the scale of `a/w`
    }

    made = plan(tensors, recipe(("a/*", INT4)), components=("a", "b"))

    assert layers(made) == ["a/w", "b/w.scale", f"a/{EXPERTS}"]
    single, other, group = map(header_of, made.blobs)
    assert [entry.name for entry in single.entries] == ["w", "w.scale", "w.bias"]
    assert [entry.name for entry in other.entries] == ["w.scale"]
    assert {entry.name.rpartition(".weight")[0] for entry in group.entries} == {
        f"{EXPERTS}.0",
        f"{EXPERTS}.1",
    }
    assert all(key.startswith((EXPERTS, "quant_type", "group_size")) for key in group.metadata)


def test_s63_a_generated_name_is_taken_only_within_its_component():
    tensors = {"a/w": ("BF16", (2, 64)), "a/w.scale": ("BF16", (2,))}

    with pytest.raises(InputError, match=r"`a/w\.scale` has the name that a part of `a/w`"):
        plan(tensors, recipe(("a/w", INT4)), components=("a",))


def test_only_matrices_of_weights_join_a_group():
    tensors = {
        f"{EXPERTS}.0.up.weight": ("BF16", (2, 4)),
        f"{EXPERTS}.0.up.bias": ("BF16", (2,)),
        f"{EXPERTS}.down": ("BF16", (3, 2, 4)),
        f"{EXPERTS}.e_score_correction_bias": ("F32", (3,)),
        "model.layers.0.mlp.gate.weight": ("BF16", (3, 4)),
    }

    made = plan(tensors)

    assert layers(made) == [
        f"{EXPERTS}.0.up.bias",
        f"{EXPERTS}.e_score_correction_bias",
        "model.layers.0.mlp.gate.weight",
        EXPERTS,
    ]
    group = made.blobs[-1]
    assert [one.name for one in group.tensors] == [
        f"{EXPERTS}.0.up.weight",
        f"{EXPERTS}.down",
    ]


def test_a_single_tensor_is_not_a_group():
    tensors = {f"{EXPERTS}.0.w.weight": ("BF16", (2, 64)), "z": ("BF16", (2,))}

    blob, _ = plan(tensors, recipe(("*.weight", INT4))).blobs

    assert (blob.name, blob.is_group) == (f"{EXPERTS}.0.w.weight", False)
    assert header_of(blob).metadata == {"quant_type": "int4", "group_size": "32"}


def test_arrays_of_quantized_experts_stay_together():
    tensors = {
        f"{EXPERTS}.0.up.qweight": ("I32", (2, 4)),
        f"{EXPERTS}.0.up.qzeros": ("I32", (1, 4)),
        f"{EXPERTS}.0.up.scales": ("F16", (1, 4)),
        f"{EXPERTS}.0.up.g_idx": ("I32", (8,)),
        f"{EXPERTS}.e_score_correction_bias": ("F32", (3,)),
    }

    assert layers(plan(tensors)) == [f"{EXPERTS}.e_score_correction_bias", EXPERTS]


_shapes = st.lists(st.integers(0, 9), max_size=4).map(tuple)
_tensors = st.dictionaries(
    st.sampled_from(
        ["a", "b.weight", "é", "a<b>", f"{EXPERTS}.0.weight", f"{EXPERTS}.1.w", "h.1.x"]
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
    found = inventory()._replace(left_out=(LeftOut("x.bin", "weights in another format"),))

    assert make_plan(found, classify(found), PLAIN).left_out == found.left_out


def test_a_tensor_that_is_kept_says_why():
    assert {tensor.decision.reason for tensor in plan().tensors} == {"kept as it is"}


def test_a_tensor_that_cannot_be_quantized_is_kept_and_counted():
    recipe = Recipe("int4", (Rule(("*",), QUANT_TYPES["int4"], "asked for"),))

    made = plan({"ids": ("I64", (32,)), "a": ("F32", (2, 32))}, recipe)

    assert [(one.name, one.decision.reason) for one in misfits_of(made.blobs)] == [
        ("ids", "I64 cannot be quantized")
    ]
    assert "1 of 2 tensors does not fit its rule and is not quantized: `" in made.warnings[0]


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
        (TRIPLET, None),
    ],
)
def test_parameters_are_elements_of_floating_tensors(tensors, parameters):
    assert plan(tensors).parameters == parameters


def test_a_tensor_with_the_name_of_a_group_is_refused():
    tensors = dict.fromkeys((EXPERTS, f"{EXPERTS}.a", f"{EXPERTS}.b"), ("U8", (1, 1, 1)))

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
    members = {f"{EXPERTS}.{number}.weight": ("U8", (1, 1)) for number in range(5)}

    assert len(plan({**members, "a": ("U8", (1,))}).blobs) == 2
    with pytest.raises(UnsupportedError):
        plan({**members, "a": ("U8", (1,)), "b": ("U8", (1,))})


def test_a_header_that_one_reader_refuses_is_told():
    one = f"{EXPERTS}.{{:04}}.{'x' * 900}.weight"

    small = plan({one.format(number): ("U8", (1, 1)) for number in range(1000)})
    large = plan({one.format(number): ("U8", (1, 1)) for number in range(1100)})

    assert small.warnings == ()
    (warning,) = large.warnings
    assert warning.startswith(f"the header of `{EXPERTS}` has {len(large.blobs[0].header)} ")


def test_empty_tensors_are_told():
    (warning,) = plan({"a": ("F32", (0, 2**60)), "b": ("F32", (0,)), "c": ("F32", ())}).warnings

    assert warning == "tensors `a` and 1 more have no elements"


# Quantized tensors.

INT4, INT8 = QUANT_TYPES["int4"], QUANT_TYPES["int8"]
REST = Rule(("*",), None, "the rest")


def recipe(*rules, **facts):
    """A recipe of glob -> type."""
    made = (Rule((glob,), target, "asked for") for glob, target in rules)
    return Recipe("r", (*made, REST), **facts)


def header_of(blob):
    return parse_header(blob.header[8:], blob.nbytes, blob.name)


def test_a_quantized_tensor_is_words_then_scale_then_bias():
    (blob,) = plan({"w.weight": ("BF16", (3, 64))}, recipe(("*", INT4))).blobs

    header = (
        b'{"__metadata__":{"group_size":"32","quant_type":"int4"},'
        b'"w.weight":{"dtype":"U32","shape":[3,8],"data_offsets":[0,96]},'
        b'"w.weight.bias":{"dtype":"BF16","shape":[3,2],"data_offsets":[108,120]},'
        b'"w.weight.scale":{"dtype":"BF16","shape":[3,2],"data_offsets":[96,108]}}'
    )
    padded = header + b" " * (-len(header) % 8)
    assert blob.header == struct.pack("<Q", len(padded)) + padded
    assert blob.nbytes == len(blob.header) + 96 + 12 + 12


@pytest.mark.parametrize(
    ("target", "dtype", "words", "small", "columns"),
    [
        ("int3/32", "F32", 12, "F32", 4),
        ("int8", "F16", 32, "F16", 2),
        ("int4", "F64", 16, "F32", 4),
        ("int4", "F8_E4M3", 16, "BF16", 4),
        ("nvfp4", "BF16", 16, "U8", 8),
        ("mxfp4", "BF16", 16, "U8", 4),
        ("mxfp8", "BF16", 32, "U8", 4),
    ],
)
def test_a_type_has_the_documented_parts(target, dtype, words, small, columns):
    made = plan({"w": (dtype, (2, 128))}, recipe(("*", parse_target(target))))

    (tensor,) = made.tensors
    suffixes = (".scale", ".bias") if target.startswith("int") else (".scale",)
    assert [(part.suffix, part.dtype, part.shape) for part in tensor.parts] == [
        ("", "U32", (2, words)),
        *((suffix, small, (2, columns)) for suffix in suffixes),
    ]
    assert tensor.type_name == target
    assert tensor.source_nbytes == sum(source.nbytes for source in tensor.sources)


def own(name, quant_type, group_size):
    key = f"{EXPERTS}.{name}.weight"
    return {f"{key}.quant_type": quant_type, f"{key}.group_size": group_size}


def test_a_group_of_one_type_says_it_of_each_and_of_all():
    tensors = {f"{EXPERTS}.{n}.weight": ("BF16", (2, 64)) for n in range(2)}

    (blob,) = plan(tensors, recipe(("*", INT8))).blobs

    each = own(0, "int8", "64") | own(1, "int8", "64")
    assert header_of(blob).metadata == each | {"group_size": "64", "quant_type": "int8"}


def test_a_group_with_a_plain_member_says_nothing_of_all():
    tensors = {f"{EXPERTS}.{n}.weight": ("BF16", (2, 64)) for n in range(3)}

    (blob,) = plan(tensors, recipe((f"{EXPERTS}.0.*", None), ("*", INT8))).blobs

    assert header_of(blob).metadata == own(1, "int8", "64") | own(2, "int8", "64")


def test_a_group_of_several_types_says_each():
    tensors = {f"{EXPERTS}.{name}.weight": ("BF16", (2, 64)) for name in "abc"}

    (blob,) = plan(tensors, recipe(("*.a.*", INT4), ("*.b.*", INT8))).blobs

    assert header_of(blob).metadata == own("a", "int4", "32") | own("b", "int8", "64")


def test_one_type_in_two_group_sizes_is_two():
    tensors = {f"{EXPERTS}.{name}.weight": ("BF16", (2, 64)) for name in "ab"}

    (blob,) = plan(tensors, recipe(("*.a.*", INT4), ("*", parse_target("int4/64")))).blobs

    assert header_of(blob).metadata == own("a", "int4", "32") | own("b", "int4", "64")


def test_a_downcast_says_nothing_of_quantization():
    (blob,) = plan({"w": ("F32", (2, 64))}, recipe(("*", FloatType("BF16")))).blobs

    assert blob.tensors[0].type_name == "BF16"
    assert header_of(blob).metadata == {}
    assert [(e.name, e.dtype, e.shape) for e in header_of(blob).entries] == [
        ("w", "BF16", (2, 64))
    ]


# Stacked experts.


def experts(count=12, dtype="BF16", shape=(4, 64)):
    return {
        f"{EXPERTS}.{n}.{name}.weight": (dtype, shape)
        for n in range(count)
        for name in ("down", "up")
    }


def test_stacked_experts_are_one_tensor_for_each_projection():
    made = plan(experts(), recipe(("*", INT4), stacked=True))

    (blob,) = made.blobs
    assert (blob.name, blob.is_group) == (EXPERTS, True)
    down, up = blob.tensors
    assert (down.name, down.shape) == (f"{EXPERTS}.down.weight", (12, 4, 64))
    assert [source.name for source in up.sources] == [
        f"{EXPERTS}.{n}.up.weight" for n in range(12)
    ]
    assert [(part.suffix, part.shape) for part in up.parts] == [
        ("", (12, 4, 8)),
        (".scale", (12, 4, 2)),
        (".bias", (12, 4, 2)),
    ]
    assert up.source_nbytes == 12 * 4 * 64 * 2


@pytest.mark.parametrize(
    "change",
    [
        {f"{EXPERTS}.3.up.weight": ("F16", (4, 64))},
        {f"{EXPERTS}.3.up.weight": ("BF16", (4, 128))},
        {f"{EXPERTS}.up.weight": ("BF16", (4, 64))},
        {f"{EXPERTS}.13.up.weight": ("BF16", (4, 64))},
    ],
)
def test_experts_that_are_not_alike_are_not_stacked_and_that_is_told(change):
    made = plan(experts() | change, recipe(("*", INT4), stacked=True))

    down = made.blobs[-1]
    assert (down.name, down.is_group) == (EXPERTS, True)
    assert [one.name for one in down.tensors] == [f"{EXPERTS}.down.weight"]
    names = [blob.name for blob in made.blobs[:-1]]
    assert f"{EXPERTS}.0.up.weight" in names
    assert names == sorted(names)
    (warning,) = made.warnings
    assert f"experts of `{EXPERTS}.up.weight` are not stacked" in warning


def test_experts_of_several_types_are_not_stacked():
    rules = recipe((f"{EXPERTS}.3.up.*", INT8), ("*", INT4), stacked=True)

    *singles, group = plan(experts(), rules).blobs

    assert len(singles) == 12
    assert len(group.tensors) == 1


def test_projections_of_several_types_have_a_blob_each_as_ollamas():
    rules = recipe((f"{EXPERTS}.*.up.*", INT8), ("*", INT4), stacked=True)

    made = plan(experts(), rules)

    assert [(blob.name, blob.is_group) for blob in made.blobs] == [
        (f"{EXPERTS}.down.weight", False),
        (f"{EXPERTS}.up.weight", False),
    ]


def test_only_weights_are_stacked_as_in_ollamas_blobs():
    others = {f"{EXPERTS}.{n}.up.bias": ("BF16", (4,)) for n in range(12)}
    others["model.layers.1.mlp.shared_experts.up.weight"] = ("BF16", (4, 64))

    *singles, group = plan(experts() | others, recipe(stacked=True)).blobs

    assert sorted(others) == [blob.name for blob in singles]
    assert not any(blob.is_group for blob in singles)
    assert [one.name for one in group.tensors] == [
        f"{EXPERTS}.{name}.weight" for name in ("down", "up")
    ]


def test_a_single_stack_has_the_name_of_its_group_as_in_ollamas_blobs():
    tensors = {f"{EXPERTS}.{n}.up.weight": ("BF16", (4, 64)) for n in range(3)}

    made = plan(tensors | {"z": ("F32", (1,))}, recipe(("*.weight", INT4), stacked=True))

    assert [(blob.name, blob.is_group) for blob in made.blobs] == [
        ("z", False),
        (EXPERTS, True),
    ]


def test_stacks_of_one_type_say_it_once():
    (blob,) = plan(experts(), recipe(("*", INT4), stacked=True)).blobs

    header = json.loads(blob.header[8:])
    assert header["__metadata__"] == {"quant_type": "int4", "group_size": "32"}


@pytest.mark.parametrize(("count", "kinds"), [(3, {None}), (4, {INT4})])
def test_the_elements_of_a_stack_count_together(count, kinds):
    large = Rule(("*",), INT4, "large", min_elements=1024, optional=True)
    made = plan(experts(count), Recipe("r", (large, *PLAIN.rules), stacked=True))

    assert {tensor.target for tensor in made.tensors} == kinds


def test_experts_that_are_kept_can_be_stacked():
    (blob,) = plan(experts(), recipe(stacked=True)).blobs

    assert [(one.name, one.parts[0].shape) for one in blob.tensors] == [
        (f"{EXPERTS}.{name}.weight", (12, 4, 64)) for name in ("down", "up")
    ]


# Names that quantization makes.


@pytest.mark.parametrize("suffix", [".scale", ".bias"])
def test_s63_a_tensor_with_the_name_of_a_generated_part_is_refused(suffix):
    tensors = {"w": ("BF16", (2, 64)), f"w{suffix}": ("BF16", (2,))}

    with pytest.raises(InputError) as caught:
        plan(tensors, recipe(("w", INT4)))

    assert (caught.value.code, caught.value.exit_code) == ("E_NAME_COLLISION", 3)
    assert f"`w{suffix}` has the name that a part of `w`" in str(caught.value)
    assert caught.value.facts == {"quantized": "w"}
    assert plan(tensors, recipe(("w", None))).blobs


def test_s63_a_type_without_bias_makes_none():
    tensors = {"w": ("BF16", (2, 64)), "w.bias": ("BF16", (2,))}

    assert len(plan(tensors, recipe(("w", QUANT_TYPES["nvfp4"]))).blobs) == 2


def test_s63_a_generated_part_may_not_meet_another_blob_s_tensor():
    tensors = {
        f"{EXPERTS}.0.up.weight": ("BF16", (2, 64)),
        f"{EXPERTS}.1.up.weight": ("BF16", (2, 64)),
        f"{EXPERTS}.up.weight.scale": ("BF16", (2,)),
    }

    with pytest.raises(InputError, match=rf"a part of `{EXPERTS}\.up\.weight`"):
        plan(tensors, recipe(("*.up", INT4), stacked=True))


def test_a_rule_that_decides_nothing_is_a_usage_error():
    with pytest.raises(UsageError) as caught:
        plan({"w": ("BF16", (2, 64))}, recipe(("x", INT4)))
    assert (caught.value.code, caught.value.exit_code) == ("E_RULE_UNUSED", 2)


def test_a_quantized_source_is_not_quantized_again():
    with pytest.raises(UnsupportedError) as caught:
        plan(TRIPLET, recipe(("*", INT4)))
    assert (caught.value.code, caught.value.exit_code) == ("E_PREQUANTIZED", 4)
    assert plan(TRIPLET).blobs


def test_a_recipe_that_changes_nothing_is_told():
    _, warning = plan({"w": ("BF16", (2,))}, recipe(("*", INT4))).warnings

    assert warning == "no tensor becomes another type: the plan says why for each"
