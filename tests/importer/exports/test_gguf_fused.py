"""Architectures whose tensors take another form: what llama.cpp's converter writes."""

from __future__ import annotations

import hashlib
import json

import pytest

from importer.sources.location import StoredModel
from importer.verification.exported import compare_export
from store import ModelName, Store
from store.errors import InputError
from tests.importer.builders import REPOSITORY, create
from tests.importer.exports.exporting import export, planned
from tests.importer.exports.gguf_fused import MIXTURES, MODELS, TYPES, checkpoint
from tests.importer.exports.test_gguf import changed

GOLDEN = json.loads((REPOSITORY / "fixtures" / "gguf" / "golden.json").read_bytes())["fused"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in MODELS for kind in (*TYPES, *MIXTURES.get(name, ()))],
)
def test_a_file_is_the_one_that_llama_cpp_writes(tmp_path, name, kind):
    source = checkpoint(tmp_path / "in", name)

    export(None, tmp_path / "out.gguf", "gguf", source=source, q=kind)

    found = hashlib.sha256((tmp_path / "out.gguf").read_bytes()).hexdigest()
    assert found == GOLDEN[name][kind]


@pytest.mark.parametrize("name", MODELS)
def test_a_stored_model_gives_the_same_file_and_it_is_found_right(tmp_path, name):
    source = checkpoint(tmp_path / "m", name)
    with Store(tmp_path / "store") as store:
        store.fs.is_durable = False
        create(store, source)
        export(None, tmp_path / "a.gguf", "gguf", source=source, q="q8_0")
        export(store, tmp_path / "b.gguf", "gguf", q="q8_0", threads=1)

        found = compare_export(store, StoredModel(ModelName.parse("m")), tmp_path / "b.gguf")

    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    assert found.findings == ()


LIES = [
    ("falcon-groups", {"num_kv_heads": 3}),
    ("falcon-groups", {"num_kv_heads": 0}),
    ("falcon", {"num_attention_heads": 3}),
    ("bloom", {"n_head": 5}),
    ("gptneox", {"num_attention_heads": 7}),
    ("gptneox", {"rotary_pct": "half"}),
    ("lfm2", {"layer_types": "conv"}),
    ("lfm2", {"block_multiple_of": 0}),
    ("lfm2", {"block_ffn_dim_multiplier": "twice"}),
    ("exaone4", {"layer_types": None, "sliding_window_pattern": 0}),
    ("exaone4", {"layer_types": None, "sliding_window_pattern": [1]}),
    ("nemotron", {"partial_rotary_factor": []}),
    ("llama4", {"interleave_moe_layer_step": "x"}),
]


@pytest.mark.parametrize(("name", "lie"), LIES)
def test_a_configuration_that_lies_is_an_error(tmp_path, name, lie):
    source = changed(checkpoint(tmp_path / "in", name), **lie)

    with pytest.raises(InputError):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)
