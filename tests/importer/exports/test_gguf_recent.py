"""Recent models of text, and those that make vectors of texts: what their files say."""

from __future__ import annotations

import json

import pytest

from store.errors import InputError, UnsupportedError
from tests.importer.exports.exporting import export, planned
from tests.importer.exports.gguf_recent import checkpoint
from tests.importer.exports.test_gguf import changed, told


@pytest.mark.parametrize(
    ("name", "key", "number"),
    [
        ("qwen3-sentence", "qwen3.pooling_type", 3),
        ("qwen3-inside", "qwen3.pooling_type", 3),
        ("embedding-gemma", "gemma-embedding.pooling_type", 1),
        ("xlm-roberta", "bert.pooling_type", 2),
    ],
)
def test_how_tokens_become_one_vector_is_a_key(tmp_path, name, key, number):
    source = checkpoint(tmp_path / "in", name)

    export(None, tmp_path / "out.gguf", "gguf", source=source)

    assert told(tmp_path / "out.gguf")[key] == number


def test_layers_behind_the_pooling_are_told_to_be_lost(tmp_path):
    source = checkpoint(tmp_path / "in", "embedding-gemma")

    write = export(None, tmp_path / "out.gguf", "gguf", source=source)

    assert write.lossy == ("1 tensor of layers behind the pooling, as `2_Dense/linear.weight`",)


def test_a_block_that_predicts_a_further_token_is_counted_where_there_is_one(tmp_path):
    source = checkpoint(tmp_path / "in", "glm4-lite")
    export(None, tmp_path / "with.gguf", "gguf", source=source)
    changed(source, num_nextn_predict_layers=0)
    export(None, tmp_path / "without.gguf", "gguf", source=source)

    found, without = told(tmp_path / "with.gguf"), told(tmp_path / "without.gguf")

    assert (found["deepseek2.block_count"], found["deepseek2.nextn_predict_layers"]) == (3, 1)
    assert without["deepseek2.block_count"] == 2
    assert "deepseek2.nextn_predict_layers" not in without


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("ministral3", {"rope_parameters": {"rope_type": "default"}}),
        ("ministral3", {"rope_parameters": {"rope_type": "yarn", "mscale_all_dim": 1.0}}),
        ("lfm2-moe", {"layer_types": "conv"}),
        ("glm4-lite", {"num_nextn_predict_layers": "one"}),
        ("xlm-roberta", {"pad_token_id": 63}),
    ],
)
def test_a_configuration_that_cannot_be_is_an_error(tmp_path, name, lie):
    source = changed(checkpoint(tmp_path / "in", name), **lie)

    with pytest.raises(InputError) as caught:
        planned(None, tmp_path / "out.gguf", "gguf", source=source)

    assert caught.value.code == "E_GGUF_CONFIG"


def test_the_text_of_mistral_4_is_refused(tmp_path):
    source = checkpoint(tmp_path / "in", "mistral3")
    config = json.loads((source / "config.json").read_bytes())
    changed(source, text_config={**config["text_config"], "model_type": "mistral4"})

    with pytest.raises(UnsupportedError, match="Mistral 4"):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)


def test_pieces_of_xlm_roberta_are_asked_for_by_their_name(tmp_path):
    source = checkpoint(tmp_path / "in", "xlm-roberta")
    pieces = source / "sentencepiece.bpe.model"
    pieces.write_bytes(
        pieces.read_bytes().replace(b"\x18\x01\x98\x02\x01", b"\x18\x02\x98\x02\x01")
    )

    with pytest.raises(InputError, match=r"sentencepiece\.bpe\.model.* merges pairs"):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)
    pieces.unlink()
    with pytest.raises(UnsupportedError, match=r"sentencepiece\.bpe\.model"):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)
