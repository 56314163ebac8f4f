"""Write config.json and generation_config.json of a GGUF file's metadata."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from importer.codecs.base import Shape
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
    for key, tensor in table["biases"].items():
        document[key] = f"blk.0.{tensor}" in tensors
    _amend(document, facts, tensors, table["keys"])
    rope, notes = rope_of(facts, document.get("rope_theta"), factors)
    document |= rope
    ids = _token_ids(facts)
    document |= ids
    document["tie_word_embeddings"] = "output.weight" not in tensors
    dtype = _DTYPES.get(_integer(facts.values.get("general.file_type")))
    if dtype is not None:
        document["torch_dtype"] = dtype
    generation: dict[str, Json] = {key: id_ for key, id_ in ids.items() if id_ is not None}
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
    head = _head(facts)
    if head is not None and "head_dim" in keys:
        document.setdefault("head_dim", head)
    amend = _AMENDMENTS.get(facts.architecture)
    if amend is not None:
        amend(document, facts, tensors)


def _latent(document: dict[str, Json], facts: Facts, tensors: Mapping[str, Shape]) -> None:
    head, rotated = facts.integer("attention.key_length_mla"), document.get("qk_rope_head_dim")
    if head is None:
        head = facts.integer("attention.key_length")
        document["v_head_dim"] = facts.integer("attention.value_length")
    if head is not None and isinstance(rotated, int):
        document["qk_nope_head_dim"] = head - rotated
    has_latent = any(name.endswith("attn_q_a.weight") for name in tensors)
    document["q_lora_rank"] = facts.integer("attention.q_lora_rank") if has_latent else None
    if facts.integer("expert_group_count") and document["model_type"] == "deepseek_v2":
        document["topk_method"] = "group_limited_greedy"


def _partial(document: dict[str, Json], facts: Facts, tensors: Mapping[str, Shape]) -> None:
    share = _rotated_share(facts)
    if share not in {None, 1.0}:
        document["partial_rotary_factor"] = share
    if facts.architecture == "glm4moe":
        document["use_qk_norm"] = "blk.0.attn_q_norm.weight" in tensors


def _rotated_share(facts: Facts) -> float | None:
    rotated, head = facts.integer("rope.dimension_count"), _head(facts)
    return rotated / head if rotated and head else None


def _head(facts: Facts) -> int | None:
    """Return the elements of a head, which a file tells if they are not the usual ones."""
    heads, width = facts.integer("attention.head_count"), facts.integer("embedding_length")
    usual = width // heads if heads and width else None
    return facts.integer("attention.key_length") or usual


def _phi(document: dict[str, Json], facts: Facts, tensors: Mapping[str, Shape]) -> None:
    _partial(document, facts, tensors)
    # Its converter writes four times the width, and as many heads of k as of q, as all have.
    head = _head(facts)
    up, key = (tensors.get(f"blk.0.{one}.weight", ()) for one in ("ffn_up", "attn_k"))
    if up:
        document["intermediate_size"] = up[0]
    if key and head:
        document["num_key_value_heads"] = key[0] // head


def _linear(document: dict[str, Json], facts: Facts, tensors: Mapping[str, Shape]) -> None:
    _partial(document, facts, tensors)
    values, heads = facts.integer("ssm.inner_size"), facts.integer("ssm.time_step_rank")
    if values and heads:
        document["linear_value_head_dim"] = values // heads


def _neox(document: dict[str, Json], facts: Facts, _: Mapping[str, Shape]) -> None:
    share = _rotated_share(facts)
    if share is not None:
        document["rotary_pct"] = share


def _falcon(document: dict[str, Json], facts: Facts, _: Mapping[str, Shape]) -> None:
    if "num_kv_heads" not in document:
        document["multi_query"] = facts.integer("attention.head_count_kv") == 1


def _hybrid(document: dict[str, Json], facts: Facts, _: Mapping[str, Shape]) -> None:
    counts = facts.own("attention.head_count_kv")
    if isinstance(counts, Sequence) and not isinstance(counts, str):
        document["layer_types"] = ["full_attention" if count else "conv" for count in counts]
        document["num_key_value_heads"] = facts.integer("attention.head_count_kv")


def _mamba2(document: dict[str, Json], facts: Facts, _: Mapping[str, Shape]) -> None:
    inner, heads = facts.integer("ssm.inner_size"), facts.integer("ssm.time_step_rank")
    width = facts.integer("embedding_length")
    if inner and heads and width and not inner % heads:
        document["head_dim"] = inner // heads
        document["expand"] = inner / width if inner % width else inner // width


_AMENDMENTS: Final[Mapping[str, Callable[..., None]]] = MappingProxyType(
    dict.fromkeys(
        ("chatglm", "glm4", "glm4moe", "nemotron", "phi2", "phi3", "stablelm"), _partial
    )
    | dict.fromkeys(("qwen3next",), _partial)
    | {
        "deepseek2": _latent,
        "falcon": _falcon,
        "gptneox": _neox,
        "lfm2": _hybrid,
        "mamba2": _mamba2,
        "phi2": _phi,
        "qwen3next": _linear,
    }
)
"""What differs by GGUF's name of the architecture."""


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
