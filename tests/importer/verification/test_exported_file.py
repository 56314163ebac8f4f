"""`verify --export` of a GGUF file: it agrees, and every change in it is found."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from importer.recipes.options import parse_options
from importer.sources.location import StoredModel
from importer.verification.exported import compare_export
from store import ModelName, Store
from store.errors import InputError, UsageError
from tests.importer.builders import create
from tests.importer.exports.exporting import export
from tests.importer.exports.gguf_checkpoints import checkpoint
from tests.importer.exports.test_gguf import matrix
from tests.importer.formats.imatrix.builders import dat, ended, entry

M = ModelName.parse("m")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def findings(store, place, imatrix=None):
    found = compare_export(store, StoredModel(M), place, imatrix=imatrix)
    return [(one.subject, one.message) for one in found.findings]


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "q8_0", "q4_0", "q3_k_m", None])
def test_an_export_agrees_whatever_its_type(store, tmp_path, kind):
    create(store, checkpoint(tmp_path / "in", "llama3"))
    export(store, tmp_path / "out.gguf", "gguf", q=kind)

    assert findings(store, tmp_path / "out.gguf") == []


def test_an_export_with_an_importance_matrix_agrees_with_that_one(store, tmp_path):
    create(store, checkpoint(tmp_path / "in", "llama"))
    weights = matrix(tmp_path / "imatrix.dat", "llama")
    export(store, tmp_path / "out.gguf", "gguf", q="q4_1", imatrix=weights)

    assert findings(store, tmp_path / "out.gguf", weights) == []
    with pytest.raises(UsageError, match="is kept with none"):
        findings(store, tmp_path / "out.gguf")


def test_the_importance_matrix_of_the_model_is_taken(store, tmp_path):
    weights = matrix(tmp_path / "imatrix.dat", "llama")
    asked = parse_options("int8", has_imatrix=True)
    create(store, checkpoint(tmp_path / "in", "llama"), recipe=asked, imatrix=Path(weights))
    export(store, tmp_path / "out.gguf", "gguf", q="q4_1", imatrix=weights)

    assert findings(store, tmp_path / "out.gguf") == []


def test_another_importance_matrix_differs(store, tmp_path):
    create(store, checkpoint(tmp_path / "in", "llama"))
    weights = matrix(tmp_path / "imatrix.dat", "llama")
    export(store, tmp_path / "out.gguf", "gguf", q="q4_1", imatrix=weights)
    export(store, tmp_path / "plain.gguf", "gguf", q="q4_1")
    others = entry("blk.0.ffn_up.weight", 2, [float(n % 5 + 1) for n in range(64)])
    (tmp_path / "other.dat").write_bytes(dat(others, end=ended()))

    found = findings(store, tmp_path / "out.gguf", str(tmp_path / "other.dat"))
    plain = findings(store, tmp_path / "plain.gguf", weights)

    assert "blk.1.ffn_gate.weight" in dict(found)
    assert ("quantize.imatrix.entries_count", "is not in the export") in plain


def test_an_export_under_another_name_agrees(store, tmp_path):
    source = checkpoint(tmp_path / "another", "mixtral")
    create(store, source)
    export(None, tmp_path / "out.gguf", "gguf", source=source, q="f16")

    assert findings(store, tmp_path / "out.gguf") == []


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        (b"llama.context_length", "llama.context_length"),
        (b"tokenizer.ggml.merges", "tokenizer.ggml.merges"),
    ],
)
def test_a_key_that_was_changed_is_named(store, tmp_path, text, subject):
    create(store, checkpoint(tmp_path / "in", "llama3"))
    path = tmp_path / "out.gguf"
    export(store, path, "gguf", q="f16")
    data = bytearray(path.read_bytes())
    at = data.index(text) + len(text)
    at += 4 if subject == "llama.context_length" else 4 + 4 + 8 + 8
    data[at] ^= 1
    path.write_bytes(data)

    assert [one for one, _ in findings(store, path)] == [subject]


@pytest.mark.parametrize("kind", ["f16", "q4_0"])
def test_a_bit_of_any_tensor_is_found(store, tmp_path, kind):
    create(store, checkpoint(tmp_path / "in", "llama3"))
    path = tmp_path / "out.gguf"
    export(store, path, "gguf", q=kind)
    whole = path.read_bytes()
    for name in (b"rope_freqs.weight", b"blk.1.attn_q.weight", b"output_norm.weight"):
        at = whole.index(name) + len(name)
        (rank,) = struct.unpack_from("<I", whole, at)
        (offset,) = struct.unpack_from("<Q", whole, at + 4 + 8 * rank + 4)
        data = bytearray(whole)
        data[_start(whole) + offset] ^= 1
        path.write_bytes(data)

        assert [one for one, _ in findings(store, path)] == [name.decode()]


def _start(data):
    """Where the data of tensors begins: the file names them one after the other."""
    from importer.formats.gguf.header import read_header

    return min(
        one.offset for one in read_header("it", len(data), lambda a, b: data[a:b]).tensors
    )


def test_a_file_that_is_cut_off_is_malformed(store, tmp_path):
    create(store, checkpoint(tmp_path / "in", "llama3"))
    path = tmp_path / "out.gguf"
    export(store, path, "gguf", q="f16")
    path.write_bytes(path.read_bytes()[:-64])

    with pytest.raises(InputError):
        findings(store, path)


@pytest.mark.parametrize("asked", [None, "q4_0"])
def test_a_file_that_is_stored_whole_agrees_with_what_came_out(store, tmp_path, asked):
    source = checkpoint(tmp_path / "in", "llama")
    export(None, tmp_path / "in.gguf", "gguf", source=source, q="bf16")
    create(store, tmp_path / "in.gguf")
    path = tmp_path / "out.gguf"
    export(store, path, "gguf", q=asked)

    assert findings(store, path) == []

    data = bytearray(path.read_bytes())
    data[_start(data)] ^= 1
    path.write_bytes(data)

    assert len(findings(store, path)) == 1
