"""What the flags of a command ask for, and what it comes to for a model."""

from __future__ import annotations

import pytest

from cli.hints import hint_for
from importer.codecs.spec import FloatType, parse_target
from importer.recipes.depths import Depths
from importer.recipes.options import parse_options
from importer.recipes.recipe import Misaligned
from importer.sources.classification import Classification, SourceKind
from store.errors import IngotError, NotFoundError, UsageError

FACTS = Classification(
    SourceKind.MODEL, "LlamaForCausalLM", "llama", None, None, None, ("completion",)
)
NAMES = {
    "model.embed_tokens.weight": (100, 128),
    "model.layers.0.self_attn.v_proj.weight": (128, 128),
    "model.layers.0.mlp.down_proj.weight": (128, 128),
    "model.layers.0.input_layernorm.weight": (128,),
    "lm_head.weight": (100, 128),
}


def types(asked, names=NAMES, facts=FACTS, dtype="F32"):
    """Last words of a name -> what it becomes."""
    recipe = asked.resolve(facts)
    depths = Depths(names)
    return {
        name.removesuffix(".weight").rpartition(".")[2]: str(
            recipe.decide(name, dtype, shape, depths).target or "keep"
        )
        for name, shape in names.items()
    }


def code_of(*words, **facts):
    with pytest.raises(IngotError) as caught:
        parse_options(*words, **facts).resolve(FACTS)
    return caught.value.code


def test_nothing_asked_for_keeps_everything():
    recipe = parse_options().resolve(FACTS)

    assert recipe.is_plain
    assert recipe.name == "plain"
    assert set(types(parse_options()).values()) == {"keep"}


def test_a_type_alone_takes_the_default_recipe():
    asked = parse_options("int4")

    assert asked.resolve(FACTS).name == "default"
    assert types(asked) == {
        "embed_tokens": "keep",
        "v_proj": "int4",
        "down_proj": "int8",
        "input_layernorm": "keep",
        "lm_head": "int4",
    }


@pytest.mark.parametrize("word", ["bf16", "f16"])
def test_a_downcast_takes_every_float(word):
    assert set(types(parse_options(word)).values()) == {word}
    assert parse_options(word).resolve(FACTS).name == "downcast"
    assert set(types(parse_options(word), dtype="I64").values()) == {"keep"}


def test_a_group_size_is_of_the_requested_type_alone():
    assert types(parse_options("int4", group_size=128)) | {"v_proj": "", "lm_head": ""} == {
        "embed_tokens": "keep",
        "v_proj": "",
        "down_proj": "int8",
        "input_layernorm": "keep",
        "lm_head": "",
    }
    assert types(parse_options("int4", group_size=128))["v_proj"] == "int4/128"
    assert types(parse_options("int4/128")) == types(parse_options("int4", group_size=128))
    assert types(parse_options("int4/128", group_size=128)) == types(parse_options("int4/128"))


def test_the_recipe_s_group_size_yields_to_that_of_the_user():
    assert types(parse_options("int4", recipe="ollama"))["embed_tokens"] == "keep"
    names = {"model.layers.0.mlp.up_proj.weight": (128, 128)}

    assert types(parse_options("int4", recipe="ollama"), names) == {"up_proj": "int4/64"}
    assert types(parse_options("int4/32", recipe="ollama"), names) == {"up_proj": "int4"}
    assert types(parse_options("int4", recipe="ollama", group_size=32), names) == {
        "up_proj": "int4"
    }
    assert types(parse_options(recipe="mixed_3_4", group_size=128), names) == {
        "up_proj": "int3/128"
    }


