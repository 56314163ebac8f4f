"""The zoo's judge of quantized models: it finds good ones good, and whatever is wrong."""

import json
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")

from importer.recipes.options import parse_options
from store import Store
from tests.importer.builders import MODELS, create, manifest_bytes
from tests.zoo import quantized_judge, readers
from tests.zoo.quantized_judge import QuantizeOptions, judge

MOE = MODELS / "tiny-moe"
DOWN = "model.layers.0.mlp.down_proj.weight"
EXPERTS = "model.layers.1.mlp.experts"
NORM = "model.norm.weight"
WAYS = [
    QuantizeOptions("int4"),
    QuantizeOptions("nvfp4"),
    QuantizeOptions("mxfp8"),
    QuantizeOptions("int4", stacked=True),
    QuantizeOptions("int4", "ollama", stacked=True),
    QuantizeOptions("nvfp4", "ollama"),
    QuantizeOptions("nvfp4", "ollama", stacked=True),
]


def quantize(root, asked, source=MOE):
    """Import a model, and give the store."""
    with Store(root) as store:
        recipe = parse_options(asked.type, recipe=asked.recipe, stacked=asked.stacked)
        create(store, source, recipe=recipe)
    return store


@pytest.fixture
def store(tmp_path):
    return quantize(tmp_path / "store", WAYS[1])


def blob(store, name):
    """Where the blob of a layer is."""
    layers = json.loads(manifest_bytes(store))["layers"]
    digest = next(layer["digest"] for layer in layers if layer.get("name") == name)
    return store.layout.blobs / digest.replace(":", "-")


def damage(path, change):
    """Write other content over a file of the store."""
    content = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(change(content))


def change_layer(store, change):
    """Change the layers in the manifest, a list."""
    path = store.layout.root / readers.NAMESPACE / "m" / "latest"
    manifest = json.loads(path.read_bytes())
    change(manifest["layers"])
    path.write_text(json.dumps(manifest))


def layer_of(layers, name):
    return next(layer for layer in layers if layer.get("name") == name)


def only_difference(store):
    differences = judge(MOE, store.layout.root, "m", WAYS[1]).differences
    assert len(differences) == 1, differences
    return differences[0]


# What Ollama decides is decided for language models.
@pytest.mark.parametrize(
    ("fixture", "asked"),
    [
        *((fixture, asked) for fixture in ("tiny-llama", "tiny-moe") for asked in WAYS),
        *(("tiny-pipeline", asked) for asked in WAYS if asked.recipe == "default"),
    ],
    ids=str,
)
def test_what_ingot_makes_is_good(tmp_path, fixture, asked):
    store = quantize(tmp_path / "store", asked, MODELS / fixture)

    verdict = judge(MODELS / fixture, store.layout.root, "m", asked)

    assert verdict.differences == []
    assert verdict.quantized[asked.type]


def test_it_counts_what_it_expects(tmp_path):
    store = quantize(tmp_path / "store", QuantizeOptions("int4"))

    verdict = judge(MOE, store.layout.root, "m", QuantizeOptions("int4"))

    # Gate and up projections of 11 experts, the shared one and the first layer; queries of
    # two layers. The 13 down projections have 32 columns, and int8 takes 64; the two output
    # projections have 16.
    assert verdict.tensors == 61
    assert dict(verdict.quantized) == {"int4": 28}
    assert verdict.misfits == 15


@pytest.mark.parametrize("name", [DOWN, NORM])
def test_a_flipped_bit_is_seen(store, name):
    damage(blob(store, name), lambda content: content[:-1] + bytes([content[-1] ^ 1]))

    assert name in only_difference(store)


def test_other_metadata_is_seen(store):
    damage(blob(store, DOWN), lambda content: content.replace(b'"nvfp4"', b'"mxfp4"'))

    assert f"{DOWN} is ['mxfp4', '16'], expected" in only_difference(store)


@pytest.mark.parametrize(
    ("asked", "global_keys"),
    [
        (WAYS[1], {"quant_type": None, "group_size": None}),
        (WAYS[0], {"quant_type": "int4", "group_size": "32"}),
    ],
    ids=["absent", "present"],
)
def test_other_global_keys_of_a_group_are_seen(tmp_path, asked, global_keys):
    store = quantize(tmp_path / "store", asked)

    def change(content):
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:end])
        changed = header["__metadata__"] | global_keys
        header["__metadata__"] = {key: value for key, value in changed.items() if value}
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + content[end:]

    damage(blob(store, EXPERTS), change)

    (difference,) = judge(MOE, store.layout.root, "m", asked).differences
    assert f"{EXPERTS} says" in difference


def test_a_tensor_that_is_gone_is_seen(store):
    change_layer(store, lambda layers: layers.remove(layer_of(layers, NORM)))

    assert only_difference(store) == f"{NORM} is not stored"


def test_a_tensor_too_many_is_seen(store):
    with Store(store.layout.root) as opened:
        create(opened, MODELS / "tiny-llama", recipe=parse_options("nvfp4"))

    differences = judge(MOE, store.layout.root, "m", WAYS[1]).differences

    assert "lm_head.weight is no tensor of the source" in differences


def test_a_layer_of_another_shape_is_seen(store):
    change_layer(store, lambda layers: layer_of(layers, DOWN).update(shape=[32, 64]))

    assert f"{DOWN}: its layer says" in only_difference(store)


@pytest.mark.parametrize(
    ("made", "expected", "seen"),
    [
        (QuantizeOptions("int4", "uniform"), QuantizeOptions("int4"), "embed_tokens"),
        (
            QuantizeOptions("int8"),
            QuantizeOptions("int4"),
            "expected Target(type='int4', group_size=32)",
        ),
        (
            QuantizeOptions("int4"),
            QuantizeOptions("int4", "ollama"),
            "expected Target(type='int4', group_size=64)",
        ),
        (
            QuantizeOptions("int4", "ollama"),
            QuantizeOptions("int4"),
            "expected Target(type='int4', group_size=32)",
        ),
        (
            QuantizeOptions("int4", stacked=True),
            QuantizeOptions("int4"),
            "experts.0.up_proj.weight is not stored",
        ),
        (
            QuantizeOptions("int4"),
            QuantizeOptions("int4", stacked=True),
            "experts.up_proj.weight is not stored",
        ),
    ],
    ids=str,
)
def test_another_decision_is_seen(tmp_path, made, expected, seen):
    store = quantize(tmp_path / "store", made)

    differences = judge(MOE, store.layout.root, "m", expected).differences

    assert any(seen in difference for difference in differences), differences


@pytest.mark.parametrize("module", [quantized_judge, readers])
def test_the_judge_shares_no_code_with_ingot(module):
    source = Path(module.__file__).read_text("utf-8")

    assert not any(
        line.split()[1].split(".")[0] in {"store", "importer", "cli"}
        for line in source.splitlines()
        if line.startswith(("import ", "from "))
    )
