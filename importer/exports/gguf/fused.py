"""Tensors that join several: queries, keys and values in groups of heads, gates and ups.

Sources: the `modify_tensors` of llama.cpp's conversion/falcon.py, gptneox.py, bloom.py,
gpt2.py, granite.py, lfm2.py and llama.py (`Llama4Model`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn

from importer.codecs.views.excerpt import Excerpt
from importer.codecs.views.transposed import Transposed
from importer.codecs.views.woven import Pattern, Strand, Woven
from importer.exports.gguf.tensors import Member, Model, Tensor
from importer.sources.tensor import SourceTensor
from store.errors import InputError
from store.text import printable

_JOINED: Final = re.compile(
    r"(?:.*\.)?(?:h|layers)\.(\d+)\.(?:self_)?attention\.query_key_value\.(\w+)"
)
_TURNED: Final = re.compile(
    r"(?:transformer\.)?h\.(\d+)\.(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight"
)
_GPT2: Final = {
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
_MASK: Final = (".attn.bias", ".attn.masked_bias")
_LINEAR: Final = re.compile(
    r"model\.layers\.(\d+)\.(block_sparse_moe|shared_mlp)\.input_linear\.weight"
)
_LLAMA4: Final = re.compile(
    r"model\.layers\.(\d+)\.feed_forward\.experts\.(gate_up_proj|down_proj)(?:\.weight)?"
)
_CONVOLUTION: Final = re.compile(r"model\.layers\.(\d+)\.conv\.conv\.weight")
_MATRIX: Final = 2
_STACK: Final = 3


def heads_in_turn(model: Model) -> set[str]:
    """GPT-NeoX and BLOOM: of each head its query, key and value; they become three parts."""
    return _regrouped(model, model.hparams.count("n_head", "num_attention_heads"), 1)


def heads_in_groups(model: Model) -> set[str]:
    """Falcon: of each group its queries, the key and the value; they become three parts."""
    found = model.hparams.optional("num_kv_heads")
    groups = (model.hparams.optional("n_head_kv") or 1) if found is None else found
    heads = model.hparams.heads
    if not groups or heads % groups:
        model.hparams.bad("num_kv_heads", groups, f"a divisor of {heads} heads")
    return _regrouped(model, groups, heads // groups)


def _regrouped(model: Model, groups: int, queries: int) -> set[str]:
    taken: set[str] = set()
    every = queries + 2
    for position, source in enumerate(model.sources):
        found = _JOINED.fullmatch(source.own_name)
        if found is None:
            continue
        rows, rest = divmod(source.shape[0], groups * every)
        if rest or not rows or len(source.shape) > _MATRIX:
            _bad(source, f"{groups} groups of {every} heads")
        taken.add(source.name)
        # A vector is a matrix of one column: rows of it can be taken.
        whole = Member.of(source)._replace(shape=(source.shape[0], *(source.shape[1:] or (1,))))
        order = [group * every + query for group in range(groups) for query in range(queries)]
        order += [group * every + queries for group in range(groups)]
        order += [group * every + queries + 1 for group in range(groups)]
        members = tuple(whole.rows(number * rows, rows) for number in order)
        name = f"blk.{found[1]}.attn_qkv.{found[2]}"
        model.put(position, Tensor(name, source.shape, members, _before(source)))
    return taken


def turned_matrices(model: Model) -> set[str]:
    """GPT-2: matrices are `[in, out]`; a mask of attention is a buffer."""
    taken: set[str] = set()
    for position, source in enumerate(model.sources):
        found = _TURNED.fullmatch(source.own_name)
        if source.own_name.endswith(_MASK):
            taken.add(source.name)
        elif found is not None:
            if len(source.shape) != _MATRIX:
                _bad(source, "a matrix")
            taken.add(source.name)
            name = f"blk.{found[1]}.{_GPT2[found[2]]}.weight"
            member = transposed(Member.of(source))
            model.put(position, Tensor(name, member.shape, (member,), _before(source)))
    return taken


def squeezed(model: Model) -> set[str]:
    """LFM2: a convolution's weights have a dimension of one channel, which is left out."""
    taken: set[str] = set()
    for position, source in enumerate(model.sources):
        found = _CONVOLUTION.fullmatch(source.own_name)
        if found is not None and len(source.shape) == _STACK and source.shape[1] == 1:
            taken.add(source.name)
            shape = (source.shape[0], source.shape[2])
            member = Member.of(source)._replace(shape=shape)
            name = f"blk.{found[1]}.shortconv.conv.weight"
            model.put(position, Tensor(name, shape, (member,), _before(source)))
    return taken


