"""Which tensor gets which type: the first rule that takes it decides, and shapes have a say."""

from __future__ import annotations

import re
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs.spec import DECODE, QUANT_TYPES, REPACK, FloatType, parse_target
from importer.recipes.depths import Depths, Layers, ranges
from importer.recipes.recipe import PLAIN, Misaligned, Packed, Recipe
from importer.recipes.rule import Origin, Rule
from store.errors import InputError, UsageError
from store.tensorfile import elements

LAST = Rule(("*",), None, "the rest")
NO_DEPTHS = Depths(())

_pieces = st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]", "[", "]", "!", "-", "^"])
_globs = st.lists(_pieces, min_size=1, max_size=8).map("".join)
_names = st.text("ab.-[]^", max_size=12)
_shapes = st.lists(st.sampled_from([0, 1, 16, 32, 48, 64, 100]), max_size=4).map(tuple)
_dtypes = st.sampled_from(["BF16", "F16", "F32", "F64", "F8_E4M3", "I64", "U8"])
_targets = st.sampled_from(
    [None, FloatType("BF16"), FloatType("F16"), *QUANT_TYPES.values(), parse_target("int4/128")]
)
_rules = st.builds(
    Rule,
    st.lists(_globs, min_size=1, max_size=3).map(tuple),
    _targets,
    st.just("why"),
    st.lists(st.integers(0, 4), max_size=2).map(tuple),
    st.lists(_dtypes, max_size=2).map(tuple),
    st.sampled_from([0, 1, 1024]),
)


def decide(*rules, name="w.weight", dtype="BF16", shape=(8, 64), **facts):
    return Recipe("r", (*rules, LAST), **facts).decide(name, dtype, shape, NO_DEPTHS)


@given(st.lists(_globs, min_size=1, max_size=3), _names)
def test_a_rule_matches_as_shells_do_and_weight_may_be_left_out(globs, name):
    rule = Rule(tuple(globs), None, "")

    assert rule.matches(name) == any(fnmatchcase(name, glob) for glob in globs)
    assert rule.matches(f"{name}.weight") == any(
        fnmatchcase(word, glob) for glob in globs for word in (name, f"{name}.weight")
    )


@pytest.mark.parametrize(
    "glob", ["*a*a*a*a*a*a*b", "*a" * 500 + "b", "?*" * 300 + "b", "*[ab]" * 200 + "c"]
)
def test_no_glob_takes_long(glob):
    rule = Rule((glob,), None, "")

    started = time.process_time()
    for _ in range(100):
        assert not rule.matches("a" * 1024)

    # 100 000 tensors take 20 s at 200 us; measured 1 to 120 us.
    assert (time.process_time() - started) / 100 < 2e-3


@given(st.lists(_rules, max_size=5), _names, _dtypes, _shapes)
def test_the_first_rule_that_takes_a_tensor_decides(rules, name, dtype, shape):
    def takes(rule):
        return (
            rule.matches(name)
            and (len(shape) in rule.ndim or not rule.ndim)
            and (dtype in rule.dtype or not rule.dtype)
            and elements(shape) >= rule.min_elements
        )

    decision = Recipe("r", (*rules, LAST)).decide(name, dtype, shape, NO_DEPTHS)

    index = next(index for index, rule in enumerate((*rules, LAST)) if takes(rule))
    assert (decision.rule.index, decision.rule) == (index, (*rules, LAST)[index])


@given(_rules, _dtypes, _shapes, st.sampled_from(["keep", "adjust"]))
def test_a_decision_is_one_that_can_be_carried_out(rule, dtype, shape, misaligned):
    everything = Rule(("*",), rule.target, "why")
    decision = decide(everything, dtype=dtype, shape=shape, misaligned=Misaligned(misaligned))

    target = decision.target
    assert decision.fits or target is None
    assert decision.reason
    if target in QUANT_TYPES.values():
        assert len(shape) > 1
        assert elements(shape)
        assert shape[-1] % target.group_size == 0
        assert dtype not in {"I64", "U8"}


@pytest.mark.parametrize(
    ("dtype", "shape", "target", "reason"),
    [
        ("BF16", (8, 64), "int4", "why"),
        ("F64", (8, 64), "int4", "why; converted to F32 first"),
        ("F8_E5M2", (8, 64), "int4", "why; converted to BF16 first"),
        ("BF16", (3, 8, 64), "int4", "why"),
        ("I64", (8, 64), None, "I64 cannot be quantized"),
        ("BOOL", (8, 64), None, "BOOL cannot be quantized"),
        ("F32", (64,), None, "it has no rows"),
        ("F32", (), None, "it has no rows"),
        ("F32", (0, 64), None, "it has no elements"),
        ("F32", (8, 0), None, "it has no elements"),
        ("BF16", (8, 100), None, "100 % 32 != 0"),
    ],
)
def test_a_tensor_that_does_not_fit_is_kept_and_says_why(dtype, shape, target, reason):
    decision = decide(Rule(("*",), parse_target("int4"), "why"), dtype=dtype, shape=shape)

    assert (decision.target, decision.reason) == (target and parse_target(target), reason)
    assert decision.fits == (target is not None)


