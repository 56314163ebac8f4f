"""The record of a model: typed, and patient with damage and with other programs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.models.description import describe
from importer.recipes.options import parse_options
from importer.recipes.recipe import PLAIN
from importer.sources.location import HubRepository
from importer.sources.stored.record import (
    NO_RECORD,
    DtypeRun,
    RecordedFile,
    read_record,
    record_in,
)
from store import ModelName, Store
from tests.importer.builders import MODELS, create, handmade, model
from tests.importer.damage import blob_of, cut

NAME = ModelName.parse("m")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
EXPERTS = {
    f"layers.0.mlp.experts.{expert}.w.weight": ("F32" if expert else "F64", (64, 64))
    for expert in range(3)
}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def record_of(store, name=NAME):
    return read_record(store, store.catalog.get(name).parse().config)


def test_what_was_recorded_is_read(store):
    create(store, MODELS / "tiny-moe", recipe=parse_options("int4"))

    found = record_of(store)

    assert (found.architecture, found.family) == ("Glm4MoeForCausalLM", "glm4_moe")
    assert (found.kind, found.encoder, found.is_empty) == ("model", 1, False)
    assert found.recipe["name"] == "default"
    assert "model.safetensors" in {file.name for file in found.files}
    assert (found.hub, found.variant, found.prequantized, found.components) == (None,) * 3 + (
        (),
    )


def test_all_fields_of_a_record():
    ours = {
        "components": ["unet", "vae"],
        "files": [{"name": "a", "size": 3}, {"name": "b", "size": 4, "sha256": "ff"}],
        "hub": {"commit": COMMIT, "repository": "org/name"},
        "prequantized": "gptq",
        "source_dtypes": [[None, 2], ["BF16", 3]],
        "variant": "fp16",
    }

    found = record_in({"ingot": ours})

    assert found.components == ("unet", "vae")
    assert found.files == (RecordedFile("a", 3, None), RecordedFile("b", 4, "ff"))
    assert found.hub == HubRepository("org/name", COMMIT)
    assert (found.prequantized, found.variant) == ("gptq", "fp16")
    assert found.source_dtypes == (DtypeRun(None, 2), DtypeRun("BF16", 3))
    assert found.dtypes(5) == (None, None, "BF16", "BF16", "BF16")
    assert found.dtypes(4) == (None,) * 4


@pytest.mark.parametrize(
    "runs",
    [
        1,
        [1],
        [["BF16"]],
        [["BF16", 0]],
        [["BF16", True]],
        [["NO", 1]],
        [[1, 1]],
        [["BF16", 1.0]],
    ],
)
def test_runs_of_another_shape_are_not_believed(runs):
    assert record_in({"ingot": {"source_dtypes": runs}}).source_dtypes == ()


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("BF16"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_keys = st.sampled_from(
    ["architecture", "components", "encoder", "files", "hub", "kind", "recipe", "source_dtypes"]
)


@given(st.dictionaries(_keys, _json, max_size=6))
def test_any_record_is_read_as_its_types(ours):
    found = record_in({"ingot": ours, "model_family": ours.get("kind")})

    assert all(isinstance(word, str) for word in (found.kind, found.family, *found.components))
    assert len(found.dtypes(7)) == 7


@pytest.mark.parametrize("config", [None, [], {}, {"ingot": 1}, {"ingot": {}}, {"ingot": []}])
def test_a_configuration_without_a_record(config):
    assert record_in(config) == NO_RECORD


def test_a_damaged_configuration_has_no_record(store, tmp_path):
    create(store, model(tmp_path / "s"))
    cut(blob_of(store, ""))

    assert record_of(store).is_empty


def test_a_model_of_another_program_has_no_record(store):
    handmade(store, [])

    assert record_of(store).is_empty


# The source's dtypes.


def runs(store, source, recipe=PLAIN):
    """What is recorded, and what is described: name -> dtype and type."""
    create(store, source, recipe=recipe)
    told = {one.name: (one.dtype, one.quant) for one in describe(store, NAME).tensors}
    return [tuple(run) for run in record_of(store).source_dtypes], told


def test_layers_that_say_their_dtype_need_no_record(store, tmp_path):
    source = model(tmp_path / "s", {"a.weight": ("F32", (64, 64)), "b": ("BF16", (2,))})

    assert runs(store, source)[0] == []
    assert runs(store, source, parse_options("nvfp4", allow_nonfinite=True))[0] == []
    assert "source_dtypes" not in json.loads(blob_of(store, "").read_bytes())["ingot"]


def test_members_of_a_group_are_recorded(store, tmp_path):
    source = model(tmp_path / "s", {"a.weight": ("BF16", (64, 64)), **EXPERTS})

    found, told = runs(store, source, parse_options("mxfp4", allow_nonfinite=True))

    assert found == [(None, 1), ("F64", 1), ("F32", 2)]
    assert told == {name: (dtype, "mxfp4") for name, (dtype, _) in EXPERTS.items()} | {
        "a.weight": ("BF16", "mxfp4")
    }


def test_a_stack_is_one_tensor(store, tmp_path):
    experts = {name: ("F16", shape) for name, (_, shape) in EXPERTS.items()}
    experts |= {name.replace(".w.", ".v."): facts for name, facts in experts.items()}
    source = model(tmp_path / "s", experts)

    found, told = runs(
        store, source, parse_options("mxfp8", stacked=True, allow_nonfinite=True)
    )

    assert found == [("F16", 2)]
    assert told == {f"layers.0.mlp.experts.{name}.weight": ("F16", "mxfp8") for name in "vw"}


def test_what_was_rounded_is_recorded(store, tmp_path):
    source = model(
        tmp_path / "s", {"a": ("F32", (4,)), "b": ("BF16", (2,)), "c": ("F16", (2,))}
    )

    found, told = runs(store, source, parse_options("bf16"))

    assert found == [("F32", 1), (None, 1), ("F16", 1)]
    assert set(told.values()) == {("BF16", None)}
