"""What converters did to the matrices of latent and of linear attention, undone.

Sources: `DeepseekV2Model`, `Qwen3NextModel` and `_LinearAttentionVReorderBase` of llama.cpp's
conversion/deepseek.py and conversion/qwen.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from importer.codecs.views.undone import Change
from importer.codecs.views.woven import Pattern, Strand
from importer.formats.gguf_names.made import Made, Regrouped, Weave, in_turn
from importer.formats.gguf_names.model import Model


def latent_attention(model: Model) -> Iterator[Made]:
    """DeepSeek 2: kv_b_proj has of each head the rows of k, transposed, and those of v."""
    for key in model.keys("attn_k_b"):
        other = key.sibling("attn_v_b")
        k, v = model[key.name].shape, model[other].shape if other in model else ()
        if len(k) != len(v) or len(k) != 3 or (k[0], k[1]) != (v[0], v[2]):  # noqa: PLR2004
            model.facts.bad(f"`{key.name}` {list(k)} and `{other}` {list(v)} do not fit")
        heads, latent, unrotated = k
        name = model.spelling.layer("self_attn.kv_b_proj", key.block)
        yield Made(
            f"{name}.{key.ending}",
            (heads * (unrotated + v[1]), latent),
            (model.take(key.name), model.take(other)),
            Weave(in_turn(unrotated, v[1], times=heads), flipped=0),
        )


def linear_attention(model: Model) -> Iterator[Made]:
    """Qwen3-Next: in_proj_qkvz has q, k, v and z of each key head."""
    facts = model.facts
    for key in model.keys("attn_gate"):
        qkv = key.sibling("attn_qkv")
        if qkv not in model:
            continue
        heads, state = facts.count("ssm.group_count"), facts.count("ssm.state_size")
        values = facts.count("ssm.inner_size")
        if values % heads or model[key.name].width != model[qkv].width:
            facts.bad(f"`{key.name}` {list(model[key.name].shape)} does not fit `{qkv}`")
        each = values // heads
        pieces = model.split(qkv, heads * state, heads * state, values)
        (gate,) = model.split(key.name, values)
        name = model.spelling.layer("linear_attn.in_proj_qkvz", key.block)
        yield Made(
            f"{name}.{key.ending}",
            (2 * heads * state + 2 * values, model[qkv].width),
            (*pieces, gate),
            Weave(in_turn(state, state, each, each, times=heads)),
        )


def value_heads(model: Model) -> Iterator[Made]:
    """Qwen3.5: value heads follow each other by key head, in llama.cpp one of each in turn.

    (`_LinearAttentionVReorderBase` of conversion/qwen.py.)
    """
    facts = model.facts
    keys = model.keys("attn_gate", "attn_qkv", "ssm_alpha", "ssm_beta", "ssm_a", "ssm_dt")
    keys += model.keys("ssm_conv1d", "ssm_out")
    blocks = {key.block for key in keys if key.stem == "blk.N.ssm_out"}
    keys = [key for key in keys if key.block in blocks]  # the others' attention is ordinary
    if not keys:
        return
    groups, heads = facts.count("ssm.group_count"), facts.count("ssm.time_step_rank")
    values, state = facts.count("ssm.inner_size"), facts.count("ssm.state_size")
    if heads % groups or values % heads:
        facts.bad(f"{groups} key heads, {heads} value heads and {values} values do not fit")
    runs, head = heads // groups, values // heads
    for key in keys if runs > 1 else ():
        stored, name = model[key.name], model.spelling.name_of(key)
        assert name is not None
        if key.stem == "blk.N.ssm_out":
            if stored.width != values:
                facts.bad(f"`{key.name}` {list(stored.shape)} does not have {values} columns")
            layout = Regrouped(groups, runs, head)
            yield Made(name, stored.shape, (model.take(key.name),), layout)
            continue
        before = 2 * groups * state if key.stem in {"blk.N.attn_qkv", "blk.N.ssm_conv1d"} else 0
        rows = (stored.rows - before) // heads
        pieces = model.split(key.name, *[before] * bool(before), *[groups * rows] * runs)
        first = len(pieces) - runs
        turns = Pattern(tuple(Strand(first + run, rows) for run in range(runs)), groups)
        start = (Pattern((Strand(0, before),), 1),) if before else ()
        shape = stored.shape
        if key.stem == "blk.N.ssm_conv1d" and key.ending == "weight":
            shape = (shape[0], 1, *shape[1:])
        change = Change.MINUS_EXP if key.stem == "blk.N.ssm_a" else None
        yield Made(name, shape, pieces, Weave((*start, turns)), change)