@pytest.mark.parametrize(
    ("wanted", "columns", "got"),
    [
        ("int8/128", 2880, "int8/64"),  # GPT-OSS: 22.5 groups of 128, 45 of 64
        ("int8/128", 96, "int8/32"),
        ("int4/64", 96, "int4/32"),
        ("int4/32", 48, None),
        ("int4/64", 100, None),
        ("nvfp4", 24, None),
        ("mxfp4", 48, None),
        ("int8/64", 128, "int8/64"),
    ],
)
def test_adjust_takes_the_largest_smaller_group(wanted, columns, got):
    rule = Rule(("*",), parse_target(wanted), "why")
    decision = decide(rule, shape=(2, columns), misaligned=Misaligned.ADJUST)

    assert decision.target == (got and parse_target(got))
    assert decision.fits == (got is not None)
    if got != wanted:
        assert f"{columns} % {parse_target(wanted).group_size} != 0" in decision.reason


def test_a_misaligned_tensor_can_be_an_error():
    rule = Rule(("*",), parse_target("int4"), "why")

    with pytest.raises(InputError) as caught:
        decide(rule, shape=(2, 100), misaligned=Misaligned.ERROR)

    assert (caught.value.code, caught.value.exit_code) == ("E_MISALIGNED", 3)
    assert "`w.weight` has shape [2, 100]" in str(caught.value)
    assert "100 % 32 != 0" in str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "becomes", "reason", "fits"),
    [
        ("F64", True, "why", True),
        ("F32", True, "why", True),
        ("F16", True, "why", True),
        ("BF16", False, "why; it is BF16 already", True),
        ("F8_E4M3", True, "why", True),
        ("I64", False, "I64 is not a float", False),
    ],
)
def test_a_float_type_takes_floats_of_any_shape(dtype, becomes, reason, fits):
    for shape in ((), (3,), (2, 0), (2, 3, 5)):
        decision = decide(Rule(("*",), FloatType("BF16"), "why"), dtype=dtype, shape=shape)

        assert decision.target == (FloatType("BF16") if becomes else None)
        assert (decision.reason, decision.fits) == (reason, fits)


# Values that are packed in the source.


PACKED = Packed("gptq int4/128", parse_target("int4/128"), "F16")
UNHELD = Packed("Q6_K", None, "BF16")


@pytest.mark.parametrize(
    ("rule", "packed", "becomes", "reason", "fits"),
    [
        (None, PACKED, None, "why", True),
        (REPACK, PACKED, "int4/128", "why", True),
        (REPACK, UNHELD, None, "the store has no type that holds Q6_K exactly", False),
        (REPACK, None, None, "not packed", True),
        (DECODE, PACKED, "f16", "why", True),
        (DECODE, None, None, "why", True),
        (FloatType("F32"), PACKED, "f32", "why", True),
        (FloatType("BF16"), PACKED, "bf16", "why", True),
        (parse_target("int8"), PACKED, "int8", "why", True),
        (parse_target("int8/128"), PACKED, "f16", "192 % 128 != 0", False),
    ],
)
def test_what_becomes_of_packed_values(rule, packed, becomes, reason, fits):
    names = ["a.weight"]
    made = Recipe("r", (Rule(("*",), rule, "why"),)).decide(
        "a.weight", "F32", (4, 192), Depths(names), packed
    )

    assert made.target == parse_target(becomes or "keep")
    assert (made.reason, made.fits) == (reason, fits)


def test_a_preset_keeps_no_packed_values_and_a_user_does():
    rules = (
        Rule(("a",), None, "", origin=Origin.RULE),
        Rule(("b",), None, "", origin=Origin.PRESET),
        Rule(("c",), parse_target("int4"), "", origin=Origin.PRESET),
        Rule(("*",), None, "", origin=Origin.REST),
    )

    made = Recipe("default", rules).decoding()

    assert [rule.target for rule in made.rules] == [None, DECODE, parse_target("int4"), DECODE]
    assert Recipe("mine", (rules[0], rules[3])).decoding().rules == (rules[0], rules[3])


# Layers.


def names(count, stack="model.layers"):
    return [f"{stack}.{number}.w" for number in range(count)]


@given(st.integers(1, 200))
def test_more_bits_is_what_mlx_lm_and_llama_cpp_say(count):
    # mlx_lm/convert.py, mixed_quant_predicate; llama-quant.cpp, use_more_bits
    def mlx_lm(i, n):
        return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2

    def llama_cpp(i, n):
        # C's % has the sign of the dividend; the first eighth is true anyway.
        return i < n // 8 or i >= 7 * n // 8 or (i >= n // 8 and (i - n // 8) % 3 == 2)

    depths = Depths(names(count))
    more = [depths.within(name, Layers.MORE_BITS) for name in names(count)]

    assert more == [mlx_lm(i, count) for i in range(count)]
    assert more == [llama_cpp(i, count) for i in range(count)]


