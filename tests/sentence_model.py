"""Sentence embeddings of a BERT encoder such as MiniLM, in numpy: words, layers, mean.

After Devlin et al. 2019 (https://arxiv.org/abs/1810.04805) and Reimers and Gurevych 2019
(https://arxiv.org/abs/1908.10084); in float64, so that only the weights make a difference.
"""

from __future__ import annotations

import json
import math
import unicodedata
from pathlib import Path

import numpy as np

SENTENCES = [
    "A man is eating food.",
    "The girl is carrying a baby.",
    "Ingots of iron, copper and tin.",
    "Le café est à côté de l'hôtel Zürich.",
    "How do I reset my password?",
    "Forgotten passwords can be changed in the settings.",
    "Quantization maps weights to 4-bit integers (in groups of 32).",
    "antidisestablishmentarianism",
    "E = mc² & 50% of $3.20 @ 10:30",
    "Er sagte: „Straße“ — naïve résumé; 日本 ok?",
]
"""To embed, in several languages and scripts."""
LONGEST = 100
"""Characters of a word; a longer one is unknown."""


class SentenceModel:
    """An encoder and its vocabulary.

    Args:
        directory: with `config.json` and `vocab.txt`.
    """

    def __init__(self, directory: Path):
        self.config = json.loads((directory / "config.json").read_bytes())
        words = (directory / "vocab.txt").read_text("utf-8").splitlines()
        self.vocabulary = {word: number for number, word in enumerate(words)}

    def embed(self, weights, sentences):
        """Give an embedding of length 1 for each sentence, with weights by name."""
        floats = {
            name: array.astype(float)
            for name, array in weights.items()
            if array.dtype.kind == "f"
        }
        means = [self._encode(floats, self.tokens(one)).mean(axis=0) for one in sentences]
        return np.array([mean / np.linalg.norm(mean) for mean in means])

    def tokens(self, sentence):
        """Split a sentence into numbers of word pieces, the longest that are known first."""
        pieces = ["[CLS]"]
        for word in _words(sentence):
            pieces += self._pieces(word)
        return [self.vocabulary[piece] for piece in [*pieces, "[SEP]"]]

    def _pieces(self, word):
        found, start = [], 0
        while start < len(word) <= LONGEST:
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((e for e in ends if mark + word[start:e] in self.vocabulary), None)
            if end is None:
                return ["[UNK]"]
            found.append(mark + word[start:end])
            start = end
        return found or ["[UNK]"]

    def _encode(self, weights, tokens):
        hidden = weights["embeddings.word_embeddings.weight"][tokens]
        hidden = hidden + weights["embeddings.position_embeddings.weight"][: len(tokens)]
        hidden = hidden + weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._norm(weights, "embeddings", hidden)
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"encoder.layer.{layer}"
            mixed = self._attend(weights, f"{prefix}.attention.self", hidden)
            mixed = _dense(weights, f"{prefix}.attention.output", mixed)
            hidden = self._norm(weights, f"{prefix}.attention.output", hidden + mixed)
            inner = _gelu(_dense(weights, f"{prefix}.intermediate", hidden))
            outer = _dense(weights, f"{prefix}.output", inner)
            hidden = self._norm(weights, f"{prefix}.output", hidden + outer)
        return hidden

    def _attend(self, weights, prefix, hidden):
        heads = self.config["num_attention_heads"]
        queries, keys, values = (
            _linear(weights, f"{prefix}.{part}", hidden)
            .reshape(len(hidden), heads, -1)
            .transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = queries @ keys.transpose(0, 2, 1) / math.sqrt(queries.shape[-1])
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return (shares @ values).transpose(1, 0, 2).reshape(hidden.shape)

    def _norm(self, weights, prefix, hidden):
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + self.config["layer_norm_eps"])
        gain, bias = (weights[f"{prefix}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return scaled * gain + bias


def _dense(weights, prefix, hidden):
    return _linear(weights, f"{prefix}.dense", hidden)


def _linear(weights, prefix, hidden):
    return hidden @ weights[f"{prefix}.weight"].T + weights[f"{prefix}.bias"]


_erf = np.vectorize(math.erf)


def _gelu(hidden):
    return hidden * (1 + _erf(hidden / math.sqrt(2))) / 2


def _words(sentence):
    word = ""
    for character in unicodedata.normalize("NFD", sentence.lower()):
        kind = unicodedata.category(character)
        # ASCII's symbols count as punctuation, too, and each ideograph is a word.
        ideograph = unicodedata.name(character, "").startswith("CJK UNIFIED")
        if kind[0] == "P" or (character.isascii() and kind[0] == "S") or ideograph:
            yield from filter(None, [word, character])
            word = ""
        elif character.isspace():
            yield from filter(None, [word])
            word = ""
        elif kind not in {"Mn", "Cc", "Cf"}:
            word += character
    yield from filter(None, [word])
