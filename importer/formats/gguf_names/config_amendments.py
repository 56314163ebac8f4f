"""What config.json says that is not simply another name for a number of GGUF's metadata.

Sources: what conversion/*.py of llama.cpp makes of each config.json, undone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from importer.formats.gguf_names import config_blocks
from importer.formats.gguf_names.config_blocks import Document, Shapes
from importer.formats.gguf_names.facts import Facts, shortest
from store.json import Json

_PERIODS: Final = {"attn": "attn_q.weight", "expert": "ffn_gate_inp.weight"}
"""Jamba's kinds of blocks, and what only these have."""


def head_dim(facts: Facts) -> int | None:
    """Return the elements of a head, which a file tells if they are not the usual ones."""
    heads, width = facts.integer("attention.head_count"), facts.integer("embedding_length")
    usual = width // heads if heads and width else None
    return facts.integer("attention.key_length") or usual


def _latent(document: Document, facts: Facts, tensors: Shapes) -> None:
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


def _partial(document: Document, facts: Facts, tensors: Shapes) -> None:
    share = _rotated_share(facts)
    if share not in {None, 1.0}:
        document["partial_rotary_factor"] = share
    if facts.architecture == "glm4moe":
        document["use_qk_norm"] = "blk.0.attn_q_norm.weight" in tensors


def _rotated_share(facts: Facts) -> float | None:
    rotated, head = facts.integer("rope.dimension_count"), head_dim(facts)
    return rotated / head if rotated and head else None


def _phi(document: Document, facts: Facts, tensors: Shapes) -> None:
    _partial(document, facts, tensors)
    # Its converter writes four times the width, and as many heads of k as of q, as all have.
    head = head_dim(facts)
    up, key = (tensors.get(f"blk.0.{one}.weight", ()) for one in ("ffn_up", "attn_k"))
    if up:
        document["intermediate_size"] = up[0]
    if key and head:
        document["num_key_value_heads"] = key[0] // head


def _linear(document: Document, facts: Facts, tensors: Shapes) -> None:
    _partial(document, facts, tensors)
    values, heads = facts.integer("ssm.inner_size"), facts.integer("ssm.time_step_rank")
    if values and heads:
        document["linear_value_head_dim"] = values // heads


def _neox(document: Document, facts: Facts, _: Shapes) -> None:
    share = _rotated_share(facts)
    if share is not None:
        document["rotary_pct"] = share


def _falcon(document: Document, facts: Facts, _: Shapes) -> None:
    if "num_kv_heads" not in document:
        document["multi_query"] = facts.integer("attention.head_count_kv") == 1


def _short_convolution(document: Document, facts: Facts, tensors: Shapes) -> None:
    config_blocks.layer_types(document, facts, "full_attention", "conv")
    if facts.architecture == "lfm2moe":
        document["use_expert_bias"] = any(".exp_probs_b" in name for name in tensors)


def _mamba2(document: Document, facts: Facts, _: Shapes) -> None:
    inner, heads = facts.integer("ssm.inner_size"), facts.integer("ssm.time_step_rank")
    if inner and heads and not inner % heads:
        document["head_dim"] = inner // heads
    _expansion(document, facts, "expand")


def _expansion(document: Document, facts: Facts, key: str) -> None:
    inner, width = facts.integer("ssm.inner_size"), facts.integer("embedding_length")
    if inner and width:
        document[key] = inner / width if inner % width else inner // width


def _mamba_heads(document: Document, facts: Facts, tensors: Shapes) -> None:
    inner, heads = facts.integer("ssm.inner_size"), facts.integer("ssm.time_step_rank")
    if inner and heads:
        document["mamba_d_head"] = inner // heads
    _expansion(document, facts, "mamba_expand")
    if facts.architecture == "falcon-h1":
        document["mamba_d_ssm"] = inner
        document["mamba_rms_norm"] = any(".ssm_norm." in name for name in tensors)
        return
    counts = config_blocks.each(facts, "attention.head_count_kv")
    if document["model_type"] == "bamba":
        document["attn_layer_indices"] = [
            number for number, count in enumerate(counts or ()) if count
        ]
        _partial(document, facts, tensors)
        # It takes a half if it is not told.
        document.setdefault("partial_rotary_factor", 1.0)
        return
    config_blocks.layer_types(document, facts, "attention", "mamba")
    for key in ("num_local_experts", "num_experts_per_tok"):
        document.setdefault(key, 0)
    is_rotated = facts.own("rope.scaling.finetuned")
    document["position_embedding_type"] = "rope" if is_rotated else "nope"