def granite_experts(model: Model) -> set[str]:
    """Granite: `input_linear` has gates and then ups, of each expert and of what is shared."""
    taken: set[str] = set()
    for position, source in enumerate(model.sources):
        found = _LINEAR.fullmatch(source.own_name)
        if found is None:
            continue
        if len(source.shape) < _MATRIX or source.shape[-2] % 2:
            _bad(source, "gates and ups")
        taken.add(source.name)
        kind = "exps" if found[2] == "block_sparse_moe" else "shexp"
        for half in _halves(source):
            name = f"blk.{found[1]}.ffn_{half.name}_{kind}.weight"
            model.put(position, half._replace(name=name))
    return taken


def _halves(source: SourceTensor) -> Iterator[Tensor]:
    """Yield gates and ups of a matrix, or of a stack of them."""
    *outer, rows, width = source.shape
    whole = Member.of(source)
    for turn, word in enumerate(("gate", "up")):
        members = tuple(
            whole.rows(number * rows + turn * rows // 2, rows // 2)
            for number in range(outer[0] if outer else 1)
        )
        yield Tensor(word, (*outer, rows // 2, width), members, _before(source))


def llama4_experts(model: Model) -> set[str]:
    """Llama 4: stacks are `[in, out]`, with the gates in the first half of the columns."""
    taken: set[str] = set()
    for position, source in enumerate(model.sources):
        found = _LLAMA4.fullmatch(source.own_name.replace("language_model.", ""))
        if found is None:
            continue
        if len(source.shape) != _STACK or source.shape[2] % 2:
            _bad(source, "experts with gates and ups")
        taken.add(source.name)
        stem = f"blk.{found[1]}.ffn"
        experts, rows, width = source.shape
        whole = Member.of(source)
        slices = [whole.rows(number * rows, rows) for number in range(experts)]
        if found[2] == "down_proj":
            members = tuple(map(transposed, slices))
            name, shape = f"{stem}_down_exps.weight", (experts, width, rows)
            model.put(position, Tensor(name, shape, members, _before(source)))
            continue
        half = width // 2
        if half % source.decoder.unit((1, width)):
            _bad(source, "gates of whole blocks")
        for turn, word in enumerate(("gate", "up")):
            members = tuple(_rows(transposed(one), turn * half, half) for one in slices)
            name, shape = f"{stem}_{word}_exps.weight", (experts, half, rows)
            model.put(position, Tensor(name, shape, members, _before(source)))
    return taken


def transposed(member: Member) -> Member:
    """Return a matrix the other way around."""
    rows, width = member.shape
    whole = Woven((member.decoder,), (Pattern((Strand(0, rows),), 1),), width)
    return Member((width, rows), member.extents, Transposed(whole))


def _rows(member: Member, first: int, count: int) -> Member:
    """Return some rows of a matrix whose rows are not together in its array."""
    width = member.shape[1]
    decoder = Excerpt(member.decoder, member.shape, first * width)
    return member._replace(shape=(count, width), decoder=decoder)


def _before(source: SourceTensor) -> str:
    return source.stored_as or source.dtype


def _bad(source: SourceTensor, expected: str) -> NoReturn:
    raise InputError(
        f"`{printable(source.name)}` has the shape {list(source.shape)}, expected {expected}",
        code="E_GGUF_CONFIG",
    )
