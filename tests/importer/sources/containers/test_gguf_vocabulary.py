"""Vocabularies of GGUF files of which no tokenizer is written: it is said why."""

from __future__ import annotations

import math

import gguf
import numpy as np
import pytest

from importer.sources.inventory import read_inventory

TOKENS = ["<s>", "a", "b", "ab"]
NUMBERS = {"token_type": [3, 1, 1, 1], "scores": [0.0, -1.0, -2.0, -3.0]}


def write(path, tokens=TOKENS, **more):
    """A GGUF file with a vocabulary of SentencePiece's, by the format's own writer."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    for key, values in (NUMBERS | more).items():
        writer.add_array(f"tokenizer.ggml.{key}", values)
    writer.add_tensor("output_norm.weight", np.zeros(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tokenizer(path):
    """Whether a tokenizer is made, and the notes that speak of it."""
    found = read_inventory(path)
    notes = [note for note in found.notes if "tokenizer.json is not written" in note]
    return any(file.path == "tokenizer.json" for file in found.files), notes


def test_a_vocabulary_becomes_a_tokenizer(tmp_path):
    assert tokenizer(write(tmp_path / "x.gguf")) == (True, [])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        # Pairs were sought for ever: such a score differs from itself.
        ({"scores": [0.0, math.nan, -2.0, -3.0]}, "the score of token 1 is nan"),
        ({"scores": [0.0, -1.0, -2.0, math.inf]}, "the score of token 3 is inf"),
        ({"token_type": [math.nan, 1.0, 1.0, 1.0]}, "kinds or scores are not as many"),
        ({"precompiled_charsmap": [math.inf]}, "its map of characters is not of bytes"),
        ({"tokens": ["<s>", "a", "b", "a" * 5000]}, "token 3 has 5000 characters"),
    ],
)
def test_what_makes_no_tokenizer_is_said(tmp_path, more, why):
    is_made, notes = tokenizer(write(tmp_path / "x.gguf", **more))
    assert not is_made
    assert len(notes) == 1
    assert why in notes[0]
