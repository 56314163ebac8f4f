"""The options that are told of a recorded recipe make that very recipe again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs.spec import Method
from importer.recipes.document import from_document, to_document, to_toml
from importer.recipes.options import parse_options
from importer.recipes.recipe import Misaligned
from importer.recipes.replay import RecipeOptions, options_for
from importer.recipes.toml_file import presets, read_recipe
from importer.sources.classification import Classification, SourceKind
from store.errors import UsageError

FACTS = Classification(SourceKind.MODEL, "LlamaForCausalLM", "llama", None, None, None, ())
GEMMA = Classification(
    SourceKind.MODEL, "Gemma4ForConditionalGeneration", "gemma4", None, None, None, ()
)
OWN = """
type = "int8"

[[rule]]
match = "*_proj"
type = "requested"

[[rule]]
match = "*norm*"
type = "f16"
reason = "asked for by --vision"
optional = true
"""


def recorded(options, facts=FACTS):
    """The recipe of a model, as its record gives it back: without indexes and origins."""
    return from_document(to_document(options.resolve(facts)))


def again(found, facts=FACTS, file=None):
    """The recipe that the told options make, with a file where they name one."""
    return recorded(
        parse_options(
            found.quantize,
            group_size=found.group_size,
            recipe=str(file) if found.needs_file else found.recipe,
            rules=found.rules,
            roles=found.roles,
            misaligned=None if found.misaligned is Misaligned.KEEP else found.misaligned,
            stacked=found.stacked,
            allow_nonfinite=found.allow_nonfinite,
            calibrate=found.calibrate.method,
            symmetric=found.calibrate.symmetric,
        ),
        facts,
    )


def write(path, recipe):
    path.write_text("\n".join(to_toml(to_document(recipe))), encoding="utf-8")
    return path


@st.composite
def requests(draw):
    preset = draw(st.sampled_from([*presets(), None]))
    quantize = group_size = None
    if preset is not None and read_recipe(preset).asks:
        quantize = draw(st.sampled_from(["int4", "int4/32", "int8/128", "nvfp4", "int2"]))
        if preset == "downcast":
            quantize = draw(st.sampled_from(["bf16", "f16"]))
    elif preset is not None:
        group_size = draw(st.sampled_from([None, 32, 64, 128]))
    types = st.sampled_from(["keep", "int4", "int8/32", "mxfp8", "bf16"])
    rules = draw(
        st.lists(st.tuples(st.sampled_from(["a=b", "*_proj", "*"]), types), max_size=3)
    )
    roles = draw(st.dictionaries(st.sampled_from(["vision", "lm-head", "embedding"]), types))
    has_ints = (quantize or "").startswith("int") or group_size is not None
    return parse_options(
        quantize,
        group_size=group_size,
        recipe=preset,
        rules=["=".join(rule) for rule in rules],
        roles=roles,
        misaligned=draw(st.sampled_from([None, Misaligned.ADJUST])),
        stacked=draw(st.sampled_from([None, True, False])),
        allow_nonfinite=draw(st.booleans()),
        calibrate=draw(st.sampled_from([None, *Method])) if has_ints else None,
        symmetric=draw(st.sampled_from([None, True])) if has_ints else None,
    )


@given(requests(), st.sampled_from([FACTS, GEMMA]))
def test_options_make_the_recipe_again_without_a_file(options, facts):
    recipe = recorded(options, facts)

    found = options_for(recipe, facts)

    assert not found.needs_file
    assert again(found, facts) == recipe


@pytest.mark.parametrize("words", [(None,), ("int4",), ("int4/64",), ("nvfp4",)])
@pytest.mark.parametrize("rules", [(), ("*.k_proj=keep", "*.v_proj=int8")])
def test_a_recipe_file_is_asked_for_with_its_type(tmp_path, words, rules):
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    recipe = recorded(parse_options(*words, recipe=str(own), rules=rules))

    found = options_for(recipe, FACTS)

    assert (found.needs_file, found.recipe) == (True, None)
    assert found.quantize == (words[0] or "int8")
    assert found.rules == rules
    # The user's file will do, and so will the recorded recipe.
    assert again(found, file=own) == recipe
    assert again(found, file=write(tmp_path / "recorded.toml", recipe)) == recipe


def test_a_reason_that_reads_like_a_flag_is_only_a_reason(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(
        '[[rule]]\nmatch = "*v*"\ntype = "keep"\nreason = "asked for the vision tower"\n'
    )

    found = options_for(recorded(parse_options(recipe=str(own))), FACTS)

    assert found == RecipeOptions(needs_file=True)


def test_the_type_of_a_recipe_may_be_said_once_more(tmp_path):
    path = write(tmp_path / "r.toml", parse_options("int4").resolve(FACTS))

    assert parse_options("int4", recipe=str(path)).resolve(FACTS).type == "int4"
    with pytest.raises(UsageError, match="names every type itself"):
        parse_options("int8", recipe=str(path))


def test_a_preset_that_has_changed_since_is_a_file(tmp_path):
    recipe = recorded(parse_options("int4"))
    changed = from_document(to_document(recipe) | {"rule": to_document(recipe)["rule"][1:]})

    found = options_for(changed, FACTS)

    assert (found.needs_file, found.quantize) == (True, "int4")
    assert again(found, file=write(tmp_path / "r.toml", changed)) == changed


def test_facts_that_are_lost_give_a_file_and_no_wrong_preset():
    recipe = recorded(parse_options("int4", recipe="ollama"), GEMMA)

    assert options_for(recipe, GEMMA).recipe == "ollama"
    assert options_for(recipe, FACTS).needs_file
