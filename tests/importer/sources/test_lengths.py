"""Context length and embedding length, wherever a configuration keeps them."""

import pytest

from importer.sources.lengths import context_length, embedding_length
from store.errors import InputError


@pytest.mark.parametrize("inner", ["text_config", "llm_config", "thinker_config"])
def test_a_nested_configuration_is_read(inner):
    config = {inner: {"max_position_embeddings": 4096, "hidden_size": 64}}

    assert (context_length(config), embedding_length(config)) == (4096, 64)


@pytest.mark.parametrize("key", ["n_ctx", "max_seq_len", "seq_length", "max_target_positions"])
def test_every_key_is_read(key):
    assert context_length({key: 512}) == 512


def test_the_outer_configuration_goes_first():
    config = {"n_positions": 1, "text_config": {"max_position_embeddings": 2}}

    assert context_length(config) == 1
    assert embedding_length({"hidden_size": [1, 2], "text_config": {"dim": 3}}) == 3


@pytest.mark.parametrize("value", [0, -1, "512", 2**31, 1.5, True])
def test_what_cannot_be_a_length_is_refused(value):
    with pytest.raises(InputError, match="`n_ctx` is"):
        context_length({"n_ctx": value})