@given(st.integers(1, 200))
def test_the_first_and_last_eighth_are_layers(count):
    depths = Depths(names(count))

    found = [depths.within(name, Layers.FIRST_LAST_EIGHTH) for name in names(count)]

    assert found == [i < count // 8 or i >= 7 * count // 8 for i in range(count)]


def test_the_more_bits_of_32_layers_are_those_of_llama_cpp():
    depths = Depths(names(32))

    found = [i for i, name in enumerate(names(32)) if depths.within(name, "more-bits")]

    assert found == [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=4))
def test_ranges_are_lists_of_numbers(pairs):
    text = ",".join(f"{a}-{b}" if a != b else f" {a}" for a, b in pairs)
    depths = Depths(names(51))

    found = {i for i, name in enumerate(names(51)) if depths.within(name, text)}

    assert list(ranges(text)) == pairs
    assert found == {i for a, b in pairs for i in range(a, b + 1)}


@pytest.mark.parametrize("part", ["", "a", "1-", "-1", "1--2", "1-2-3", "٣", "9" * 10])
def test_what_is_no_range_is_refused(part):
    with pytest.raises(ValueError, match=f"^{re.escape(part)}$"):
        list(ranges(f"1,{part},2-3"))


def test_each_stack_of_blocks_has_its_own_layers():
    both = [*names(8, "vision.blocks"), *names(16, "text.layers"), *names(4, "t5/enc.block")]
    depths = Depths(both)

    found = [name for name in both if depths.within(name, Layers.FIRST_LAST_EIGHTH)]

    assert found == [
        "vision.blocks.0.w",
        "vision.blocks.7.w",
        "text.layers.0.w",
        "text.layers.1.w",
        "text.layers.14.w",
        "text.layers.15.w",
        "t5/enc.block.3.w",
    ]


def test_the_layer_is_the_first_number():
    depths = Depths(["model.layers.1.mlp.experts.7.w", "model.layers.3.mlp.experts.0.w"])

    assert depths.within("model.layers.3.mlp.experts.0.w", "3")
    assert not depths.within("model.layers.3.mlp.experts.0.w", "0")
    assert not depths.within("model.embed_tokens.weight", "0-999999999")


def test_a_rule_with_layers_takes_tensors_of_these():
    rule = Rule(("*",), None, "some", layers="0,2-3")
    depths = Depths(names(5))
    recipe = Recipe("r", (rule, LAST))

    taken = [recipe.decide(name, "BF16", (2, 2), depths).rule is rule for name in names(5)]

    assert taken == [True, False, True, True, False]


# Rules that decide nothing.


def test_a_rule_that_decides_nothing_is_told_apart_from_one_that_matches_nothing():
    first, second = Rule(("*.a",), None, ""), Rule(("m.a", "m.b"), None, "")
    recipe = Recipe("r", (first, second, Rule(("*",), None, "", optional=True)))

    recipe.check_used({0, 1}, ["m.a"])
    with pytest.raises(UsageError, match=r"rule for `m\.a` or `m\.b` decides nothing"):
        recipe.check_used({0}, ["m.a"])
    with pytest.raises(UsageError, match=r"no tensor matches the rule for `m\.a` or `m\.b`"):
        recipe.check_used({0}, ["x"])


def test_the_rest_may_be_nothing():
    first, last = Rule(("*.a",), None, ""), Rule(("*",), None, "")

    Recipe("r", (first, last)).check_used({0}, ["m.a"])
    with pytest.raises(UsageError, match=r"`\*` decides nothing"):
        Recipe("r", (first, last, LAST)).check_used({0}, ["m.a"])


def test_equal_rules_are_not_one_rule():
    first, second = (Rule(("*.a",), None, "") for _ in range(2))

    with pytest.raises(UsageError, match="decides nothing"):
        Recipe("r", (first, second, LAST)).check_used({0, 2}, ["m.a"])


def test_a_plain_recipe_keeps_everything():
    assert PLAIN.is_plain
    assert Recipe("r", (LAST,)).is_plain
    assert not Recipe("r", (Rule(("a",), FloatType("F16"), ""), LAST)).is_plain
    assert PLAIN.decide("x", "F4", (2, 2), NO_DEPTHS).reason == "kept as it is"


def test_a_rule_takes_all_only_without_conditions():
    assert LAST.takes_all
    assert not Rule(("*.weight",), None, "").takes_all
    for condition in (
        {"ndim": (2,)},
        {"dtype": ("F32",)},
        {"min_elements": 1},
        {"layers": "0"},
    ):
        assert not Rule(("*",), None, "", **condition).takes_all


@pytest.mark.parametrize(("columns", "expected"), [(64, "int8"), (32, "int4"), (48, None)])
def test_a_rule_may_leave_what_does_not_fit_to_the_next(columns, expected):
    first = Rule(("*",), parse_target("int8"), "if it fits", fits=True)
    second = Rule(("*",), parse_target("int4"), "else")
    recipe = Recipe("r", (first, second))

    decision = recipe.decide("w.weight", "BF16", (4, columns), Depths([]))

    assert (str(decision.target) if decision.target else None) == expected
    assert decision.fits == (expected is not None)
