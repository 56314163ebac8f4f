"""A stored model's weights are read by the configuration of their own directory."""

from __future__ import annotations

import pytest

from importer.recipes.options import parse_options
from importer.sources.location import StoredModel
from importer.sources.stored.source import read_stored
from store import ModelName, Store
from tests.importer.builders import create, safetensors, write

BIG = StoredModel(ModelName.parse("big"))
FP8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 64]}}
BLOCKS = safetensors(
    {"a.weight": ("F8_E4M3", (200, 300)), "a.weight_scale_inv": ("BF16", (4, 5))}
)
"""Whose scales would also fit blocks of 50 x 60."""
GPTQ = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}}
OWN = {"bits": 4, "group_size": 32, "sym": False}
ASYMMETRIC = safetensors(
    {
        "a.qweight": ("I32", (8, 48)),
        "a.qzeros": ("I32", (2, 6)),
        "a.scales": ("F16", (2, 48)),
    }
)


def part(name, weights=BLOCKS, config=FP8):
    return {f"{name}/model.safetensors": weights, f"{name}/config.json": config}


INDEX = {"model_index.json": {"_class_name": "FluxPipeline"}}
MODULES = {"modules.json": [{"idx": 0, "name": "0", "path": "0_T", "type": "x.Transformer"}]}
SOURCES = {
    "one directory": part("transformer"),
    "one of a pipeline": part("transformer") | INDEX,
    "one below another": part("parts/transformer"),
    "two": part("transformer") | part("vae"),
    "two of a pipeline": part("transformer") | part("vae") | INDEX,
    "a sentence model": part("0_T") | MODULES,
    "the source itself": {"model.safetensors": BLOCKS, "config.json": FP8},
    "another configuration beside": {
        "model.safetensors": BLOCKS,
        "config.json": FP8,
        "transformer/config.json": {},
    },
    "its own file of GPTQ": {
        "transformer/model.safetensors": ASYMMETRIC,
        "transformer/quantize_config.json": OWN,
    },
    "GPTQ": part("transformer", ASYMMETRIC, GPTQ),
}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def layers(store, name):
    return store.catalog.get(ModelName.parse(name)).parse().layers


@pytest.mark.parametrize("files", SOURCES.values(), ids=SOURCES)
def test_values_are_those_of_the_directory(store, tmp_path, files):
    source = write(tmp_path / "source", files)
    create(store, source, "big")
    create(store, BIG, "here", recipe=parse_options("f32"))
    create(store, source, "there", recipe=parse_options("f32"))

    assert layers(store, "here") == layers(store, "there")


@pytest.mark.parametrize("files", SOURCES.values(), ids=SOURCES)
def test_a_model_made_of_a_stored_one_has_its_directories(store, tmp_path, files):
    create(store, write(tmp_path / "source", files), "big")
    create(store, BIG, "again")

    first, second = (read_stored(store, ModelName.parse(name)) for name in ("big", "again"))

    assert first.components == second.components
    assert first.configs == second.configs
    assert all(not name or name in str(files) for name in first.components)
