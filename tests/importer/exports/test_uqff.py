"""The format uqff: what mistral.rs writes of the same source, array for array, bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from importer.codecs.ggml.encoder import quantizer
from importer.codecs.runtime import NUMPY
from importer.recipes.options import parse_options
from importer.sources.location import StoredModel
from importer.verification.exported import compare_export
from store import ModelName, Store
from store.errors import InputError, UnsupportedError, UsageError
from tests.importer.builders import REPOSITORY, create
from tests.importer.exports.exporting import (
    arrays,
    arrays_in,
    export,
    header_of,
    planned,
    tree,
)
from tests.importer.exports.uqff_checkpoints import CASES, TARGET, checkpoint, digests
from tests.importer.formats.imatrix.builders import dat, ended, entry
from tests.importer.formats.uqff.tiny_models import EXPERTS, Sizes, write_model
from tests.importer.sources.schemes.mlx_sources import mx

GOLDEN = json.loads(TARGET.read_bytes())
WRITTEN = REPOSITORY / "fixtures" / "uqff"
Q = "model.layers.0.self_attn.q_proj"


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def layers(directory):
    """All arrays of the shards but for the version."""
    found = {}
    for path in directory.glob("*.uqff"):
        found |= arrays_in(path)
    return {name: one for name, one in found.items() if not name.startswith("uqff.version.")}


def number(found, name):
    """A scalar of an export."""
    _, shape, data = found[name]
    assert shape == ()
    return int.from_bytes(data, "little")


def version(directory, shard):
    """The version that a shard says it is of."""
    found = arrays_in(directory / shard)
    names = [f"uqff.version.{part}" for part in ("major", "minor", "patch")]
    assert all(found[name][:2] == ("U32", ()) for name in names)
    return tuple(number(found, name) for name in names)


def types(directory, shard):
    """Layer -> tag, and bits or GGML's type."""
    found = arrays_in(directory / shard)
    keys = [name.removesuffix(".format") for name in found if name.endswith(".weight.format")]
    return {
        key: (
            number(found, f"{key}.format"),
            *(
                number(found, f"{key}.{suffix}")
                for suffix in ("bits", "dtype")
                if f"{key}.{suffix}" in found
            ),
        )
        for key in keys
    }


@pytest.mark.parametrize("name", CASES)
def test_every_array_is_the_one_that_mistralrs_writes(tmp_path, name):
    source = checkpoint(tmp_path / "in", name)
    for isq in CASES[name][2]:
        out = tmp_path / isq

        export(None, out, "uqff", source=source, q=isq.lower())

        assert digests(out) == GOLDEN[f"{name} {isq}"], isq


@pytest.mark.parametrize("q", ["afq4", "q4_0", "hqq4", "fp8", "mxfp4", "afq4,q8_0"])
def test_a_stored_model_gives_what_its_source_gives(store, tmp_path, q):
    source = checkpoint(tmp_path / "in", "qwen2")
    create(store, source)
    export(None, tmp_path / "direct", "uqff", source=source, q=q, threads=1)

    export(store, tmp_path / "stored", "uqff", q=q, threads=3)

    assert tree(tmp_path / "stored") == tree(tmp_path / "direct")


def with_rope(source, **keys):
    """Write the rotary embeddings of a checkpoint as transformers 5 does, or otherwise."""
    path = source / "config.json"
    config = json.loads(path.read_bytes())
    gone = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor")
    kept = {key: value for key, value in config.items() if key not in gone}
    path.write_text(json.dumps(kept | keys))
    return kept | keys


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}


