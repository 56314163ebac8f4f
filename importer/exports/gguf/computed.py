"""Values that a configuration does not say, and that its other values tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from importer.exports.gguf.hparams import Hparams, is_number
from importer.exports.gguf.pooling import MODES
from store.errors import UnsupportedError
from store.json import Json

BLOCKS: Final = ("n_layers", "num_hidden_layers", "n_layer", "num_layers")
"""Under which a configuration counts its blocks."""


def _yarn_multiplier(hparams: Hparams) -> Json:
    found = hparams.rope.get("mscale_all_dim")
    return None if found is None else 0.1 * _number(hparams, "mscale_all_dim", found)


def _of_ministral(hparams: Hparams, name: str) -> Json:
    """Return what Ministral 3's positions have; other models of its class lack it.

    Raises:
        UnsupportedError: the text model inside is Mistral 4's, which has experts.
    """
    if hparams.kind == "mistral4":
        raise UnsupportedError("the text model of Mistral 4 as GGUF", code="E_EXPORT_FORMAT")
    if hparams.kind != "ministral3":
        return None
    if (kind := hparams.rope.get("rope_type")) != "yarn":
        hparams.bad("rope_type", kind, "yarn")
    return _number(hparams, name, hparams.rope.get(name))


def _partial_dims(hparams: Hparams) -> int:
    part = hparams.flat_rope.get("partial_rotary_factor", 1.0)
    share = _number(hparams, "partial_rotary_factor", part)
    return int(share * hparams.count("hidden_size", "n_embd")) // hparams.heads


def stretched(hparams: Hparams) -> float | None:
    """Return by what Phi-3 multiplies attention in a longer context, or None without one.

    Raises:
        InputError: lengths that cannot be.
    """
    if not hparams.rope.get("long_factor"):
        return None
    longest = hparams.count("n_positions", "max_position_embeddings")
    length = hparams.rope.get("original_max_position_embeddings")
    if isinstance(length, bool) or not isinstance(length, int) or length < 2:  # noqa: PLR2004
        hparams.bad("original_max_position_embeddings", length, "a length")
    scale = longest / length
    if scale <= 1:
        return 1.0
    if hparams.rope.get("rope_type") == "yarn":
        return 0.1 * math.log(scale) + 1
    return math.sqrt(1 + math.log(scale) / math.log(length))


def _number(hparams: Hparams, name: str, found: Json) -> float:
    if not is_number(found):
        hparams.bad(name, found, "a number")
    return found


def _rank(hparams: Hparams) -> int:
    return hparams.optional("kv_lora_rank") or 512


def _dense_blocks(hparams: Hparams) -> int:
    found = hparams.optional("first_k_dense_replace")
    if found is not None:
        return found
    return 0 if hparams.find("n_routed_experts") else hparams.count(*BLOCKS)


def _share_of_head(hparams: Hparams, name: str, share: Json) -> int:
    width = hparams.count("hidden_size") // hparams.heads
    return int(_number(hparams, name, share) * width)


def _deepstack(hparams: Hparams) -> int:
    """Return how many blocks of the vision tower go into blocks of text."""
    tower = hparams.values.get("vision_config")
    found = tower.get("deepstack_visual_indexes", _DEEPSTACK) if isinstance(tower, dict) else []
    if not isinstance(found, list):
        hparams.bad("deepstack_visual_indexes", found, "a list")
    return len(found)


def _windows(hparams: Hparams) -> Json:
    """Return which layers look at a window alone: three of four, if nothing else is said."""
    if hparams.values.get("sliding_window") is None:
        return None
    kinds = hparams.values.get("layer_types")
    if isinstance(kinds, list):
        return [kind == "sliding_attention" for kind in kinds]
    blocks = range(1, hparams.count(*BLOCKS) + 1)
    pattern = hparams.values.get("sliding_window_pattern", 4)
    if isinstance(pattern, str) and pattern:
        return [pattern[(block - 1) % len(pattern)] == "L" for block in blocks]
    if isinstance(pattern, bool) or not isinstance(pattern, int) or pattern < 1:
        hparams.bad("sliding_window_pattern", pattern, "a number of layers, or letters")
    return [block % pattern != 0 for block in blocks]


def _half_rotated(hparams: Hparams) -> int:
    share = hparams.flat_rope.get("partial_rotary_factor", 0.5)
    return int(hparams.head_rows * _number(hparams, "partial_rotary_factor", share))


def _half_width(hparams: Hparams) -> int:
    share = hparams.flat_rope.get("partial_rotary_factor", 0.5)
    return _share_of_head(hparams, "partial_rotary_factor", share)


def _adjusted_width(hparams: Hparams) -> int:
    """Return how wide the feed-forward layers of LFM2 are."""
    width = hparams.count("block_ff_dim", "intermediate_size")
    if not hparams.values.get("block_auto_adjust_ff_dim", True):
        return width
    width = 2 * width // 3
    times = hparams.values.get("block_ffn_dim_multiplier")
    if times is not None:
        width = int(_number(hparams, "block_ffn_dim_multiplier", times) * width)
    step = hparams.count("block_multiple_of")
    return step * -(-width // step)


def _nemotron_factor(hparams: Hparams) -> Json:
    return hparams.values.get("factor") or hparams.flat_rope.get("factor")


def _falcon_kv_heads(hparams: Hparams) -> Json:
    found = hparams.values.get("num_kv_heads")
    return hparams.values.get("n_head_kv", 1) if found is None else found


def _ernie_shared(hparams: Hparams) -> Json:
    """Return a width that the converter has of the number of heads; llama.cpp ignores it."""
    width, heads = (
        hparams.optional("intermediate_size"),
        hparams.optional("num_key_value_heads"),
    )
    if not hparams.optional("moe_num_shared_experts") or width is None or not heads:
        return None
    return width // heads


def _classifier_pooling(hparams: Hparams) -> Json:
    found = hparams.values.get("classifier_pooling")
    if found is not None and found not in {"cls", "mean"}:
        hparams.bad("classifier_pooling", found, "cls or mean")
    return None if found is None else MODES[str(found)]


_DEEPSTACK: Final[Json] = [8, 16, 24]
_T5_CONTEXT: Final = 512
COMPUTED: Final[Mapping[str, Callable[[Hparams], Json]]] = MappingProxyType(
    {
        "rotated": lambda hparams: hparams.head_rows,
        "partial": _partial_dims,
        "partial_head": lambda hparams: _share_of_head(
            hparams,
            "partial_rotary_factor",
            hparams.flat_rope.get("partial_rotary_factor", 1.0),
        ),
        "rotary_head": lambda hparams: _share_of_head(
            hparams,
            "rotary_pct",
            hparams.values.get(
                "rotary_pct", hparams.flat_rope.get("partial_rotary_factor", 1.0)
            ),
        ),
        "half_width": _half_width,
        "adjusted_width": _adjusted_width,
        "half_rotated": _half_rotated,
        "windows": _windows,
        "nemotron_factor": _nemotron_factor,
        "nemotron_scaling": lambda hparams: (
            "none" if _nemotron_factor(hparams) is None else "linear"
        ),
        "falcon_kv_heads": _falcon_kv_heads,
        "shared_width": lambda hparams: hparams.values.get("shared_intermediate_size") or None,
        "four_widths": lambda hparams: 4 * hparams.count("hidden_size", "n_embd"),
        "parallel": lambda hparams: hparams.values.get("use_parallel_residual", True),
        "deepstack": _deepstack,
        "ernie_shared": _ernie_shared,
        "classifier_pooling": _classifier_pooling,
        "t5_context": lambda hparams: hparams.values.get("n_positions") or _T5_CONTEXT,
        "decoder_blocks": lambda hparams: (
            hparams.values.get("num_decoder_layers") or hparams.count(*BLOCKS)
        ),
        "stretched": stretched,
        "blocks": lambda hparams: hparams.count(*BLOCKS),
        "kv_heads": lambda hparams: hparams.kv_heads,
        "theta": lambda hparams: hparams.flat_rope.get("rope_theta"),
        "original": lambda hparams: hparams.rope.get("original_max_position_embeddings"),
        "dense_blocks": _dense_blocks,
        "mla_key": lambda hparams: _rank(hparams) + hparams.integer("qk_rope_head_dim"),
        "mla_value": _rank,
        "mla_head": lambda hparams: (
            hparams.integer("qk_nope_head_dim") + hparams.integer("qk_rope_head_dim")
        ),
        "norm_topk": lambda hparams: hparams.values.get("norm_topk_prob") or None,
        "yarn_multiplier": _yarn_multiplier,
        "ministral_multiplier": lambda hparams: _of_ministral(hparams, "mscale_all_dim"),
        "ministral_temperature": lambda hparams: _of_ministral(hparams, "llama_4_scaling_beta"),
        "further": lambda hparams: hparams.values.get("num_nextn_predict_layers") or None,
        "shared_experts": lambda hparams: hparams.values.get("n_shared_experts", 0),
        "phi_window": lambda hparams: hparams.values.get("sliding_window") or 0,
        "window": lambda hparams: (
            None
            if hparams.values.get("sliding_window_pattern") == 1
            else hparams.values.get("sliding_window")
        ),
    }
)
"""What lines of architectures.toml name with `@`."""
