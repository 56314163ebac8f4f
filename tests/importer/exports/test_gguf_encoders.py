"""Encoders, and scalars and experts that lie otherwise: what llama.cpp's converter writes."""

from __future__ import annotations

import pytest

from importer.exports.gguf.sentencepiece import Normalizer, read_normalizer
from store.errors import InputError, UnsupportedError
from tests.importer.exports.exporting import export, planned
from tests.importer.exports.gguf_checkpoints import EXPERTS, field, pieces
from tests.importer.exports.gguf_encoders import checkpoint
from tests.importer.exports.test_gguf import changed, tensors

LIES = [
    ("roberta", {"pad_token_id": 63}),
    ("roberta", {"pad_token_id": "first"}),
    ("modern-bert", {"classifier_pooling": "last"}),
    ("modern-bert", {"local_attention": -1}),
    ("t5", {"num_decoder_layers": "two"}),
    ("ernie4_5-moe", {"moe_k": -1}),
]


@pytest.mark.parametrize(("name", "lie"), LIES)
def test_a_configuration_that_cannot_be_is_an_error(tmp_path, name, lie):
    source = changed(checkpoint(tmp_path / "in", name), **lie)

    with pytest.raises(InputError) as caught:
        planned(None, tmp_path / "out.gguf", "gguf", source=source)

    assert caught.value.code == "E_GGUF_CONFIG"


@pytest.mark.parametrize("name", ["t5", "ernie4_5-moe", "apertus"])
def test_a_model_without_its_vocabulary_is_refused(tmp_path, name):
    source = checkpoint(tmp_path / "in", name)
    for path in ("spiece.model", "tokenizer.model", "tokenizer.json"):
        (source / path).unlink(missing_ok=True)

    with pytest.raises(UnsupportedError, match="holds the vocabulary"):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)


def test_a_split_has_no_dimensions_of_one_before_others(tmp_path):
    source = checkpoint(tmp_path / "in", "ernie4_5-moe")
    export(None, tmp_path / "one", "gguf", source=source, q="f32")
    export(None, tmp_path / "split", "gguf", source=source, q="f32", shard_size=200_000)

    whole = tensors(tmp_path / "one")
    parts = {}
    for path in (tmp_path / "split").iterdir():
        parts |= tensors(path)

    name = "blk.1.exp_probs_b.bias"
    assert (whole[name][1], parts[name][1]) == ((1, EXPERTS), (EXPERTS,))
    assert {one: [*rest[:1], *rest[2:]] for one, rest in parts.items()} == {
        one: [*rest[:1], *rest[2:]] for one, rest in whole.items()
    }


def test_how_text_is_normalized_is_read():
    told = field(3, field(2, b"table") + b"\x18\x00\x20\x00")

    found = read_normalizer(pieces() + told, "spiece.model")

    assert found == Normalizer(
        merges=True, table=b"table", adds_prefix=False, removes_blanks=False
    )
    assert read_normalizer(b"", "spiece.model") == Normalizer()


def test_pieces_that_are_cut_short_are_named(tmp_path):
    source = checkpoint(tmp_path / "in", "t5")
    data = (source / "spiece.model").read_bytes()
    (source / "spiece.model").write_bytes(data[:-3])

    with pytest.raises(InputError, match=r"spiece\.model"):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)
