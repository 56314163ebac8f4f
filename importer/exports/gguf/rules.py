"""What some architectures' converters do to tensors beyond naming them.

Sources: the `modify_tensors` and `generate_extra_tensors` of llama.cpp's conversion/*.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from importer.exports.gguf.architectures import Architecture
from importer.exports.gguf.fused import (
    granite_experts,
    heads_in_groups,
    heads_in_turn,
    llama4_experts,
    squeezed,
    transposed,
    turned_matrices,
)
from importer.exports.gguf.rope import llama3_factors, long_factors
from importer.exports.gguf.tensors import Member, Model, Tensor, take_plainly
from importer.sources.tensor import SourceTensor
from store.errors import InputError
from store.text import printable

Rule = Callable[[Model], set[str]]
"""Puts tensors of a model, and returns the names of the source's that it took."""
_STACK: Final = 3
_LAYER: Final = re.compile(r"model\.layers\.(\d+)\.(.+)")
_SHARED: Final = tuple(
    f"{one}.weight" for one in ("decoder.embed_tokens", "encoder.embed_tokens", "shared")
)
_EXPERTS: Final = re.compile(
    r"mlp\.experts\.(down_proj|gate_up_proj)(_bias|\.weight|)", re.ASCII
)


def take_tensors(model: Model, architecture: Architecture) -> None:
    """Give every tensor of a model its place.

    Raises:
        InputError: tensors contradict each other or the configuration.
        UnsupportedError: the place of one is not known.
    """
    taken: set[str] = set()
    for rule in RULES.get(architecture.variant, RULES.get(architecture.name, ())):
        taken |= rule(model)
    take_plainly(
        model, architecture.prefix, taken, stacks_in_order=architecture.stacks_in_order
    )


def rope_factors(model: Model) -> set[str]:
    """Llama 3: by how much each pair's rotation is slowed."""
    factors = llama3_factors(model.hparams)
    if factors:
        model.compute("rope_freqs.weight", factors)
    return set()


def long_rope_factors(model: Model) -> set[str]:
    """Phi-3: the same, for long and for short texts."""
    for name, factors in long_factors(model.hparams).items():
        model.compute(f"rope_factors_{name}.weight", factors)
    return set()


def latent_attention(model: Model) -> set[str]:
    """DeepSeek 2: kv_b_proj has of each head the rows of k, transposed, and those of v."""
    hparams = model.hparams
    blocks = hparams.count("num_hidden_layers")
    taken: set[str] = set()
    for position, source in enumerate(model.sources):
        found = _LAYER.fullmatch(source.own_name)
        if found is None:
            continue
        if int(found[1]) >= blocks:
            taken.add(source.name)  # predicts further tokens: llama.cpp has no use for it
        elif found[2] == "self_attn.kv_b_proj.weight":
            taken.add(source.name)
            _split_latent(model, position, source, int(found[1]))
    return taken


def _split_latent(model: Model, position: int, source: SourceTensor, block: int) -> None:
    hparams = model.hparams
    heads = hparams.heads
    k, v = hparams.count("qk_nope_head_dim"), hparams.count("v_head_dim")
    if len(source.shape) != 2 or source.shape[0] != heads * (k + v):  # noqa: PLR2004
        raise InputError(
            f"`{printable(source.name)}` has the shape {list(source.shape)}, expected "
            f"{heads * (k + v)} rows",
            code="E_GGUF_CONFIG",
        )
    latent = source.shape[1]
    whole = Member.of(source)
    before = source.stored_as or source.dtype
    firsts = [head * (k + v) for head in range(heads)]
    keys = tuple(transposed(whole.rows(first, k)) for first in firsts)
    values = tuple(whole.rows(first + k, v) for first in firsts)
    stem = f"blk.{block}.attn"
    model.put(position, Tensor(f"{stem}_k_b.weight", (heads, latent, k), keys, before))
    model.put(position, Tensor(f"{stem}_v_b.weight", (heads, v, latent), values, before))


