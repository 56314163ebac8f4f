"""What some architectures' converters did to tensors beyond naming them, undone.

Each rule takes tensors of a model and yields what they were. Sources: the `modify_tensors` of
llama.cpp's conversion/*.py, one class for each architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from importer.codecs.views.woven import Pattern, Strand
from importer.formats.gguf_names.attention_rules import (
    latent_attention,
    linear_attention,
    value_heads,
)
from importer.formats.gguf_names.made import Made, Weave, in_turn
from importer.formats.gguf_names.model import Model
from importer.formats.gguf_names.spelling import Key

_MXFP4: Final = "MXFP4"

Rule = Callable[[Model], Iterator[Made]]


def fused_heads(model: Model) -> Iterator[Made]:
    """Falcon, BLOOM, GPT-NeoX: query_key_value has q, k and v of each group of heads."""
    for key in model.keys("attn_qkv"):
        name, stored = model.spelling.name_of(key), model[key.name]
        assert name is not None
        heads, groups = model.heads("attn_q", key), model.heads("attn_k", key)
        head, rest = divmod(stored.rows, heads + 2 * groups)
        if rest or heads % groups:
            model.facts.bad(
                f"`{key.name}` has {stored.rows} rows, expected {heads} heads and 2 x {groups}"
            )
        pieces = model.split(key.name, heads * head, groups * head, groups * head)
        patterns = in_turn(heads // groups * head, head, head, times=groups)
        yield Made(name, stored.shape, pieces, Weave(patterns))


def transposed_linears(model: Model) -> Iterator[Made]:
    """GPT-2, Jais: matrices are `[in, out]`."""
    for key in model.keys("attn_qkv", "attn_output", "ffn_up", "ffn_gate", "ffn_down"):
        if key.ending == "weight":
            yield _transposed(model, key, model.spelling.name_of(key) or key.name)


def pack_of_three(model: Model) -> Iterator[Made]:
    """Baichuan: W_pack is q, k and v, of which q and k are turned."""
    yield from _packed(model, "self_attn.W_pack")


def bailing_pack(model: Model) -> Iterator[Made]:
    """BailingMoe: query_key_value is q, k and v, of which q and k are turned."""
    yield from _packed(model, "attention.query_key_value")


def _packed(model: Model, rest: str) -> Iterator[Made]:
    for key, sizes, width in _separate(model):
        head = model.head_rows("attn_q", key, sizes[0])
        patterns = tuple(
            Pattern((Strand(array, head),), rows // head) for array, rows in enumerate(sizes)
        )
        name = model.spelling.layer(rest, key.block)
        yield Made(
            f"{name}.{key.ending}",
            (sum(sizes), width) if width > 1 else (sum(sizes),),
            tuple(model.take(key.sibling(stem)) for stem in ("attn_q", "attn_k", "attn_v")),
            Weave(patterns, turned=(head, head, 0)),
        )


def groups_of_heads(model: Model) -> Iterator[Made]:
    """InternLM2: wqkv has q, k and v of each group of heads, of which q and k are turned."""
    for key, sizes, width in _separate(model):
        head = model.head_rows("attn_q", key, sizes[0])
        groups = model.heads("attn_k", key)
        patterns = in_turn(*(rows // groups for rows in sizes), times=groups)
        name = model.spelling.layer("attention.wqkv", key.block)
        yield Made(
            f"{name}.{key.ending}",
            (sum(sizes), width) if width > 1 else (sum(sizes),),
            tuple(model.take(key.sibling(stem)) for stem in ("attn_q", "attn_k", "attn_v")),
            Weave(patterns, turned=(head, head, 0)),
        )


def _separate(model: Model) -> Iterator[tuple[Key, tuple[int, int, int], int]]:
    """Yield the key of each q with k and v beside it, their rows, and elements of a row."""
    for key in model.keys("attn_q"):
        names = [key.sibling(stem) for stem in ("attn_q", "attn_k", "attn_v")]
        if not all(name in model for name in names):
            continue
        q, k, v = (model[name] for name in names)
        heads, groups = model.heads("attn_q", key), model.heads("attn_k", key)
        head = model.head_rows("attn_q", key, q.rows)
        if not k.rows == v.rows == groups * head or not q.width == k.width == v.width:
            model.facts.bad(
                f"`{key.name}` {list(q.shape)}, `{names[1]}` {list(k.shape)} and `{names[2]}` "
                f"{list(v.shape)} are not {heads} and {groups} heads"
            )
        yield key, (q.rows, k.rows, v.rows), q.width


def joined_gates(model: Model) -> Iterator[Made]:
    """Granite's mixtures: input_linear has the gates and then the ups of each expert."""
    forms = [
        ("ffn_gate_exps", "ffn_up_exps", "block_sparse_moe.input_linear"),
        ("ffn_gate_shexp", "ffn_up_shexp", "shared_mlp.input_linear"),
        ("ffn_gate", "ffn_up", "shared_mlp.input_linear"),
    ]
    for gate, up, rest in forms:
        for key in model.keys(gate):
            shape = _pair(model, key, up)
            *outer, rows, width = shape
            experts = outer[0] if outer else 1
            name = model.spelling.layer(rest, key.block)
            yield Made(
                f"{name}.{key.ending}",
                (*outer, 2 * rows, width),
                (model.take(key.name), model.take(key.sibling(up))),
                Weave(in_turn(rows, rows, times=experts)),
            )


