"""Which type each tensor of a file gets in the mixtures of `llama-quantize`.

Source: `llama_tensor_get_type_impl`, `tensor_allows_quantization` and `tensor_type_fallback` in
llama.cpp's src/llama-quant.cpp, without what no type here takes part in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from importer.codecs.base import Shape
from importer.codecs.ggml.types import NAMED

_CATEGORIES: Final = (
    *(("attn_qkv.weight", "attn_v"), ("attn_kv_b.weight", "attn_v")),
    *(("attn_v.weight", "attn_v"), ("attn_k.weight", "attn_k"), ("attn_q.weight", "attn_q")),
    *(("attn_output.weight", "attn_output"), ("ffn_up", "ffn_up"), ("ffn_gate", "ffn_gate")),
    ("ffn_down", "ffn_down"),
)
"""A part of a name, and what such tensors are; the first that fits."""
_KEPT: Final = (
    *("_norm.weight", "ffn_gate_inp.weight", "altup", "laurel", "per_layer_model_proj"),
    *("ssm_conv1d", "shortconv.conv.weight", "time_mix_first.weight", "time_mix_w1.weight"),
    *("time_mix_w2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight"),
    *("time_mix_lerp_fused.weight", "attn_rel_b.weight", ".position_embd", ".patch_embd"),
)
_KEPT_WHOLE: Final = frozenset({"position_embd.weight", "token_types.weight"})
_SMALLER: Final = {
    "Q2_K": "Q4_0",
    "Q3_K": "Q4_0",
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
    "IQ4_XS": "IQ4_NL",
    "TQ1_0": "Q4_0",
    "TQ2_0": "Q4_0",
}
"""What a tensor gets whose rows are not whole blocks of 256."""
_MANY: Final = 8
"""Experts of Mixtral, for which llama.cpp has rules of its own."""
_BIGGER: Final = 80
"""Blocks of models with 70 billion parameters, where as many heads share few of v."""
_SHARED: Final = 4
_MATRIX: Final = 2
_STACK: Final = 3


class Choice(NamedTuple):
    """A type for some of the tensors of a category.

    Attributes:
        where: which ones: a word of `_Counts.is_in`.
    """

    kind: str
    where: str = "all"


_MORE_BITS: Final = {
    "attn_v": (Choice("Q6_K", "more bits"),),
    "ffn_down": (Choice("Q6_K", "more bits"),),
}
_IQ4: Final = {
    "attn_v": (Choice("Q5_K", "few heads"),),
    "ffn_down": (Choice("Q5_K", "first eighth, unweighted"),),
}
CHOICES: Final[Mapping[str, Mapping[str, tuple[Choice, ...]]]] = {
    "Q2_K": {
        "attn_v": (Choice("Q4_K", "few heads"), Choice("Q3_K")),
        "attn_output": (Choice("Q3_K"),),
        "ffn_down": (Choice("Q3_K"),),
    },
    "Q2_K_S": {
        "attn_v": (Choice("Q4_K", "few heads"),),
        "ffn_down": (Choice("Q4_K", "first eighth"),),
    },
    "Q3_K_M": {
        "attn_v": (Choice("Q5_K", "first 2"), Choice("Q4_K")),
        "attn_output": (Choice("Q4_K"),),
        "ffn_down": (Choice("Q5_K", "first sixteenth"), Choice("Q4_K")),
    },
    "Q3_K_L": dict.fromkeys(("attn_v", "attn_output", "ffn_down"), (Choice("Q5_K"),)),
    "Q4_K_S": {
        "attn_v": (Choice("Q5_K", "first 4"),),
        "ffn_down": (Choice("Q5_K", "first eighth"),),
    },
    "Q4_K_M": _MORE_BITS,
    "Q5_K_M": _MORE_BITS,
    "IQ4_NL": _IQ4,
    "IQ4_XS": _IQ4,
    "Q4_0": {"ffn_down": (Choice("Q4_1", "first eighth, weighted"),)},
    "Q5_0": {"ffn_down": (Choice("Q5_1", "first eighth, weighted"),)},
}
"""By the type of the file: for a category its choices, of which the first that fits decides."""
_OF_FALCON: Final[Mapping[str, Mapping[str, tuple[Choice, ...]]]] = {
    "Q2_K": {"attn_output": ()},
    "Q3_K_M": {
        "attn_output": (),
        "ffn_down": (Choice("Q5_K", "first sixteenth"), Choice("Q4_K", "more bits")),
    },
    "Q3_K_L": dict.fromkeys(("attn_output", "ffn_down"), (Choice("Q4_K"),)),
    "Q4_K_S": {"ffn_down": ()},
    "Q4_K_M": {"ffn_down": (Choice("Q6_K", "first sixteenth"), Choice("Q5_K", "more bits"))},
}
"""What Falcon has instead of these; its output layer is Q8_0 whatever the file's type."""
_OUTPUT_OF_MANY: Final = frozenset(
    {"Q2_K", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ4_XS"}
)
"""Types of files in which attention's output gets more where there are eight experts."""


class Facts(NamedTuple):
    """What a mixture asks about a model.

    Attributes:
        blocks: how many.
        experts: in a block; 0 without.
        shared: heads of q that share one of k and v.
        is_weighted: whether there is an importance matrix.
        is_llama: whether the model's size goes by its blocks, as that of Llama's kind.
        is_falcon: whether it is a Falcon, which has choices of its own.
    """

    blocks: int
    experts: int = 0
    shared: int = 1
    is_weighted: bool = False
    is_llama: bool = False
    is_falcon: bool = False


@dataclass
class _Counts:
    """Counts the tensors of categories while types are chosen."""

    facts: Facts
    values: int
    seen_values: int = 0
    seen_downs: int = 0

    def place(self, name: str, category: str) -> tuple[int, int]:
        """Return which of how many tensors of its category one is, and count it."""
        if category == "attn_v":
            self.seen_values += 1
            return self.seen_values - 1, self.values
        self.seen_downs += 1
        if self.facts.experts > 1:
            return block_of(name), self.facts.blocks
        return self.seen_downs - 1, self.facts.blocks

    def is_in(self, where: str, place: int, count: int) -> bool:
        """Return whether a tensor is among those that a choice is for."""
        word, _, weighing = where.partition(", ")
        if weighing and self.facts.is_weighted is not (weighing == "weighted"):
            return False
        if word in {"all", "few heads"}:
            return word == "all" or self.facts.shared >= _SHARED
        if word == "more bits":
            return has_more_bits(place, count)
        parts = {"first eighth": count // 8, "first sixteenth": count // 16}
        first = parts[word] if word in parts else int(word.removeprefix("first "))
        return place < first


def mixed_types(
    tensors: Sequence[tuple[str, Shape]], file_type: str, default: str, facts: Facts
) -> list[str | None]:
    """Return a type for each tensor, or None where it stays what it is.

    The arguments are those of `wanted_types`.
    """
    wanted = wanted_types(tensors, file_type, default, facts)
    return [
        kind and fitting(kind, shape) for (_, shape), kind in zip(tensors, wanted, strict=True)
    ]


def wanted_types(
    tensors: Sequence[tuple[str, Shape]], file_type: str, default: str, facts: Facts
) -> list[str | None]:
    """Return the type that a mixture has for each tensor, whether it fits its rows or not.

    Args:
        tensors: names and shapes, in the order of `by_block`.
        file_type: such as `Q4_K_M`.
        default: the type of most tensors.
        facts: about the model.
    """
    counts = _Counts(facts, sum(category_of(name) == "attn_v" for name, _ in tensors))
    is_tied = all(name != "output.weight" for name, _ in tensors)
    made: list[str | None] = []
    for name, shape in tensors:
        if not is_quantized(name, shape):
            made.append(None)
            continue
        made.append(_kind(name, shape, file_type, default, counts, is_tied=is_tied))
    return made


def _kind(  # noqa: PLR0913 - a mixture asks for so much
    name: str, shape: Shape, file_type: str, default: str, counts: _Counts, *, is_tied: bool
) -> str:
    is_embedding = name in {"token_embd.weight", "per_layer_token_embd.weight"}
    if name == "output.weight" or (is_tied and is_embedding):
        fits = shape[-1] % NAMED[default].elements == 0
        is_wide = file_type in {"MXFP4_MOE", "Q8_0"} or counts.facts.is_falcon or not fits
        return "Q8_0" if is_wide else "Q6_K"
    if file_type == "MXFP4_MOE":
        return "MXFP4" if len(trimmed(shape)) >= _STACK else "Q8_0"
    if is_embedding:
        return "Q4_K" if file_type in {"TQ1_0", "TQ2_0"} else default
    return _of_block(name, file_type, default, counts)


def _of_block(name: str, file_type: str, default: str, counts: _Counts) -> str:
    category, facts = category_of(name), counts.facts
    kind = default
    place = (0, 0)
    if category in {"attn_v", "ffn_down"}:
        place = counts.place(name, category)
    if facts.experts == _MANY and category == "attn_output":
        return "Q5_K" if file_type in _OUTPUT_OF_MANY else default
    choices = dict(CHOICES.get(file_type, {}))
    if facts.is_falcon:
        choices |= _OF_FALCON.get(file_type, {})
    for choice in choices.get(category, ()):
        if counts.is_in(choice.where, *place):
            kind = choice.kind
            break
    is_large = facts.is_llama and facts.blocks == _BIGGER and facts.experts != _MANY
    if category == "attn_v" and is_large and kind in {"Q3_K", "Q4_K"}:
        kind = "Q5_K"
    if category in {"attn_v", "attn_k"} and facts.experts == _MANY:
        kind = "Q8_0"
    return kind


def is_quantized(name: str, shape: Shape) -> bool:
    """Return whether `llama-quantize` quantizes such a tensor at all."""
    return (
        len(trimmed(shape)) >= _MATRIX
        and name.endswith("weight")
        and name not in _KEPT_WHOLE
        and not any(part in name for part in _KEPT)
    )


def fitting(kind: str, shape: Shape) -> str:
    """Return a type, or another one whose blocks fit the rows."""
    if shape[-1] % NAMED[kind].elements:
        kind = _SMALLER.get(kind, kind)
        if shape[-1] % NAMED[kind].elements:
            return "F16"
    return kind


def category_of(name: str) -> str:
    """Return what a tensor is to a mixture."""
    return next((category for part, category in _CATEGORIES if part in name), "other")


def has_more_bits(place: int, count: int) -> bool:
    """Return whether a layer is among the first and last eighth, or each third between."""
    return place < count // 8 or place >= 7 * count // 8 or (place - count // 8) % 3 == 2  # noqa: PLR2004


def block_of(name: str) -> int:
    """Return the number of the block that a tensor is of, or -1."""
    found = re.match(r"blk\.(\d+)\.", name)
    return int(found[1]) if found is not None else -1


def by_block(name: str) -> tuple[int, bytes]:
    """Return what `llama-quantize` sorts tensors by."""
    return block_of(name), name.encode()


def trimmed(shape: Shape) -> Shape:
    """Return a shape without leading ones, as ggml counts dimensions."""
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape
