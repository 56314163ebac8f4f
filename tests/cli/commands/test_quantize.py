"""`ingot create -q`: what the flags ask for, what the plan shows, what is then written."""

from __future__ import annotations

import json
import zlib
from math import prod

import mlx.core as mx
import numpy as np
import pytest
import safetensors

from importer.codecs.spec import QUANT_TYPES
from importer.recipes.document import to_toml
from tests.check_store import check_store
from tests.cli.runner import run
from tests.importer.builders import FIXTURES, MODELS, model, write
from tests.importer.recipes.test_toml_file import BAD, RULE

LLAMA, MOE = MODELS / "tiny-llama", MODELS / "tiny-moe"
EXPERTS = "model.layers.0.mlp.experts"
L = "model.layers.0.mlp.up_proj"


def weights(name, shape, dtype="BF16"):
    """A tensor of `safetensors` with values like those of a trained model."""
    seed = zlib.crc32(name.encode())
    values = np.random.default_rng(seed).normal(0, 0.02, shape).astype(np.float32)
    if dtype == "BF16":
        return dtype, shape, (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return dtype, shape, values.tobytes()


def source(directory, shapes, dtype="BF16", **files):
    """A model of name -> shape."""
    tensors = {name: weights(name, shape, dtype) for name, shape in shapes.items()}
    return model(directory, tensors, **files)


def planned(*words, **options):
    """The document of a dry run."""
    return run("create", "m", *words, "--dry-run", "--json", **options).succeeded().document


def types(*words, **options):
    """Name -> what it becomes, with the group size."""
    return {
        one["name"]: (one["type"] or "keep")
        + (f"/{one['group_size']}" if one["group_size"] else "")
        for one in planned(*words, **options)["tensors"]
    }


COMPONENTS = ("text_encoder", "transformer", "vae")


def stored(store, name="m"):
    """Name of a part -> dtype, shape and bytes of each tensor layer; and the layers."""
    document = json.loads(
        (store / "manifests/registry.ollama.ai/library" / name / "latest").read_bytes()
    )
    parts, layers = {}, {}
    for layer in document["layers"]:
        if layer["mediaType"].endswith("image.tensor"):
            content = (store / "blobs" / layer["digest"].replace(":", "-")).read_bytes()
            layers[layer["name"]] = len(content)
            first = layer["name"].partition("/")[0]
            component = f"{first}/" if first in COMPONENTS else ""
            for key, entry in safetensors.deserialize(content):
                parts[component + key] = (
                    entry["dtype"],
                    entry["shape"],
                    bytes(entry["data"]),
                )
    return parts, layers


# Words.


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("-q int7", 2, "`int7` is not a type, expected one of int2, int3, int4"),
        ("-q fp4", 2, "nvfp4 (groups of 16) or mxfp4 (groups of 32)"),
        ("-q fp8", 2, "mxfp8; the integer type is int8"),
        ("-q keep", 2, "Leave `-q` out"),
        ("-q int4 --group-size 48", 2, "int4 in groups of 48, expected 32, 64 or 128"),
        ("-q int4 --group-size 0", 2, "int4 in groups of 0"),
        ("-q nvfp4 --group-size 32", 2, "nvfp4 in groups of 32, expected 16, no other"),
        ("-q bf16 --group-size 32", 2, "bf16 has no groups"),
        ("-q int4/64 --group-size 32", 2, "Give the group size once: `-q int4/32`"),
        ("--group-size 32", 2, "GLOB=int4/64"),
        ("-q int4 --recipe nope", 9, "there is no recipe `nope`"),
        ("--recipe default", 2, "-q int4 --recipe default"),
        ("-q int4 --recipe mixed_3_6", 2, "names every type itself"),
        ("--rule v_proj", 2, "--rule '*.v_proj=int8/64'"),
        ("-q int4 --rule *.x_proj=keep", 2, "no tensor matches the rule for `*.x_proj`"),
        ("-q int4 --rule *=keep --rule *.v_proj=int8", 2, "`*.v_proj` decides nothing"),
        ("-q int4 --rule *=keep --embedding int8", 2, "hint: Leave `--embedding` out"),
        ("-q int4 --embedding fp8", 2, "`fp8` is not a type"),
        (
            "-q int4 --on-misaligned skip",
            2,
            "`--on-misaligned skip`: expected one of keep, adjust, error",
        ),
        ("-q int4 --experts flat", 2, "`--experts flat`: expected one of packed"),
    ],
)
def test_words_that_ask_for_nothing_possible_are_one_clean_error(store, words, code, told):
    text = run("create", "m", LLAMA, *words.split(), store=store).failed(code)

    assert told in text
    assert not (store / "manifests").exists()


@pytest.mark.parametrize("role", ["vision", "lm-head", "embedding"])
def test_a_role_that_a_model_does_not_have_is_a_note(store, tmp_path, role):
    source = model(tmp_path / "s", {"a.weight": ("BF16", (4, 64))})

    done = run(
        "create", "m", source, "-q", "int4", f"--{role}", "bf16", store=store
    ).succeeded()

    assert done.stderr.count("no tensor belongs to") == 1


def test_two_bits_of_a_small_model_are_warned_about(store):
    done = run("create", "m", LLAMA, "-q", "int2", "--dry-run", store=store).succeeded()

    assert "it is rarely of use then" in done.stdout
    four = run("create", "m", LLAMA, "-q", "int4", "--dry-run", store=store).succeeded()
    assert "coherent" not in four.stdout + four.stderr


def test_a_wrong_type_is_told_as_json(store):
    error = run("create", "m", LLAMA, "-q", "fp4", "--json", store=store).error

    assert (error["code"], error["exit_code"]) == ("E_QUANT_TYPE", 2)
    assert "nvfp4" in error["hint"]


def test_rules_and_roles_go_before_the_recipe(store):
    found = types(
        LLAMA, "-q", "int4", "--rule", "*.0.*.v_proj=int6", "--rule", "*.v_proj=keep",
        "--embedding", "int8", "--lm-head", "keep", store=store,
    )  # fmt: skip

    assert found["model.layers.0.self_attn.v_proj.weight"] == "int6/64"
    assert found["model.layers.1.self_attn.v_proj.weight"] == "keep"
    assert found["model.layers.1.self_attn.k_proj.weight"] == "int4/32"
    assert found["model.layers.1.mlp.down_proj.weight"] == "int8/64"
    assert found["model.embed_tokens.weight"] == "int8/64"
    assert found["lm_head.weight"] == "keep"


@pytest.mark.parametrize("word", ["bf16", "f16"])
def test_a_downcast_takes_every_tensor_and_roles_may_keep_some(store, tmp_path, word):
    shapes = {"lm_head.weight": (4, 8), "visual.w": (2,), "model.embed.weight": (4, 8)}
    path = source(tmp_path / "s", shapes, "F32")
    words = (path, "-q", word, "--lm-head", "keep", "--vision", "bf16", "--embedding", "f16")

    assert types(*words, store=store) == {
        "lm_head.weight": "keep",
        "visual.w": "bf16",
        "model.embed.weight": "f16",
    }
    run("create", "m", *words, store=store).succeeded()
    parts, _ = stored(store)
    assert {name: part[0] for name, part in parts.items()} == {
        "lm_head.weight": "F32",
        "visual.w": "BF16",
        "model.embed.weight": "F16",
    }


# Shapes that do not fit.

ODD = {"a.weight": (32, 96), "b.weight": (32, 128), "c.weight": (32, 40)}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (None, ("keep", "int8/128", "keep")),
        ("keep", ("keep", "int8/128", "keep")),
        ("adjust", ("int8/32", "int8/128", "keep")),
    ],
)
def test_what_does_not_fit_is_kept_or_adjusted_and_counted(store, tmp_path, how, expected):
    path = source(tmp_path / "s", ODD)
    words = (path, "-q", "int8/128", *(("--on-misaligned", how) if how else ()))

    assert tuple(types(*words, store=store).values()) == expected
    outcome = run("create", "m", *words, store=store).succeeded()
    kept = expected.count("keep")
    assert f"{kept} of 3 tensors do" in outcome.stderr
    assert "% 128 != 0" in outcome.stderr
    text = run("create", "m", *words, "--strict", store=store).failed(3)
    verb = "tensor does not fit its rule" if kept == 1 else "tensors do not fit their rules"
    assert f"{kept} {verb}" in text
    assert "`c.weight` (40 % 128 != 0)" in text


def test_what_does_not_fit_can_be_an_error(store, tmp_path):
    path = source(tmp_path / "s", ODD)

    text = run("create", "m", path, "-q", "int8/128", "--on-misaligned", "error", store=store)

    assert "tensor `a.weight` has shape [32, 96]" in text.failed(3)


def test_strict_is_content_where_all_fits(store):
    run("create", "m", LLAMA, "-q", "int4", "--strict", store=store).succeeded()


# Experts.


@pytest.mark.parametrize(
    ("kind", "dtype"), [("int4", "BF16"), ("int8", "F32"), ("nvfp4", "BF16")]
)
def test_stacked_experts_are_what_mlx_makes_of_the_stack(store, tmp_path, kind, dtype):
    shapes = {f"{EXPERTS}.{n}.up_proj.weight": (32, 64) for n in range(12)}
    path = source(tmp_path / "s", shapes, dtype)
    run("create", "m", path, "-q", kind, "--experts", "stacked", store=store).succeeded()

    in_order = [weights(f"{EXPERTS}.{n}.up_proj.weight", (32, 64), dtype)[2] for n in range(12)]
    words = np.uint32 if dtype == "F32" else np.uint16
    stack = np.stack([np.frombuffer(one, words).reshape(32, 64) for one in in_order])
    spec = QUANT_TYPES[kind]
    with mx.stream(mx.cpu):
        values = mx.array(stack).view(mx.float32 if dtype == "F32" else mx.bfloat16)
        expected = mx.quantize(
            values, group_size=spec.group_size, bits=spec.bits, mode=str(spec.mode)
        )
        contents = [bytes(memoryview(one.flatten().view(mx.uint8))) for one in expected]

    parts, layers = stored(store)
    name = f"{EXPERTS}.up_proj.weight"
    keys = [name + suffix for suffix in ("", ".scale", ".bias")[: len(expected)]]
    assert list(layers) == [EXPERTS]  # as Ollama names a stack, even one alone
    assert sorted(parts) == sorted(keys)
    assert [parts[key][2] for key in keys] == contents
    assert [parts[key][1] for key in keys] == [list(one.shape) for one in expected]


def test_experts_are_packed_unless_asked(store):
    run("create", "m", MOE, "-q", "int4", store=store).succeeded()

    parts, _ = stored(store)
    assert "model.layers.1.mlp.experts.10.up_proj.weight.scale" in parts
    packed = types(MOE, "-q", "int4", "--experts", "packed", store=store)
    assert packed == types(MOE, "-q", "int4", store=store)


# What is refused.


def test_s63_a_name_that_quantization_makes_is_refused_with_the_rule_that_helps(
    store, tmp_path
):
    path = source(tmp_path / "s", {"a.weight": (32, 64), "a.weight.bias": (4,)})

    text = run("create", "m", path, "-q", "int4", store=store).failed(3)

    assert "`a.weight.bias` has the name that a part of `a.weight` gets" in text
    assert "hint: Keep the latter: --rule 'a.weight=keep'" in text
    run("create", "m", path, "-q", "nvfp4", store=store).succeeded()


@pytest.mark.parametrize("words", ["", "--dry-run", "-q int4", "-q bf16", "--strict"])
def test_a_source_that_is_not_understood_is_refused_by_name(store, tmp_path, words):
    tensors = {f"{L}.W_q": ("U8", (64, 64)), f"{L}.scale": ("F16", (64, 1))}
    path = model(tmp_path / "s", {**tensors, "model.norm.weight": ("F32", (4,))})

    outcome = run("create", "m", path, *words.split(), "--json", store=store)

    assert outcome.code == 4
    assert outcome.error["code"] == "E_QUANT_FORMAT"
    assert f"`model.safetensors`: `{L}.W_q` is quantized by hqq" in outcome.error["message"]
    assert "Import the checkpoint that it was made of" in outcome.error["hint"]


@pytest.mark.parametrize("what", BAD)
def test_a_hostile_recipe_is_one_clean_error(store, tmp_path, what):
    content, _ = BAD[what]
    data = content if isinstance(content, bytes) else content.encode()
    write(tmp_path, {"evil\u202e.toml": data})

    text = run("create", "m", LLAMA, "--recipe", tmp_path / "evil\u202e.toml", store=store)

    assert r"evil\u202e.toml`: " in text.failed(3)


def test_a_recipe_of_megabytes_is_one_clean_error(store, tmp_path):
    write(tmp_path, {"r.toml": b"#" * (2 << 20)})

    run("create", "m", LLAMA, "--recipe", tmp_path / "r.toml", store=store).failed(3)


def test_a_recipe_s_rule_that_matches_nothing_is_told_unless_it_is_optional(store, tmp_path):
    path = write(tmp_path, {"r.toml": RULE + '[[rule]]\nmatch = "*.x"\ntype = "keep"\n'})

    first = run("create", "m", LLAMA, "--recipe", path / "r.toml", store=store).failed(2)
    write(
        tmp_path, {"r.toml": RULE + '[[rule]]\nmatch = "*.x"\ntype = "keep"\noptional = true\n'}
    )

    assert "no tensor matches the rule for `*.x`" in first
    run("create", "m", LLAMA, "--recipe", path / "r.toml", store=store).succeeded()


# The plan.


@pytest.mark.parametrize("fixture", FIXTURES)
@pytest.mark.parametrize(
    "words",
    ["-q int4", "-q nvfp4", "--recipe mixed_3_6", "-q int8 --recipe ollama --experts stacked"],
)
def test_the_plan_promises_exactly_what_is_written(store, fixture, words):
    words = (MODELS / fixture, *words.split())
    plan = planned(*words, store=store)
    run("create", "m", *words, store=store).succeeded()

    parts, layers = stored(store)
    for one in plan["tensors"]:
        keys = [one["name"] + suffix for suffix in ("", ".scale", ".bias")]
        made = [parts.pop(key) for key in keys if key in parts]
        assert one["bytes"] == sum(len(content) for _, _, content in made), one
        assert (one["group_size"] is not None) == (len(made) > 1)
        assert one["rule"]
        assert one["reason"]
        assert one["source_bytes"] == prod(one["shape"]) * {"F64": 8, "F32": 4, "I64": 8}.get(
            one["dtype"], 1 if "8" in one["dtype"] or one["dtype"] == "BOOL" else 2
        )
    assert parts == {}
    assert {one["layer"] for one in plan["tensors"]} == set(layers)
    files = sum(file["bytes"] for file in plan["files"])
    documents = plan["documents"]["bytes"]
    assert plan["total"]["bytes"] == sum(layers.values()) + files + documents
    assert check_store(store) == []


def test_the_plan_is_a_table_of_classes_with_exact_bytes(store):
    outcome = run("create", "m", LLAMA, "-q", "int4", "--dry-run", store=store).succeeded()
    rows = {line.split("   ")[0]: line.split() for line in outcome.stdout.splitlines() if line}

    assert rows["TENSORS"][:4] == ["TENSORS", "TYPE", "BEFORE", "AFTER"]
    # 2 tensors of 64 x 128 BF16: 2 x 16384 before; 8 bits and a scale and bias of 16 for 64.
    assert rows["model.layers.{0-1}.mlp.down_proj.weight"][1:7] == [
        "x2", "int8", "32,768", "17,408", "8.50", "7",
    ]  # fmt: skip
    # 4 bits, and 32 for each group of 32.
    assert rows["model.layers.{0-1}.mlp.up_proj.weight"][1:7] == [
        "x2", "int4", "32,768", "10,240", "5.00", "8",
    ]  # fmt: skip
    assert rows["model.norm.weight"][1:] == ["BF16", "128", "128", "16.00", "4", "norm"]
    tensors = planned(LLAMA, "-q", "int4", store=store)["tensors"]
    before, after = (sum(one[key] for one in tensors) for key in ("source_bytes", "bytes"))
    assert f"{before:,}    {after:,}" in outcome.stdout
    assert not store.exists()


def test_the_recipe_of_a_plan_can_be_used_again(store, tmp_path):
    words = ("-q", "int4", "--rule", "*.v_proj=int6/32", "--experts", "stacked")
    document = planned(MOE, *words, store=store)["recipe"]
    path = write(tmp_path, {"again.toml": "\n".join(to_toml(document))}) / "again.toml"

    again = planned(MOE, "--recipe", path, store=store)

    assert again["recipe"] == document
    first = run("create", "a", MOE, *words, "--json", store=store).succeeded().document
    second = run("create", "b", MOE, "--recipe", path, "--json", store=store).document
    assert first["digest"] == second["digest"]


def test_quantizing_again_writes_nothing(store):
    run("create", "m", LLAMA, "-q", "int4", store=store).succeeded()

    again = run("create", "m", LLAMA, "-q", "int4", store=store).succeeded()
    other = run("create", "m", LLAMA, "-q", "int8", "--json", store=store).succeeded().document

    assert "m:latest is unchanged" in again.stderr
    assert "wrote nothing new" in again.stderr
    assert other["blobs"]["new"]["count"] > 10
    assert check_store(store) == []


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("Q4_K_M", "int4; for GGUF there is `ingot export NAME DEST --to gguf -q Q4_K_M`"),
        ("iq4_nl", "int4; for GGUF there is `ingot export NAME DEST --to gguf -q iq4_nl`"),
        ("afq8", "int8; for UQFF there is `ingot export NAME DEST --to uqff -q afq8`"),
        ("int7", "The nearest types of the store are int6 and int8\n"),
    ],
)
def test_a_type_of_another_program_names_the_export_that_has_it(store, word, told):
    text = run("create", "x", MODELS / "tiny-llama", "-q", word, store=store).failed(2)

    assert told in f"{text}\n"