def joined_pairs(model: Model) -> Iterator[Made]:
    """Refact: kv is k and then v, gate_up_proj the gates and then the ups."""
    forms = (("attn_k", "attn_v", "attn.kv"), ("ffn_gate", "ffn_up", "mlp.gate_up_proj"))
    for first, second, rest in forms:
        for key in model.keys(first):
            rows, width = _pair(model, key, second)
            name = model.spelling.layer(rest, key.block)
            pieces = (model.take(key.name), model.take(key.sibling(second)))
            turns = Weave(in_turn(rows, rows, times=1))
            yield Made(f"{name}.{key.ending}", (2 * rows, width), pieces, turns)


def gpt_oss_experts(model: Model) -> Iterator[Made]:
    """GPT-OSS: gate_up_proj has gates and ups in turn, and matrices are `[in, out]`.

    In MXFP4 they are `[out, in]`, as in the checkpoints that have them so, whose blocks and
    scales are joined to `gate_up_proj.weight` and `down_proj.weight`.
    """
    for key in model.keys("ffn_gate_exps"):
        shape = _pair(model, key, "ffn_up_exps")
        pieces = (model.take(key.name), model.take(key.sibling("ffn_up_exps")))
        name = model.spelling.layer("mlp.experts.gate_up_proj", key.block)
        if key.ending == "bias":
            experts, rows = shape[0], shape[-1]
            turns = Weave(in_turn(1, 1, times=experts * rows), is_by_element=True)
            yield Made(f"{name}_bias", (experts, 2 * rows), pieces, turns)
            continue
        experts, rows, width = shape
        if all(model[piece.tensor].kind == _MXFP4 for piece in pieces):
            turns = Weave(in_turn(1, 1, times=experts * rows))
            yield Made(f"{name}.weight", (experts, 2 * rows, width), pieces, turns)
        else:
            turns = Weave(in_turn(1, 1, times=rows), is_transposed=True)
            yield Made(name, (experts, width, 2 * rows), pieces, turns)
    for key in model.keys("ffn_down_exps"):
        name = model.spelling.layer("mlp.experts.down_proj", key.block)
        if key.ending != "weight":
            continue
        stored = model[key.name]
        if stored.kind == _MXFP4:
            yield Made(f"{name}.weight", stored.shape, (model.take(key.name),))
        else:
            yield _transposed(model, key, name)


def llama4_experts(model: Model) -> Iterator[Made]:
    """Llama 4: gate_up_proj has all gates and then all ups, and matrices are `[in, out]`."""
    for key in model.keys("ffn_gate_exps"):
        experts, rows, width = _pair(model, key, "ffn_up_exps")
        name = model.spelling.layer("feed_forward.experts.gate_up_proj", key.block)
        yield Made(
            name,
            (experts, width, 2 * rows),
            (model.take(key.name), model.take(key.sibling("ffn_up_exps"))),
            Weave(in_turn(rows, rows, times=1), is_transposed=True),
        )
    for key in model.keys("ffn_down_exps"):
        name = model.spelling.layer("feed_forward.experts.down_proj", key.block)
        yield _transposed(model, key, name)


def flat_experts(model: Model) -> Iterator[Made]:
    """DBRX: the experts' matrices follow each other in one; those of w2 are transposed."""
    for key in model.keys("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"):
        last = {"gate": "w1", "up": "v1", "down": "w2"}[key.stem.split("_")[1]]
        name = model.spelling.layer(f"ffn.experts.mlp.{last}", key.block)
        made = Made(name, model[key.name].shape, (model.take(key.name),))
        if last == "w2":
            made = _transposed(model, key, name)
        experts, rows, width = made.shape
        yield made._replace(shape=(experts * rows, width))


def _pair(model: Model, key: Key, stem: str) -> tuple[int, ...]:
    """Return the shape of a tensor, which another one of its block must have, too."""
    other, shape = key.sibling(stem), model[key.name].shape
    found = model[other].shape if other in model else None
    if found != shape or len(shape) < 2:  # noqa: PLR2004 - a matrix
        shown = "is missing" if found is None else f"is {list(found)}"
        model.facts.bad(f"`{key.name}` is {list(shape)}, and `{other}` {shown}")
    return shape


def _transposed(model: Model, key: Key, name: str) -> Made:
    stored = model[key.name]
    if len(stored.shape) < 2:  # noqa: PLR2004 - a matrix
        model.facts.bad(f"`{key.name}` {list(stored.shape)} is not a matrix")
    *outer, rows, width = stored.shape
    turns = Weave(in_turn(rows, times=1), is_transposed=True)
    return Made(name, (*outer, width, rows), (model.take(key.name),), turns)


RULES: Final[Mapping[str, tuple[Rule, ...]]] = MappingProxyType(
    {
        "baichuan": (pack_of_three,),
        "bailingmoe": (bailing_pack,),
        "bloom": (fused_heads,),
        "dbrx": (flat_experts,),
        "deepseek2": (latent_attention,),
        "deepseek2-ocr": (latent_attention,),
        "falcon": (fused_heads,),
        "glm-dsa": (latent_attention,),
        "gpt-oss": (gpt_oss_experts,),
        "gpt2": (transposed_linears,),
        "gptneox": (fused_heads,),
        "granitehybrid": (joined_gates,),
        "granitehybrid+bamba": (),
        "granitemoe": (joined_gates,),
        "internlm2": (groups_of_heads,),
        "jais": (transposed_linears,),
        "kimi-linear": (latent_attention,),
        "llama4": (llama4_experts,),
        "mistral4": (latent_attention,),
        "qwen35": (value_heads,),
        "qwen35moe": (value_heads,),
        "qwen3next": (linear_attention,),
        "refact": (joined_pairs,),
    }
)
"""By the variant, else by GGUF's name of the architecture."""
