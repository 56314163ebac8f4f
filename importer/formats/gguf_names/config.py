"""Write config.json and generation_config.json of a GGUF file's metadata."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Collection, Mapping
from importlib import resources
from typing import Any, Final, NamedTuple

from importer.codecs.base import Shape
from importer.formats.gguf_names.config_amendments import AMENDMENTS, head_dim
from importer.formats.gguf_names.facts import Facts, shortest
from importer.formats.gguf_names.rope import rope_of
from store.json import Json

_TABLE: Final = "configs.toml"
_TOKENIZER: Final = "tokenizer.ggml."
_TOKENS: Final = {"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id"}
_DTYPES: Final = {0: "float32", 1: "float16", 32: "bfloat16"}
"""Of `general.file_type`; blocks have none."""


class Config(NamedTuple):
    """What config.json says.

    Attributes:
        document: its content.
        generation: of generation_config.json; empty where there is nothing to say.
        notes: what it may say wrongly, a sentence each.
    """

    document: dict[str, Json]
    generation: dict[str, Json]
    notes: tuple[str, ...]


def config_of(
    facts: Facts, variant: str, tensors: Mapping[str, Shape], factors: Mapping[str, bytes]
) -> Config | None:
    """Return the configuration of a model, or None where its kind is not known.

    Args:
        facts: the metadata of the file.
        variant: the spelling of its tensors' names.
        tensors: the shape of each, by GGUF's name.
        factors: the F32 values of `rope_freqs.weight` and `rope_factors_*.weight`.
    """
    table = _table(_kind(facts, variant, tensors))
    if table is None:
        return None
    document: dict[str, Json] = {
        "architectures": [table["architecture"]],
        "model_type": table["model_type"],
    }
    for key, fact in table["keys"].items():
        value = _value(facts, fact)
        if value is not None:
            document[key] = value
    document |= table["fixed"]
    stems = {name.partition(".")[2].partition(".")[2] for name in tensors}
    for key, tensor in table["biases"].items():
        document[key] = tensor in stems
    _amend(document, facts, tensors, table["keys"])
    rope, notes = rope_of(facts, document.get("rope_theta"), factors)
    document |= rope
    if "rope_parameters" in rope:
        document.pop("rope_theta", None)
        document.pop("rope_local_base_freq", None)
    ids = _token_ids(facts)
    document |= ids
    document["tie_word_embeddings"] = "output.weight" not in tensors
    dtype = _DTYPES.get(_integer(facts.values.get("general.file_type")))
    if dtype is not None:
        document["torch_dtype"] = dtype
    generation: dict[str, Json] = {key: id_ for key, id_ in ids.items() if id_ is not None}
    notes += (table["note"],) if "note" in table else ()
    return Config(document, generation, notes)


def _kind(facts: Facts, variant: str, tensors: Mapping[str, Shape]) -> str:
    """Return the kind of model: of one spelling there may be several."""
    match facts.architecture:
        case "deepseek2" if any(name.endswith("exp_probs_b.bias") for name in tensors):
            return "deepseek2+v3"
        case "mamba" if facts.own("ssm.dt_b_c_rms"):
            return "mamba+falcon"
    return variant


def _amend(
    document: dict[str, Json],
    facts: Facts,
    tensors: Mapping[str, Shape],
    keys: Collection[str],
) -> None:
    """Put right what is not simply another name for a number."""
    vocabulary = tensors.get("token_embd.weight", ())
    if vocabulary:
        document["vocab_size"] = vocabulary[0]
    blocks, more = document.get("num_hidden_layers"), facts.integer("nextn_predict_layers")
    if isinstance(blocks, int) and more and more < blocks:
        document["num_hidden_layers"] = blocks - more
    if document.get("sliding_window") == 0:
        document["sliding_window"] = None
    head = head_dim(facts)
    if head is not None and "head_dim" in keys:
        document.setdefault("head_dim", head)
    amend = AMENDMENTS.get(facts.architecture)
    if amend is not None:
        amend(document, facts, tensors)


def _token_ids(facts: Facts) -> dict[str, Json]:
    found = {
        key: facts.values.get(f"{_TOKENIZER}{kind}_token_id") for kind, key in _TOKENS.items()
    }
    ids: dict[str, Json] = {
        key: value for key, value in found.items() if isinstance(value, int)
    }
    # Defaults of transformers may lie beyond the vocabulary.
    return ids if "pad_token_id" in ids else {**ids, "pad_token_id": None}


def _value(facts: Facts, key: str) -> Json:
    found = facts.own(key)
    if isinstance(found, float):
        return shortest(found)
    if isinstance(found, (list, tuple)):
        numbers = {number for number in found if isinstance(number, int) and number}
        return numbers.pop() if len(numbers) == 1 else None
    return found if isinstance(found, (int, str)) else None


def _integer(value: object) -> int:
    return value if isinstance(value, int) else -1


@functools.cache
def _table(variant: str) -> Mapping[str, Any] | None:
    tables = _tables()
    if variant not in tables:
        return None
    mine = tables[variant]
    parts: dict[str, dict[str, Any]] = {"keys": {}, "fixed": {}, "biases": {}}
    table: Mapping[str, Any] | None = mine
    while table is not None:
        for part, found in parts.items():
            parts[part] = {**table.get(part, {}), **found}
        table = tables[table["base"]] if "base" in table else None
    return {**mine, **parts}


@functools.cache
def _tables() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath(_TABLE).read_text(encoding="utf-8")
    return tomllib.loads(text)
