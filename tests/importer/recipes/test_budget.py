"""A size that is asked for, and the types to choose from, as they are spelled."""

from __future__ import annotations

from fractions import Fraction

import pytest

from importer.codecs.spec import FloatType, parse_target
from importer.recipes.budget import PRESET, parse_budget, recipe_of
from importer.recipes.options import parse_options
from store.errors import UsageError


def test_nothing_is_asked_for():
    assert parse_budget(None, None) is None


def test_without_a_word_the_usual_types_are_allowed():
    allow = parse_budget(10**9, None).allow

    assert len(allow) == 17
    assert {str(target) for target in allow if target} == {
        "bf16",
        *(f"int{bits}/{size}" for bits in (3, 5, 6, 8) for size in (32, 128)),
        *(f"int{bits}" for bits in (3, 4, 5, 6, 8)),
        "int4/64",
        "int4/128",
    }
    assert allow[-1] is None


def test_types_are_as_they_are_spelled_each_once():
    found = parse_budget(1, None, ["int4", "q4", "int4/64", "nvfp4", "keep", "bf16"])

    assert found.allow == (
        parse_target("int4"),
        parse_target("int4/64"),
        parse_target("nvfp4"),
        None,
        FloatType("BF16"),
    )


@pytest.mark.parametrize("text", ["4.5", " 4.5 ", "4.50"])
def test_bits_are_exact(text):
    assert parse_budget(None, text).bits == Fraction(9, 2)


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1/3", "1e9", "nan", "65", "4,5", "٤", "x" * 99]
)
def test_what_is_not_a_number_of_bits_is_refused(text):
    with pytest.raises(UsageError) as error:
        parse_budget(None, text)

    assert error.value.code == "E_BUDGET_BITS"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"nbytes": 1, "bits": "4"}, "E_BUDGET_TWICE"),
        ({"nbytes": None, "bits": None, "allow": ["int4"]}, "E_BUDGET_UNUSED"),
        ({"nbytes": None, "bits": None, "sensitivity": "x"}, "E_BUDGET_UNUSED"),
        ({"nbytes": 1, "bits": None, "allow": ["int7"]}, "E_QUANT_TYPE"),
        ({"nbytes": 1, "bits": None, "allow": ["repack"]}, "E_QUANT_TYPE"),
        ({"nbytes": 1, "bits": None, "allow": ["int4/16"]}, "E_QUANT_GROUP"),
    ],
)
def test_words_that_do_not_go_together_are_refused(asked, code):
    with pytest.raises(UsageError) as error:
        parse_budget(**asked)

    assert error.value.code == code


def test_a_recipe_is_named_or_the_one_for_budgets():
    assert recipe_of(None, None) == PRESET
    assert recipe_of(None, "default") == "default"
    with pytest.raises(UsageError) as error:
        recipe_of("int4", None)
    assert error.value.code == "E_BUDGET_TYPE"


def test_the_preset_leaves_types_open_and_says_what_errors_matter():
    rules = parse_options(recipe=PRESET, chooses=True).base.drafts

    factors = {
        draft.rule.reason: draft.rule.factor for draft in rules if draft.rule.is_requested
    }
    assert factors["values of attention"] == 2.5
    assert factors["embedding, which may be the output layer, too"] == 5
    assert factors["queries of attention"] == 1.0
