"""What config.json says of models whose blocks are of several kinds, told one by one.

Sources: what conversion/*.py of llama.cpp makes of each config.json, undone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from importer.codecs.base import Shape
from importer.formats.gguf_names.facts import Facts
from store.json import Json

Document = dict[str, Json]
Shapes = Mapping[str, Shape]
MOST_BLOCKS: Final = 1 << 16


def blocks_of(facts: Facts) -> range:
    """Return the numbers of the blocks, of so many as there can be."""
    return range(min(facts.integer("block_count") or 0, MOST_BLOCKS))


def each(facts: Facts, key: str) -> Sequence[object] | None:
    """Return a fact that is told for each block."""
    found = facts.own(key)
    return found if isinstance(found, Sequence) and not isinstance(found, str) else None


def layer_types(document: Document, facts: Facts, attention: str, other: str) -> None:
    """Say which blocks attend: the others have no heads of keys."""
    counts = each(facts, "attention.head_count_kv")
    if counts is not None:
        document["layer_types"] = [attention if count else other for count in counts]
        document["num_key_value_heads"] = facts.integer("attention.head_count_kv")


def windows(document: Document, facts: Facts, _: Shapes) -> None:
    """Say which blocks attend to a window alone."""
    found = each(facts, "attention.sliding_window_pattern")
    if found is not None:
        kinds = ("full_attention", "sliding_attention")
        document["layer_types"] = [kinds[bool(is_local)] for is_local in found]


def gemma3n(document: Document, facts: Facts, tensors: Shapes) -> None:
    """Say which blocks have a window, how wide each is, and how sparse."""
    windows(document, facts, tensors)
    scales = each(facts, "activation_sparsity_scale")
    if scales is not None:
        # The converter wrote how many deviations of a normal distribution lie below.
        document["activation_sparsity_pattern"] = [
            round((1 + math.erf(scale / math.sqrt(2))) / 2, 6) if math.isfinite(scale) else 0.0
            for scale in scales
            if isinstance(scale, (int, float))
        ]
    widths = each(facts, "feed_forward_length")
    if widths is not None:
        document["intermediate_size"] = [width for width in widths if isinstance(width, int)]
    rows = {
        "vocab_size_per_layer_input": "per_layer_token_embd.weight",
        "laurel_rank": "blk.0.laurel_l.weight",
    }
    document |= {key: tensors[name][0] for key, name in rows.items() if tensors.get(name)}


def gemma4(document: Document, facts: Facts, tensors: Shapes) -> None:
    """Say what blocks with a window have, and what the others have instead."""
    windows(document, facts, tensors)
    document["head_dim"] = facts.integer("attention.key_length_swa")
    document["global_head_dim"] = facts.integer("attention.key_length")
    has_window = each(facts, "attention.sliding_window_pattern")
    heads = each(facts, "attention.head_count_kv")
    if has_window is not None and heads is not None:
        pairs = list(zip(has_window, heads, strict=False))
        local = [count for is_local, count in pairs if is_local and isinstance(count, int)]
        others = [count for is_local, count in pairs if not is_local and isinstance(count, int)]
        document["num_key_value_heads"] = local[0] if local else max(others, default=None)
        document["num_global_key_value_heads"] = others[0] if others else None
    own = [n for n in blocks_of(facts) if f"blk.{n}.attn_k.weight" in tensors]
    document["attention_k_eq_v"] = any(f"blk.{n}.attn_v.weight" not in tensors for n in own)
    widths = each(facts, "feed_forward_length")
    if widths is not None:
        whole = [width for width in widths if isinstance(width, int)]
        document["intermediate_size"] = min(whole, default=None)
        document["use_double_wide_mlp"] = len(set(whole)) > 1
    document["enable_moe_block"] = bool(facts.integer("expert_count"))
    rows = tensors.get("per_layer_token_embd.weight")
    if rows:
        document["vocab_size_per_layer_input"] = rows[0]
    # It has a width of its own, if it is not told that there is none.
    document.setdefault("hidden_size_per_layer_input", 0)


def mimo2(document: Document, facts: Facts, tensors: Shapes) -> None:
    """Say which blocks have a window, and which have experts."""
    windows(document, facts, tensors)
    heads = [count for count in each(facts, "attention.head_count_kv") or () if count]
    if heads:
        # Blocks with a window have twice as many.
        document["num_key_value_heads"] = min(n for n in heads if isinstance(n, int))
    # transformers' window is one wider than this number of the published configuration.
    document["sliding_window_size"] = document.get("sliding_window")
    _experts(document, facts, tensors)
    for key in ("layer_types", "mlp_layer_types"):
        kinds, blocks = document.get(key), document.get("num_hidden_layers")
        if isinstance(kinds, list) and isinstance(blocks, int):
            document[key] = kinds[:blocks]  # without those that predict further tokens


def kimi_linear(document: Document, facts: Facts, tensors: Shapes) -> None:
    """Say which blocks have linear attention, and the sizes of their heads."""
    layer_types(document, facts, "full_attention", "linear_attention")
    # The file has one, as all heads share what is cached.
    document["num_key_value_heads"] = document.get("num_attention_heads")
    for number in blocks_of(facts):
        beta = tensors.get(f"blk.{number}.ssm_beta.weight")
        if beta:
            document["linear_num_heads"] = beta[0]
            break
    head, rotated = facts.integer("attention.key_length_mla"), document.get("qk_rope_head_dim")
    if head is not None and isinstance(rotated, int):
        document["qk_nope_head_dim"] = head - rotated
    document["q_lora_rank"] = facts.integer("attention.q_lora_rank")
    _experts(document, facts, tensors)


def _experts(document: Document, facts: Facts, tensors: Shapes) -> None:
    document["mlp_layer_types"] = [
        "sparse" if f"blk.{number}.ffn_gate_inp.weight" in tensors else "dense"
        for number in blocks_of(facts)
    ]
