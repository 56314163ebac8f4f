"""What a tensor can become, as it is spelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs.spec import (
    GROUP_SIZES,
    QUANT_TYPES,
    FloatType,
    Mode,
    parse_target,
    with_group_size,
)
from store.errors import UsageError

SPECS = [
    with_group_size(spec, size)
    for spec in QUANT_TYPES.values()
    for size in GROUP_SIZES[spec.mode]
]
TARGETS = [*SPECS, FloatType("BF16"), FloatType("F16"), None]


def spelled(target):
    return "keep" if target is None else str(target)


@pytest.mark.parametrize("target", TARGETS, ids=spelled)
def test_every_target_is_read_as_it_is_spelled(target):
    assert parse_target(spelled(target)) == target
    assert parse_target(f" {spelled(target).upper()} ") == target


# design.md section 2
@pytest.mark.parametrize(
    ("text", "name", "bits", "group_size", "mode"),
    [
        ("int2", "int2", 2, 64, Mode.AFFINE),
        ("int3", "int3", 3, 64, Mode.AFFINE),
        ("int4", "int4", 4, 32, Mode.AFFINE),
        ("q4", "int4", 4, 32, Mode.AFFINE),
        ("q4/128", "int4", 4, 128, Mode.AFFINE),
        ("int5", "int5", 5, 64, Mode.AFFINE),
        ("int6/32", "int6", 6, 32, Mode.AFFINE),
        ("int8", "int8", 8, 64, Mode.AFFINE),
        ("Q8", "int8", 8, 64, Mode.AFFINE),
        ("nvfp4", "nvfp4", 4, 16, Mode.NVFP4),
        ("nvfp4/16", "nvfp4", 4, 16, Mode.NVFP4),
        ("mxfp4", "mxfp4", 4, 32, Mode.MXFP4),
        ("mxfp8", "mxfp8", 8, 32, Mode.MXFP8),
    ],
)
def test_a_type_has_the_documented_facts(text, name, bits, group_size, mode):
    spec = parse_target(text)

    assert (spec.name, spec.bits, spec.group_size, spec.mode) == (name, bits, group_size, mode)
    assert spec.has_bias == (mode is Mode.AFFINE)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("bf16", FloatType("BF16")),
        ("bfloat16", FloatType("BF16")),
        ("fp16", FloatType("F16")),
        ("float16", FloatType("F16")),
        ("none", None),
    ],
)
def test_other_spellings_in_use_are_read(text, target):
    assert parse_target(text) == target


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("fp4", "nvfp4"),
        ("FP4/32", "mxfp4"),
        ("fp8", "mxfp8"),
        ("int7", "The nearest types of the store are int6 and int8"),
        ("4", "The nearest type of the store is int4"),
        ("8-bit", "int8"),
        ("Q4_K_M", "int4"),
        ("nvpf4", "Did you mean `nvfp4`?"),
        ("zzz", None),
    ],
)
def test_a_type_that_is_none_is_refused_with_the_types(text, hint):
    with pytest.raises(UsageError) as caught:
        parse_target(text)

    assert caught.value.code == "E_QUANT_TYPE"
    assert "int2, int3, int4, int5, int6, int8, nvfp4, mxfp4, mxfp8, bf16" in str(caught.value)
    assert hint is None if caught.value.hint is None else hint in caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["int4/", "int4/16", "int4/0", "int4/-32", "int4/7", "int4/٣٢", "int4/32/32",
     "nvfp4/32", "mxfp8/64", f"int4/{'9' * 5000}"],
)  # fmt: skip
def test_a_group_size_that_a_type_has_not_is_refused(text):
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    assert caught.value.code == "E_QUANT_GROUP"


@pytest.mark.parametrize("text", ["", "/", "/32", "keep/32", "bf16/32", "int4 int8", "\x1b[2J"])
def test_a_word_that_is_no_type_is_refused(text):
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    assert caught.value.code == "E_QUANT_TYPE"
    assert "\x1b" not in str(caught.value)


@given(st.text())
def test_any_text_is_a_target_or_a_usage_error(text):
    try:
        target = parse_target(text)
    except UsageError:
        return
    assert target in TARGETS


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("Q4_K_M", "int4"),
        ("q8_0", "int8"),
        ("iq1_s", "int2"),
        ("AFQ6", "int6"),
        ("tq2_0", "int2"),
    ],
)
def test_a_type_of_another_program_names_the_nearest(asked, nearest):
    with pytest.raises(UsageError) as caught:
        parse_target(asked)

    assert caught.value.hint == f"The nearest type of the store is {nearest}"