def gpt_oss_experts(model: Model) -> set[str]:
    """GPT-OSS: gates and ups take turns in gate_up_proj, and matrices are `[in, out]`.

    In MXFP4 they are `[out, in]`, and the converter writes them before all others.
    """
    taken: set[str] = set()
    count = len(model.sources)
    for position, source in enumerate(model.sources):
        found = _LAYER.fullmatch(source.own_name)
        inner = _EXPERTS.fullmatch(found[2]) if found is not None else None
        if found is None or inner is None:
            continue
        taken.add(source.name)
        is_bias, is_packed = inner[2] == "_bias", inner[2] == ".weight"
        shape = source.shape
        before = source.stored_as or source.dtype
        members: tuple[Member, ...] = (Member.of(source),)
        if not is_bias and not is_packed:
            if len(shape) != _STACK:
                _bad_stack(source)
            members = tuple(transposed(one) for one in slices(source))
            shape = (shape[0], shape[2], shape[1])
        position -= count if is_packed else 0  # noqa: PLW2901
        stem = f"blk.{found[1]}.ffn"
        ending = "bias" if is_bias else "weight"
        if inner[1] == "down_proj":
            name = f"{stem}_down_exps.{ending}"
            model.put(position, Tensor(name, shape, members, before))
            continue
        rows = -1 if is_bias else -2
        if shape[rows] % 2:
            _bad_stack(source)
        half = (
            (*shape[:-1], shape[-1] // 2)
            if is_bias
            else (*shape[:-2], shape[-2] // 2, shape[-1])
        )
        for turn, word in enumerate(("gate", "up")):
            mine = tuple(one._replace(turn=turn, by_element=is_bias) for one in members)
            model.put(position, Tensor(f"{stem}_{word}_exps.{ending}", half, mine, before))
    return taken


def joined_experts(model: Model) -> set[str]:
    """Experts in one tensor: gate_up_proj has the gates and then the ups of each."""
    taken: set[str] = set()
    for position, source in enumerate(model.sources):
        found = _LAYER.fullmatch(source.own_name)
        inner = _EXPERTS.fullmatch(found[2]) if found is not None else None
        if found is None or inner is None or inner[2] == "_bias":
            continue
        if len(source.shape) != _STACK or source.shape[1] % 2:
            _bad_stack(source)
        taken.add(source.name)
        before = source.stored_as or source.dtype
        stem = f"blk.{found[1]}.ffn"
        if inner[1] == "down_proj":
            name = f"{stem}_down_exps.weight"
            model.put(position, Tensor(name, source.shape, (Member.of(source),), before))
            continue
        experts, rows, width = source.shape
        whole = Member.of(source)
        for turn, word in enumerate(("gate", "up")):
            first = turn * rows // 2
            halves = tuple(
                whole.rows(expert * rows + first, rows // 2) for expert in range(experts)
            )
            shape = (experts, rows // 2, width)
            model.put(position, Tensor(f"{stem}_{word}_exps.weight", shape, halves, before))
    return taken


def later_positions(model: Model) -> set[str]:
    """RoBERTa: the first positions are those of padding, which is not embedded."""
    first = model.hparams.skipped
    taken: set[str] = set()
    for position, source in enumerate(model.sources):
        if first and source.own_name == "embeddings.position_embeddings.weight":
            taken.add(source.name)
            rows, width = source.shape
            member = Member.of(source).rows(first, rows - first)
            before = source.stored_as or source.dtype
            tensor = Tensor("position_embd.weight", (rows - first, width), (member,), before)
            model.put(position, tensor)
    return taken


def one_embedding(model: Model) -> set[str]:
    """T5: encoder and decoder share embeddings, which may be stored up to three times."""
    found = [
        (position, source)
        for position, source in enumerate(model.sources)
        if source.own_name in _SHARED
    ]
    for position, source in found[:1]:
        before = source.stored_as or source.dtype
        members = (Member.of(source),)
        model.put(position, Tensor("token_embd.weight", source.shape, members, before))
    return {source.name for _, source in found}


def slices(source: SourceTensor) -> tuple[Member, ...]:
    """Return the matrices of a stack."""
    whole = Member.of(source)
    experts, rows, _ = source.shape
    return tuple(whole.rows(expert * rows, rows) for expert in range(experts))


def _bad_stack(source: SourceTensor) -> None:
    raise InputError(
        f"`{printable(source.name)}` has the shape {list(source.shape)}, expected experts with "
        "gates and ups",
        code="E_GGUF_CONFIG",
    )


RULES: Final[Mapping[str, tuple[Rule, ...]]] = MappingProxyType(
    {
        "deepseek2": (latent_attention,),
        "gpt-oss": (gpt_oss_experts,),
        "arcee": (rope_factors,),
        "granite": (rope_factors,),
        "llama": (rope_factors,),
        "olmoe": (joined_experts,),
        "smollm3": (rope_factors,),
        "phi3": (long_rope_factors,),
        "exaone4": (rope_factors,),
        "bert": (later_positions,),
        "bloom": (heads_in_turn,),
        "apertus": (rope_factors,),
        "ernie4_5-moe": (joined_experts,),
        "t5": (one_embedding,),
        "t5encoder": (one_embedding,),
        "falcon": (heads_in_groups,),
        "gpt2": (turned_matrices,),
        "gptneox": (heads_in_turn,),
        "granitemoe": (rope_factors, granite_experts),
        "lfm2": (squeezed,),
        "lfm2moe": (squeezed,),
        "mistral3": (rope_factors,),
        "phimoe": (long_rope_factors,),
        "llama4": (rope_factors, llama4_experts),
        "dots1": (joined_experts,),
        "glm4moe": (joined_experts,),
        "minimax-m2": (joined_experts,),
        "qwen2moe": (joined_experts,),
        "qwen3moe": (joined_experts,),
    }
)
"""By the variant, else by GGUF's name of the architecture."""
