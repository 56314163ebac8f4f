"""Architectures that llama.cpp converts: the same files, from a source and from the store."""

from __future__ import annotations

import hashlib
import json

import pytest

from importer.sources.location import StoredModel
from importer.verification.exported import compare_export
from store import ModelName, Store
from tests.importer.builders import REPOSITORY, create
from tests.importer.exports import gguf_encoders as encoders
from tests.importer.exports import gguf_fused as fused
from tests.importer.exports import gguf_recent as recent
from tests.importer.exports.exporting import export

GOLDEN = json.loads((REPOSITORY / "fixtures" / "gguf" / "golden.json").read_bytes())
CHECKPOINTS = {
    "encoders": encoders.checkpoint,
    "fused": fused.checkpoint,
    "recent": recent.checkpoint,
}
MODELS = [
    *(("encoders", name) for name in encoders.MODELS),
    *(("fused", name) for name in fused.MODELS),
    *(("recent", name) for name in recent.MODELS),
]
FILES = [
    *(("encoders", name, kind) for name in encoders.MODELS for kind in encoders.TYPES),
    *(("recent", name, kind) for name in recent.MODELS for kind in recent.TYPES),
    *(
        ("fused", name, kind)
        for name in fused.MODELS
        for kind in (*fused.TYPES, *fused.MIXTURES.get(name, ()))
    ),
]


@pytest.mark.parametrize(("group", "name", "kind"), FILES)
def test_a_file_is_the_one_that_llama_cpp_writes(tmp_path, group, name, kind):
    source = CHECKPOINTS[group](tmp_path / "in", name)

    export(None, tmp_path / "out.gguf", "gguf", source=source, q=kind)

    found = hashlib.sha256((tmp_path / "out.gguf").read_bytes()).hexdigest()
    assert found == GOLDEN[group][name][kind]


@pytest.mark.parametrize(("group", "name"), MODELS)
def test_a_stored_model_gives_the_same_file_and_it_is_found_right(tmp_path, group, name):
    source = CHECKPOINTS[group](tmp_path / "m", name)
    with Store(tmp_path / "store") as store:
        store.fs.is_durable = False
        create(store, source)
        export(None, tmp_path / "a.gguf", "gguf", source=source, q="q8_0")
        export(store, tmp_path / "b.gguf", "gguf", q="q8_0", threads=1)

        found = compare_export(store, StoredModel(ModelName.parse("m")), tmp_path / "b.gguf")

    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    assert found.findings == ()