@pytest.mark.parametrize(
    ("rope", "added"),
    [
        ({"rope_type": "default", "rope_theta": 5e5}, {"rope_theta": 5e5}),
        (
            {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
            {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
        ),
        (LLAMA3 | {"rope_theta": 5e5}, {"rope_theta": 5e5, "rope_scaling": LLAMA3}),
        ({"full_attention": {"rope_theta": 1e4}}, {}),
    ],
)
def test_rotary_keys_of_transformers_5_are_where_mistralrs_looks_too(tmp_path, rope, added):
    source = checkpoint(tmp_path / "in", "qwen2")
    config = with_rope(source, rope_parameters=rope)

    done = export(None, tmp_path / "out", "uqff", source=source, q="afq4")

    made = json.loads((tmp_path / "out" / "config.json").read_bytes())
    assert made == config | added
    said = [note for note in done.notes if "rope_parameters" in note]
    assert [all(f"`{key}`" in note for key in added) for note in said] == [True] * bool(added)


def test_a_config_json_with_the_earlier_rotary_keys_stays_as_it_is(tmp_path):
    source = checkpoint(tmp_path / "in", "qwen2")
    with_rope(source, rope_theta=1e4, rope_parameters={"rope_theta": 1e4})

    done = export(None, tmp_path / "out", "uqff", source=source, q="afq4")

    copied = (tmp_path / "out" / "config.json").read_bytes()
    assert copied == (source / "config.json").read_bytes()
    assert not any("rope" in note for note in done.notes)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("kind", ["int4", "int8/32", "int2", "int6/64", "mxfp4"])
def test_what_the_store_quantized_is_not_recoded(store, tmp_path, kind, stacked):
    source = checkpoint(tmp_path / "in", "qwen3_moe")
    create(store, source, recipe=parse_options(kind, recipe="uniform", stacked=stacked))
    export(store, tmp_path / "out", "uqff")

    create(store, tmp_path / "out", name="back")
    export(store, tmp_path / "again", "uqff", name="back")

    assert tree(tmp_path / "again") == tree(tmp_path / "out")
    (shard,) = (tmp_path / "out").glob("*.uqff")
    found = arrays_in(shard)
    for expert in range(2):
        expected = mx.load(str(source / "model.safetensors"))[
            f"model.layers.0.mlp.experts.{expert}.down_proj.weight"
        ]
        mode = "affine" if kind != "mxfp4" else "mxfp4"
        bits = {"int4": (4, 32), "int2": (2, 64), "mxfp4": (4, 32)}.get(kind)
        bits = bits or tuple(map(int, kind.removeprefix("int").split("/")))
        parts = mx.quantize(expected, bits=bits[0], group_size=bits[1], mode=mode)
        name = "model.layers.0.mlp.experts.down_proj.weight"
        for part, suffix in zip(parts, ("", ".scales", ".biases"), strict=False):
            _, shape, data = found[name + suffix]
            size = len(data) // shape[0]
            assert np.array(part).tobytes() == data[size * expert : size * (expert + 1)]


@pytest.mark.parametrize("name", ["qwen2-afq4", "moe-q4_0", "types"])
def test_what_mistralrs_wrote_comes_out_as_it_went_in(store, tmp_path, name):
    source = WRITTEN / name
    create(store, source)

    export(store, tmp_path / "out", "uqff")

    assert layers(tmp_path / "out") == layers(source)
    assert arrays(tmp_path / "out") == arrays(source)


def test_the_version_is_the_oldest_that_the_content_needs(store, tmp_path):
    source = checkpoint(tmp_path / "in", "qwen2")
    create(store, source, recipe=parse_options("int4"))  # keeps the embeddings
    export(store, tmp_path / "stored", "uqff")
    export(None, tmp_path / "plain", "uqff", source=source)
    export(None, tmp_path / "afq8", "uqff", source=source, q="afq8")

    assert version(tmp_path / "stored", "afq4-0.uqff") == (1, 0, 0)
    assert version(tmp_path / "plain", "unquantized-0.uqff") == (1, 1, 0)
    assert version(tmp_path / "afq8", "afq8-0.uqff") == (1, 2, 0)
    for directory, is_beside in (("stored", True), ("plain", True), ("afq8", False)):
        residual = arrays(tmp_path / directory)
        assert ("model.embed_tokens.weight" in residual) == is_beside
        assert "model.embed_tokens.weight.format" not in residual
        create(store, tmp_path / directory, name=directory)


def test_several_types_have_shards_each_and_one_residual(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    export(None, tmp_path / "both", "uqff", source=source, q="afq2,q8_0")

    assert {path.name for path in (tmp_path / "both").iterdir()} == {
        "afq2-0.uqff",
        "q8_0-0.uqff",
        "residual.safetensors",
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    for q in ("afq2", "q8_0"):
        export(None, tmp_path / q, "uqff", source=source, q=q)
        one, both = tmp_path / q, tmp_path / "both"
        assert (one / f"{q}-0.uqff").read_bytes() == (both / f"{q}-0.uqff").read_bytes()
        assert arrays(one) == arrays(both)


def test_embeddings_and_the_output_layer_are_promoted(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")

    plan = export(None, tmp_path / "out", "uqff", source=source, q="q4_1")

    found = types(tmp_path / "out", "q4_1-0.uqff")
    # Q6_K is promoted to, and Q5_1 takes its place in rows of 64.
    assert {found["lm_head.weight"], found["model.embed_tokens.weight"]} == {(0, 7)}
    assert found[f"{Q}.weight"] == (0, 3)
    assert plan.notes == ("2 layers in q5_1: q6k does not fit their shape",)


def test_what_does_not_fit_is_not_quantized_and_said(tmp_path):
    source = checkpoint(tmp_path / "in", "narrow")

    plan = export(None, tmp_path / "out", "uqff", source=source, q="afq4")

    found = types(tmp_path / "out", "afq4-0.uqff")
    assert found[f"{Q}.weight"] == (1,)
    assert found["model.layers.0.mlp.down_proj.weight"] == (4, 4)
    assert plan.notes == (
        "6 layers not quantized: afq4 does not fit their shape",
        "2 layers not quantized: afq6 does not fit their shape",
    )
    assert version(tmp_path / "out", "afq4-0.uqff") == (1, 1, 0)


def test_layers_are_shared_among_shards(store, tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    export(None, tmp_path / "one", "uqff", source=source, q="afq8")

    export(None, tmp_path / "out", "uqff", source=source, q="afq8", shard_size=16_000)

    shards = sorted((tmp_path / "out").glob("*.uqff"))
    assert [path.name for path in shards] == [f"afq8-{n}.uqff" for n in range(len(shards))]
    assert len(shards) > 2
    assert digests(tmp_path / "out") == digests(tmp_path / "one")
    assert version(tmp_path / "out", "afq8-0.uqff") == (1, 2, 0)
    assert not any(name.startswith("uqff.") for name in arrays_in(shards[1]))
    create(store, tmp_path / "out")


def test_biases_have_the_dtype_that_mistralrs_adds_them_in(tmp_path):
    source = checkpoint(tmp_path / "in", "qwen2")
    for q, dtype in (("q8_0", "BF16"), ("fp8", "BF16"), ("hqq4", "F32")):
        out = tmp_path / q
        export(None, out, "uqff", source=source, q=q, dtype="BF16")
        assert arrays_in(out / f"{q}-0.uqff")[f"{Q}.bias"][0] == dtype
        assert {one[0] for one in arrays(out).values()} == {"BF16"}
        assert json.loads((out / "config.json").read_text())["torch_dtype"] == "bfloat16"


def test_what_a_class_has_no_place_for_is_left_out_and_said(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    found = {
        name: np.frombuffer(data, "<f4").reshape(shape)
        for name, (_, shape, data) in arrays(source).items()
    }
    save_file(found | {f"{Q}.bias": np.ones(64, np.float32)}, source / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))

    plan = export(None, tmp_path / "out", "uqff", source=source, q="afq4")

    assert plan.lossy == (
        f"1 tensor such as `{Q}.bias`: mistral.rs adds nothing there, so left out",
    )
    assert "`lm_head.weight` is left out: the output layer is tied to the embeddings" in (
        plan.notes
    )
    written = arrays_in(tmp_path / "out" / "afq4-0.uqff")
    assert f"{Q}.bias" not in written
    assert "lm_head.weight" not in written


def test_a_report_of_other_shards_does_not_go_along(store, tmp_path):
    create(store, WRITTEN / "qwen2-afq4")

    plan = export(store, tmp_path / "out", "uqff")

    assert not (tmp_path / "out" / "uqff_report.json").exists()
    assert [left.path for left in plan.left_out] == ["uqff_report.json"]


@pytest.mark.parametrize("q", ["fp8", "mxfp4", "hqq4", "f8q8"])
def test_experts_have_types_that_mistralrs_computes_with(tmp_path, q):
    source = checkpoint(tmp_path / "in", "qwen3_moe")

    with pytest.raises(UnsupportedError, match=f"experts of .* in {q}"):
        planned(None, tmp_path / "out", "uqff", source=source, q=q)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"q": "int4"}, "`int4` is not a type of UQFF, expected afq2, .*, unquantized"),
        ({"q": "afq4,afq4"}, "`afq4` is asked for twice"),
        ({"q": "q4k", "group_size": 32}, "q4k in groups of 32, expected an AFQ type"),
        ({"q": "afq4", "group_size": 48}, "afq4 in groups of 48"),
        ({"group_size": 32}, "a group size for uqff, expected an AFQ type"),
        ({"recipe": "mlx"}, "the format uqff has no recipes"),
    ],
)
def test_wrong_calls_are_told(tmp_path, asked, message):
    source = checkpoint(tmp_path / "in", "llama")
    with pytest.raises(UsageError, match=message):
        planned(None, tmp_path / "out", "uqff", source=source, **asked)


def test_an_unknown_architecture_is_named(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))

    with pytest.raises(UnsupportedError, match="the architecture `bert` in UQFF: known are"):
        planned(None, tmp_path / "out", "uqff", source=source)


def test_a_number_that_a_type_cannot_hold_is_refused(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")
    path = source / "model.safetensors"
    header, start, data = header_of(path)
    at = start + header[f"{Q}.weight"]["data_offsets"][1]
    path.write_bytes(data[: at - 4] + np.array([np.nan], "<f4").tobytes() + data[at:])
    for q in ("afq4", "q8_0", "hqq4", "fp8", "f8q8", "mxfp4"):
        with pytest.raises(InputError, match="has a value that its type"):
            export(None, tmp_path / "out", "uqff", source=source, q=q)
    assert not (tmp_path / "out").exists()


def imatrix(path, *names, columns=256):
    """Write an importance matrix with numbers for some tensors of GGUF."""
    numbers = [float(n % 7 + 1) for n in range(columns)]
    path.write_bytes(dat(*(entry(name, 2, numbers) for name in names), end=ended()))
    return str(path)


def test_an_importance_matrix_weighs_the_k_types_that_it_names(store, tmp_path):
    source = write_model(tmp_path / "in", "llama", Sizes(256, 4, 2, 256))
    weights = imatrix(tmp_path / "m.dat", "blk.0.attn_q.weight", "blk.0.ffn_down.weight")
    create(store, source)
    for kind, block in (("q4k", "Q4_K"), ("q2k", "Q2_K")):
        export(store, tmp_path / f"{kind}-plain", "uqff", q=kind)
        done = export(store, tmp_path / kind, "uqff", q=kind, imatrix=weights)

        plain, found = layers(tmp_path / f"{kind}-plain"), layers(tmp_path / kind)
        changed = {name for name in plain if plain[name] != found[name]}
        # What shares its input with the queries has their importance.
        inside = {f"model.layers.0.self_attn.{one}_proj.weight" for one in "qkv"}
        assert changed == {*inside, "model.layers.0.mlp.down_proj.weight"}
        values = arrays(source)[f"{Q}.weight"][2]
        numbers = np.array([float(n % 7 + 1) for n in range(256)], "<f4") / 2
        codec = quantizer(block, arrays(source)[f"{Q}.weight"][0], numbers.tobytes())
        assert found[f"{Q}.weight"][2] == bytes(codec.encode(values, NUMPY).parts[0])
        assert any("importance matrix has nothing" in note for note in done.notes)
        assert not compared(store, tmp_path / kind, weights)
        assert compared(store, tmp_path / kind)


def compared(store, place, weights=None):
    model = StoredModel(ModelName.parse("m"))
    return compare_export(store, model, place, imatrix=weights).findings


def test_every_expert_has_its_own_importance(tmp_path):
    source = write_model(tmp_path / "in", "qwen3_moe", Sizes(256, 4, 2, 256))
    weights = imatrix(tmp_path / "m.dat", "blk.0.ffn_up_exps.weight", columns=256 * EXPERTS)

    for given, place in ((None, "plain"), (weights, "weighed")):
        export(None, tmp_path / place, "uqff", source=source, q="q4k", imatrix=given)

    plain, found = layers(tmp_path / "plain"), layers(tmp_path / "weighed")
    changed = {name for name in plain if plain[name] != found[name]}
    assert changed == {
        f"model.layers.0.mlp.experts.{one}_proj.weight" for one in ("gate", "up")
    }


def test_a_matrix_that_has_no_use_is_an_error(tmp_path):
    source = write_model(tmp_path / "in", "llama", Sizes(256, 4, 2, 256))
    other = imatrix(tmp_path / "m.dat", "blk.9.attn_q.weight")

    for kind in ("afq4", "q4_0", None):
        with pytest.raises(UsageError, match="expected a K type"):
            planned(None, tmp_path / "o", "uqff", source=source, q=kind, imatrix=other)
    with pytest.raises(InputError, match="nothing for any layer"):
        planned(None, tmp_path / "o", "uqff", source=source, q="q4k", imatrix=other)