def _jamba(document: Document, facts: Facts, tensors: Shapes) -> None:
    _expansion(document, facts, "mamba_expand")
    blocks = config_blocks.blocks_of(facts)
    for kind, tensor in _PERIODS.items():
        some = [n for n in blocks if f"blk.{n}.{tensor}" in tensors]
        if some:
            first, *rest = some
            document[f"{kind}_layer_offset"] = first
            document[f"{kind}_layer_period"] = rest[0] - first if rest else max(len(blocks), 1)


def _nemotron_h(document: Document, facts: Facts, tensors: Shapes) -> None:
    inner, heads = facts.integer("ssm.inner_size"), facts.integer("ssm.time_step_rank")
    if inner and heads:
        document["mamba_head_dim"] = inner // heads
    _expansion(document, facts, "expand")
    letters = {"ssm_in.weight": "M", "attn_q.weight": "*", "ffn_gate_inp.weight": "E"}
    pattern = ""
    for number in config_blocks.blocks_of(facts):
        own = (
            letter for tensor, letter in letters.items() if f"blk.{number}.{tensor}" in tensors
        )
        pattern += next(own, "-")
        up = tensors.get(f"blk.{number}.ffn_up.weight")
        if up:
            document["intermediate_size"] = up[0]
    document["hybrid_override_pattern"] = pattern


def _dbrx(document: Document, facts: Facts, _: Shapes) -> None:
    attention = {
        "kv_n_heads": facts.integer("attention.head_count_kv"),
        "rope_theta": document.get("rope_theta"),
    }
    clip = facts.own("attention.clamp_kqv")
    if isinstance(clip, float):
        attention["clip_qkv"] = shortest(clip)
    document["attn_config"] = attention
    document["ffn_config"] = {
        "hidden_size": document.get("d_model"),
        "ffn_hidden_size": facts.integer("feed_forward_length"),
        "moe_num_experts": facts.integer("expert_count"),
        "moe_top_k": facts.integer("expert_used_count"),
    }


def _mpt(document: Document, facts: Facts, tensors: Shapes) -> None:
    bias = facts.own("attention.max_alibi_bias")
    attention: dict[str, Json] = {"alibi": bool(bias)}
    if isinstance(bias, float) and bias.is_integer() and bias:
        attention["alibi_bias_max"] = int(bias)
    clip = facts.own("attention.clamp_kqv")
    if isinstance(clip, float):
        attention["clip_qkv"] = shortest(clip)
    document["attn_config"] = attention
    inner, width = facts.integer("feed_forward_length"), facts.integer("embedding_length")
    if inner and width:
        document["expansion_ratio"] = inner // width
    document["no_bias"] = "blk.0.attn_qkv.bias" not in tensors


def _minicpm3(document: Document, facts: Facts, tensors: Shapes) -> None:
    _latent(document, facts, tensors)
    nope, heads = document.get("qk_nope_head_dim"), facts.integer("attention.head_count")
    both = tensors.get("blk.0.attn_kv_b.weight")
    if both and heads and isinstance(nope, int):
        document["v_head_dim"] = both[0] // heads - nope


AMENDMENTS: Final[Mapping[str, Callable[[Document, Facts, Shapes], None]]] = MappingProxyType(
    dict.fromkeys(("chatglm", "glm4", "glm4moe", "nemotron", "phi3", "stablelm"), _partial)
    | dict.fromkeys(("deepseek2", "glm-dsa"), _latent)
    | dict.fromkeys(("lfm2", "lfm2moe"), _short_convolution)
    | dict.fromkeys(("exaone-moe", "gemma-embedding", "mellum"), config_blocks.windows)
    | dict.fromkeys(("nemotron_h", "nemotron_h_moe"), _nemotron_h)
    | dict.fromkeys(("qwen3next", "qwen35", "qwen35moe"), _linear)
    | dict.fromkeys(("falcon-h1", "granitehybrid"), _mamba_heads)
    | {
        "dbrx": _dbrx,
        "falcon": _falcon,
        "gemma3n": config_blocks.gemma3n,
        "gemma4": config_blocks.gemma4,
        "gptneox": _neox,
        "jamba": _jamba,
        "kimi-linear": config_blocks.kimi_linear,
        "mamba2": _mamba2,
        "mimo2": config_blocks.mimo2,
        "minicpm3": _minicpm3,
        "mpt": _mpt,
        "phi2": _phi,
    }
)
"""What differs by GGUF's name of the architecture."""
