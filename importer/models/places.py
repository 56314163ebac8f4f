"""Where a tensor is in its model: the layer, and the role that it plays there. Names decide."""

from __future__ import annotations

import functools
import re
from enum import StrEnum, unique
from typing import Final

_SEPARATORS: Final = re.compile(r"[./]")
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
    OUTPUT = "output"
    OTHER = "other"


# The first that matches a component of the name, with what the field's models call it.
_WORDS: Final = (
    (Role.EXPERTS, re.compile(r"experts?|shared_experts?|shared_mlp|switch_mlp|\w+_exps")),
    (Role.NORM, re.compile(r"\w*norm\d*|\w*_norm_\w+|ln_?\w*|layernorm\w*|\w*_ln")),
    (Role.ATTENTION, re.compile(r"\w*attn\w*|\w*attention\w*|[qkv]_proj|qkv\w*|to_[qkv]")),
    (Role.ROUTER, re.compile(r"router|gate|ffn_gate_inp")),
    (
        Role.MLP,
        re.compile(r"\w*mlp\w*|\w*ffn\w*|feed_?forward\w*|ff|fc\d|intermediate|dense\w*"),
    ),
    (Role.OUTPUT, re.compile(r"lm_head|output|score|classifier|embed_out|proj_out")),
    (Role.EMBEDDING, re.compile(r"\w*embed\w*|wte|wpe|token_embd")),
)


@functools.lru_cache(1 << 14)
def role_of(name: str) -> Role:
    """Return the role of a tensor.

    Example:
        >>> role_of("model.layers.0.self_attn.q_norm.weight")
        <Role.NORM: 'norm'>
    """
    parts = _SEPARATORS.split(name.lower())
    for role, words in _WORDS:
        if any(words.fullmatch(part) for part in parts):
            return role
    return Role.OTHER


def layer_of(name: str) -> str:
    """Return the layer that a tensor belongs to, or "" where it belongs to none.

    Example:
        >>> layer_of("text_encoder/model.layers.11.mlp.experts.3.up_proj.weight")
        'text_encoder/model.layers.11'
    """
    found = _NUMBERED.match(name)
    return found[0] if found else ""