@pytest.mark.parametrize(
    ("words", "facts", "code"),
    [
        (("keep",), {}, "E_QUANT_KEEP"),
        (("int7",), {}, "E_QUANT_TYPE"),
        (("fp4",), {}, "E_QUANT_TYPE"),
        ((), {"group_size": 64}, "E_GROUP_UNUSED"),
        ((), {"calibrate": "mse"}, "E_CALIBRATE_UNUSED"),
        (("bf16",), {"calibrate": "mse"}, "E_CALIBRATE_UNUSED"),
        (("nvfp4",), {"symmetric": True}, "E_CALIBRATE_UNUSED"),
        (("int4",), {"calibrate": "best"}, "E_CALIBRATE"),
        (("bf16",), {"group_size": 64}, "E_GROUP_FIXED"),
        (("nvfp4",), {"group_size": 16}, "E_GROUP_FIXED"),
        (("nvfp4",), {"group_size": 32}, "E_GROUP_FIXED"),
        (("int4",), {"group_size": 16}, "E_QUANT_GROUP"),
        (("int4",), {"group_size": 0}, "E_QUANT_GROUP"),
        (("int4",), {"group_size": -64}, "E_QUANT_GROUP"),
        (("int4/64",), {"group_size": 32}, "E_GROUP_TWICE"),
        ((), {"recipe": "default"}, "E_RECIPE_TYPE"),
        (("int4",), {"recipe": "mixed_3_4"}, "E_RECIPE_TYPED"),
        (("int4",), {"recipe": "no-such"}, "E_RECIPE"),
        ((), {"rules": ["x"]}, "E_RULE"),
        ((), {"rules": ["=int4"]}, "E_RULE"),
        ((), {"rules": ["x="]}, "E_QUANT_TYPE"),
        ((), {"rules": ["[!\udcff]*=int4"]}, "E_RULE"),  # what a shell makes of no UTF-8
        ((), {"rules": ["x" * (1 << 17) + "=int4"]}, "E_RULE"),
        ((), {"rules": ["x=fp8"]}, "E_QUANT_TYPE"),
        ((), {"rules": ["x=int4/5"]}, "E_QUANT_GROUP"),
        ((), {"roles": {"vision": "int9"}}, "E_QUANT_TYPE"),
    ],
)
def test_words_that_do_not_go_together_are_refused(words, facts, code):
    assert code_of(*words, **facts) == code


def test_a_recipe_that_is_not_there_is_told_with_the_presets():
    with pytest.raises(NotFoundError) as caught:
        parse_options("int4", recipe="dfault")
    assert "default, downcast, linears, mixed_2_6, mixed_3_4" in caught.value.hint


def test_a_recipe_that_needs_a_type_is_told_by_the_path_that_was_given(tmp_path):
    path = tmp_path / "my own.toml"
    path.write_text('name = "mine"\n[[rule]]\nmatch = "*"\ntype = "requested"\n')

    with pytest.raises(UsageError, match="`mine` needs a type") as caught:
        parse_options(recipe=str(path))

    assert hint_for(caught.value) == f"Say which: `-q int4 --recipe '{path}'`"


def test_rules_go_before_the_recipe_and_the_first_wins():
    asked = parse_options("int4", rules=["*v_proj=int8/32", "*_proj=keep", "*=int6"])

    assert asked.resolve(FACTS).name == "default"
    assert types(asked) == {
        "embed_tokens": "int6",
        "v_proj": "int8/32",
        "down_proj": "keep",
        "input_layernorm": "keep",  # a vector
        "lm_head": "int6",
    }


def test_a_glob_may_have_an_equals_sign():
    (rule,) = parse_options(rules=["a=b=int4"]).rules

    assert (rule.match, rule.target) == (("a=b",), parse_target("int4"))


def test_rules_alone_keep_the_rest():
    asked = parse_options(rules=["lm_head=int8"])

    assert asked.resolve(FACTS).name == "rules"
    assert {name for name, type_ in types(asked).items() if type_ != "keep"} == {"lm_head"}


def test_rules_go_before_roles():
    asked = parse_options(
        "int4", rules=["lm_head=int8"], roles={"lm-head": "keep", "embedding": "int6"}
    )

    assert types(asked)["lm_head"] == "int8"
    assert types(asked)["embed_tokens"] == "int6"


