"""A recipe survives the model's configuration, and TOML, with every decision as it was."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs.spec import GROUP_SIZES, QUANT_TYPES, FloatType, Mode, with_group_size
from importer.recipes.depths import Depths, Layers
from importer.recipes.document import from_document, to_document, to_toml
from importer.recipes.options import parse_options
from importer.recipes.recipe import Misaligned, Recipe
from importer.recipes.rule import Rule
from importer.recipes.toml_file import presets, read_recipe
from importer.sources.classification import Classification, SourceKind
from store.errors import InputError
from store.text import is_printable
from tests.strategies import clean_texts

_targets = st.sampled_from(
    [
        None,
        FloatType("BF16"),
        FloatType("F16"),
        *QUANT_TYPES.values(),
        *(with_group_size(QUANT_TYPES["int4"], size) for size in GROUP_SIZES[Mode.AFFINE]),
    ]
)
_globs = st.sampled_from(["*", "*.weight", "*_proj", "?", "[a-c]*", "model.*", "x"])
_globs |= clean_texts.filter(lambda text: 0 < len(text) < 100)
_rules = st.builds(
    Rule,
    st.lists(_globs, min_size=1, max_size=3).map(tuple),
    _targets,
    clean_texts.filter(bool),
    st.lists(st.integers(0, 5), max_size=2).map(tuple),
    st.lists(st.sampled_from(["BF16", "F32"]), max_size=2).map(tuple),
    st.integers(0, 2**70),
    st.sampled_from(["", "0-3,5", *Layers]),
    st.booleans(),
)
_recipes = st.builds(
    Recipe,
    clean_texts.filter(bool),
    st.lists(_rules, max_size=4).map(lambda rules: (*rules, Rule(("*",), None, "the rest"))),
    st.sampled_from(["", "int4", "int4/64", "nvfp4", "bf16"]),
    st.sampled_from(Misaligned),
    st.booleans(),
    st.booleans(),
)


def test_toml_is_printable_and_says_the_same():
    reason = 'a\x80b\u202ec\x1b[31md\x7fe\U000e0001f\u2028\n\t"\\'
    document = {"name": "x", "rule": [{"match": ["*"], "reason": reason, "type": "keep"}]}

    lines = list(to_toml(document))

    assert all(map(is_printable, lines))
    assert tomllib.loads("\n".join(lines)) == document


@given(_recipes)
def test_a_document_gives_the_recipe_again(recipe):
    document = to_document(recipe)

    assert from_document(document) == recipe
    assert json.loads(json.dumps(document)) == document
    assert to_document(from_document(document)) == document


@given(_recipes)
def test_toml_gives_the_document_again(recipe):
    document = to_document(recipe)

    assert tomllib.loads("\n".join(to_toml(document))) == document


def facts(kind=SourceKind.MODEL, architecture="LlamaForCausalLM"):
    return Classification(kind, architecture, "", None, None, None, ())


TENSORS = {
    **{
        f"model.layers.{layer}.{name}.weight": shape
        for layer in range(9)
        for name, shape in {
            "self_attn.v_proj": (64, 64),
            "self_attn.kv_b_proj": (64, 64),
            "mlp.down_proj": (64, 96),
            "mlp.experts.3.down_proj": (64, 64),
            "mlp.gate": (64, 64),
            "input_layernorm": (64,),
        }.items()
    },
    "model.layers.0.mlp.experts.down_proj": (4, 64, 64),
    "model.embed_tokens.weight": (64, 64),
    "visual.patch_embed.proj.weight": (64, 3, 2, 2, 2),
    "lm_head.weight": (64, 64),
    "vae/decoder.conv.weight": (64, 64),
}


@pytest.mark.parametrize("preset", presets())
@pytest.mark.parametrize("kind", [SourceKind.MODEL, SourceKind.PIPELINE])
@pytest.mark.parametrize("type_", ["int4", "int4/64", "int8", "nvfp4", "mxfp8", "bf16"])
def test_a_stored_recipe_can_be_used_again(tmp_path, preset, kind, type_):
    asks = read_recipe(preset).asks
    flags = {"rules": ["*v_proj=int6/32", "*gate=keep"], "misaligned": Misaligned.ADJUST}
    asked = parse_options(type_ if asks else None, recipe=preset, **flags)
    used = asked.resolve(facts(kind))

    path = tmp_path / "again.toml"
    path.write_text("\n".join(to_toml(to_document(used))), encoding="utf-8")
    again = parse_options(recipe=str(path)).resolve(facts(architecture="Gemma4ForCausalLM"))

    depths = Depths(TENSORS)
    for name, shape in TENSORS.items():
        ours, theirs = (recipe.decide(name, "BF16", shape, depths) for recipe in (used, again))
        assert ours == theirs, name
    assert again == used
    assert to_document(again) == to_document(used)


@pytest.mark.parametrize(
    "document", [{}, {"rule": []}, {"name": 1}, {"rule": [{"match": "a"}]}, {"rule": 1}]
)
def test_what_is_no_recipe_is_bad_input(document):
    with pytest.raises(InputError):
        from_document(document)
