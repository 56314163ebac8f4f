"""Where a tensor is in its model: the layer, and the role that it plays there. Names decide."""

from __future__ import annotations

import functools
import re
from enum import StrEnum, unique
from typing import Final

_NUMBERED: Final = re.compile(r"(?:^|.*?[./])[A-Za-z_]\w*[./]\d+(?=[./])")


@unique
class Role(StrEnum):
    """What a tensor does in its model; in the order in which people look at a model."""

    EMBEDDING = "embedding"
    ATTENTION = "attention"
    MLP = "mlp"
    EXPERTS = "experts"
    ROUTER = "router"
    NORM = "norm"
    MIXER = "mixer"
    OUTPUT = "output"
    VISION = "vision"
    AUDIO = "audio"
    OTHER = "other"


_WORDS: Final = tuple(
    (role, re.compile(pattern))
    for role, pattern in (
        (Role.NORM, r"norm|(^|[._])ln_?[0-9f]*([._]|$)|layer_?norm"),
        (Role.ROUTER, r"(^|\.)(gate|router|shared_expert_gate|wg|ffn_gate_inp)(\.|$)|e_score"),
        (Role.EXPERTS, r"experts?(\.|_|$)|switch_mlp|shared_mlp|_exps|_shexp"),
        (Role.ATTENTION, r"attn|attention|[qkvo]_proj|qkv|c_attn|to_(q|k|v|out)"),
        (Role.MIXER, r"mixer|mamba|ssm"),
        (
            Role.MLP,
            r"mlp|ffn|feed_forward|(gate|up|down)_proj|fc_?[12]|intermediate|ff\.|\d\.output\.",
        ),
        (
            Role.EMBEDDING,
            r"embed|(^|\.)wte|(^|\.)wpe|token_embd|position|relative_attention_bias",
        ),
        (Role.OUTPUT, r"lm_head|^output\.|embed_out|score\.|classifier|proj_out|final_layer"),
        (Role.VISION, r"vision|visual|(^|\.)v\."),
        (Role.AUDIO, r"audio|(^|\.)a\."),
    )
)
"""What a tensor does, by its name; the first that matches. Names are conventions, and what none
of them says is `other`."""


@functools.lru_cache(1 << 14)
def role_of(name: str) -> Role:
    """Return the role of a tensor.

    Example:
        >>> role_of("model.layers.0.self_attn.q_norm.weight")
        <Role.NORM: 'norm'>
    """
    lower = name.lower()
    return next((role for role, words in _WORDS if words.search(lower)), Role.OTHER)


def layer_of(name: str) -> str:
    """Return the layer that a tensor belongs to, or "" where it belongs to none.

    Example:
        >>> layer_of("text_encoder/model.layers.11.mlp.experts.3.up_proj.weight")
        'text_encoder/model.layers.11'
    """
    found = _NUMBERED.match(name)
    return found[0] if found else ""