ROLES = {
    "model.embed_tokens": "embedding",
    "transformer.wte": "embedding",
    "gpt_neox.embed_in": "embedding",
    "gpt_neox.embed_out": "lm-head",
    "embed_out": "lm-head",
    "shared": "embedding",
    "text_encoder/shared": "embedding",
    "backbone.embeddings": "embedding",
    "lm_head": "lm-head",
    "language_model.lm_head": "lm-head",
    "output": "lm-head",
    "visual.blocks.0.attn.qkv": "vision",
    "vision_tower.vision_model.embeddings.position_embedding": "vision",
    "model.vision_model.encoder.layers.0.mlp.fc1": "vision",
    "model.layers.0.mlp.shared_expert.up_proj": "",
    "model.layers.0.attention.output.dense": "",
    "model.layers.0.self_attn.v_proj": "",
}


@pytest.mark.parametrize(("name", "role"), ROLES.items())
@pytest.mark.parametrize("kind", ["quantized", "downcast", "kept"])
def test_a_role_is_these_tensors(name, role, kind):
    words = {"quantized": ("int2", "int3", "int5"), "downcast": ("bf16",) * 3}
    wanted = words.get(kind, ("keep",) * 3)
    given = dict(zip(("embedding", "lm-head", "vision"), wanted, strict=True))
    recipe = parse_options("int8", recipe="uniform", roles=given).resolve(FACTS)

    decision = recipe.decide(f"{name}.weight", "F32", (64, 64), Depths([name]))

    expected = parse_target(given[role]) if role else parse_target("int8")
    assert decision.target == expected
    assert decision.rule.origin == (role or "preset")


def test_vectors_of_a_role_are_not_quantized_but_downcast():
    name = "visual.blocks.0.norm1.bias"

    quantized = parse_options(roles={"vision": "int8"}).resolve(FACTS)
    downcast = parse_options(roles={"vision": "bf16"}).resolve(FACTS)

    assert quantized.decide(name, "F32", (64,), Depths([name])).fits
    assert downcast.decide(name, "F32", (64,), Depths([name])).target == FloatType("BF16")


def test_flags_win_over_what_the_recipe_says(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text(
        'type = "int4"\nmisaligned = "error"\nexperts = "stacked"\nnonfinite = "allow"\n'
        '[[rule]]\nmatch = "*"\ntype = "requested"\n'
    )

    as_written = parse_options(recipe=str(path)).resolve(FACTS)
    other = parse_options(recipe=str(path), misaligned=Misaligned.KEEP, stacked=False).resolve(
        FACTS
    )

    assert (as_written.misaligned, as_written.stacked) == (Misaligned.ERROR, True)
    assert (as_written.allow_nonfinite, as_written.type) == (True, "int4")
    assert (other.misaligned, other.stacked) == (Misaligned.KEEP, False)
    assert parse_options("int8", recipe=str(path)).resolve(FACTS).type == "int8"


def test_a_file_s_type_may_be_a_downcast(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text('type = "bf16"\n[[rule]]\nmatch = "*"\ntype = "requested"\n')

    assert set(types(parse_options(recipe=str(path))).values()) == {"bf16"}


def test_conditions_look_at_architecture_family_and_kind(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text(
        '[[rule]]\nmatch = "*"\ntype = "int8"\nwhen = { architecture = "Gemma*" }\n'
        '[[rule]]\nmatch = "*"\ntype = "int6"\n'
        'when = { architecture = "ll*", kind = "model" }\n'
    )
    asked = parse_options(recipe=str(path))

    assert types(asked)["v_proj"] == "int6"
    gemma = FACTS._replace(architecture="Gemma3ForCausalLM", family="gemma3")
    assert types(asked, facts=gemma)["v_proj"] == "int8"
    pipeline = FACTS._replace(kind=SourceKind.PIPELINE)
    assert types(asked, facts=pipeline)["v_proj"] == "keep"


def test_an_error_is_a_usage_error_for_flags():
    with pytest.raises(UsageError) as caught:
        parse_options("fp8")
    assert caught.value.exit_code == 2
