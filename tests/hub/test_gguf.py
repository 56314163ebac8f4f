"""GGUF on the Hub: one of many files is fetched, and of a dry run its header alone."""

from __future__ import annotations

import pytest

from importer.pipeline import plan_import
from importer.request import ImportRequest
from importer.sources.location import HubRepository, parse_source
from store import ModelName
from store.errors import UsageError
from tests.importer.builders import write
from tests.importer.formats.gguf.builders import gguf

KEYS = [
    ("general.architecture", "string", "llama"),
    ("tokenizer.ggml.tokens", ("array", "string"), ["token"] * 40_000),
]
MODEL = gguf([("token_embd.weight", "F32", (1024, 512))], KEYS)
FILES = {"x-Q4_K_M.gguf": MODEL, "x-Q8_0.gguf": MODEL + bytes(1 << 20), "config.json": b"{}"}


def request(text):
    return ImportRequest(ModelName.parse("model"), parse_source(text))


@pytest.mark.parametrize("text", ["hf.co/org/model:Q4_K_M", "hf:org/model:q4_k_m"])
def test_a_dry_run_fetches_the_header_of_one_file(hub, in_process, text):
    hub.add("org/model", FILES)

    plan = plan_import(request(text), in_process.store, only_headers=True)

    assert [file.name for file in plan.files] == ["x-Q4_K_M.gguf", "config.json"]
    sent = {path: 0 for path, _, _ in hub.bodies()}
    for path, _, nbytes in hub.bodies():
        sent[path] += nbytes
    assert sum(nbytes for path, nbytes in sent.items() if "Q4_K_M" in path) < 1_000_000
    assert not any("Q8_0" in path for path in sent)


@pytest.mark.parametrize("text", ["hf:o/m:Q4_0@v1.0", "hf:o/m@v1.0:Q4_0"])
def test_a_revision_may_be_before_the_variant_or_behind_it(text):
    assert parse_source(text) == HubRepository("o/m", "v1.0", "Q4_0")


def test_several_are_listed_with_their_sizes(hub, in_process):
    hub.add("org/model", FILES)

    with pytest.raises(UsageError, match=r"`Q4_K_M` \(2.6 MB\), `Q8_0` \(3.7 MB\)"):
        plan_import(request("hf:org/model"), in_process.store, only_headers=True)


def test_two_variants_are_one_too_many(in_process):
    asked = ImportRequest(
        ModelName.parse("model"), HubRepository("org/model", variant="Q8_0"), variant="Q4_0"
    )

    with pytest.raises(UsageError, match="two variants"):
        plan_import(asked, in_process.store)


def test_the_model_is_that_of_a_local_clone(hub, in_process, tmp_path):
    hub.add("org/model", FILES)
    clone = write(tmp_path / "clone", FILES)

    here, _ = in_process.create(clone, variant="Q8_0")
    there, _ = in_process.create(HubRepository("org/model", variant="Q8_0"))

    assert there == here
