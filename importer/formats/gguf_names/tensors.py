"""Give the tensors of a GGUF file Hugging Face's names, shapes and order of values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from importer.codecs.views.undone import Change
from importer.formats.gguf_names.facts import Facts
from importer.formats.gguf_names.made import Made, Piece, Turned
from importer.formats.gguf_names.model import Model, Stored
from importer.formats.gguf_names.rules import RULES
from importer.formats.gguf_names.spelling import Key, Spelling, spelling_of
from importer.formats.gguf_names.variants import variant_of
from store import limits
from store.errors import UnsupportedError

_FUSED: Final = {
    "blk.N.ffn_gate_up_exps": ("ffn_gate_exps", "ffn_up_exps"),
}
_DERIVED: Final = frozenset(
    {"rope_freqs", "rope_factors_long", "rope_factors_short", "blk.N.attn_rot_embd"}
)
"""Tensors that converters computed from config.json, where they go back to."""
_CONVOLUTIONS: Final = (".conv1d.weight", ".conv.conv.weight", "_conv1d.weight")
_FLAT: Final = (".A_log", ".D", "mamba.norm.weight", "mixer.norm.weight")
_NVFP4: Final = "NVFP4"
_MATRIX: Final = 2
_STACK: Final = 3


class Apart(NamedTuple):
    """The tensors of a file under Hugging Face's names.

    Attributes:
        variant: the spelling that was taken, empty where the architecture is not known.
        made: in the order of the file, about.
        derived: GGUF's names of those that config.json tells.
        unnamed: GGUF's names of those for which Hugging Face's is not known; they are among
            `made` under these names, with the values that they have in the file.
    """

    variant: str
    made: tuple[Made, ...]
    derived: tuple[str, ...]
    unnamed: tuple[str, ...]


def take_apart(facts: Facts, tensors: Mapping[str, Stored]) -> Apart:
    """Name every tensor of a file; each is in exactly one of the results, or derived.

    Args:
        facts: the metadata of the file.
        tensors: by GGUF's name, in the order of the file.

    Raises:
        InputError: metadata and shapes contradict each other.
    """
    variant = variant_of(facts, tensors)
    spelling = spelling_of(variant)
    if spelling is None:
        made = tuple(_kept(name, name, stored) for name, stored in tensors.items())
        _check_scales(facts, tensors, [], list(tensors))
        return Apart("", made, (), tuple(tensors))
    model = Model(facts, spelling, tensors)
    found: list[Made] = []
    for rule in RULES.get(variant, RULES.get(facts.architecture, ())):
        found += rule(model)
    derived = [name for name, _ in model.left() if Key.parse(name).stem in _DERIVED]
    unnamed: list[str] = []
    for name, stored in _scales_last(model):
        if name in derived or name not in model:
            continue
        made_of = list(_named(model, spelling, Key.parse(name), stored))
        if not made_of:
            unnamed.append(name)
            made_of = [_kept(name, name, stored)]
        model.take(name)
        found += made_of
        if len(found) > limits.TENSORS_PER_FILE:
            facts.bad(f"more than {limits.TENSORS_PER_FILE} tensors and experts")
    _check_scales(facts, tensors, found, unnamed)
    _check_names(facts, found)
    return Apart(variant, tuple(found), tuple(derived), tuple(unnamed))


def _named(model: Model, spelling: Spelling, key: Key, stored: Stored) -> Iterator[Made]:
    """Yield what one tensor becomes; nothing where its name is not known."""
    name = spelling.name_of(key)
    if name is None:
        if key.stem in _FUSED:
            yield from _unfused(model, spelling, key, stored)
        if key.stem == "blk.N.attn_qkv":
            yield from _separated(model, spelling, key, stored)
        return
    if _is_of_experts(name):
        yield from _experts(model, name, key.name)
        return
    made = _kept(name, key.name, stored)._replace(scale=_scale(model, key.name))
    stem = key.stem.rpartition(".")[2]
    if spelling.rotated and stem in {"attn_q", "attn_k"} and model.has_heads(key):
        made = made._replace(layout=Turned(model.head_rows(stem, key, stored.rows)))
    if spelling.added and name.endswith(spelling.added):
        made = made._replace(change=Change.PLUS_ONE)
    if name.endswith(".A_log"):
        made = made._replace(change=Change.MINUS_EXP)
    yield made._replace(shape=_shape(name, stored.shape))


def _scales_last(model: Model) -> list[tuple[str, Stored]]:
    """Return the tensors without a name; factors after what they belong to."""
    return sorted(model.left(), key=lambda one: one[0].endswith(".scale"))


def _kept(name: str, tensor: str, stored: Stored) -> Made:
    return Made(name, stored.shape, (Piece(tensor, 0, stored.rows),))


def _shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return Hugging Face's shape of a tensor that the converter reshaped."""
    if name.endswith(_CONVOLUTIONS):
        sides = shape if len(shape) == _MATRIX else tuple(n for n in shape if n != 1)
        return (sides[0], 1, sides[1]) if len(sides) == _MATRIX else shape
    if name.endswith("self_attn.A_log"):
        return (1, 1, math.prod(shape), 1)
    if name.endswith(_FLAT) and len(shape) == _MATRIX and (1 in shape or "norm" in name):
        return (shape[0] * shape[1],)
    return shape


def _is_of_experts(name: str) -> bool:
    return ".E." in name


def _experts(model: Model, name: str, tensor: str, half: int | None = None) -> Iterator[Made]:
    """Yield a tensor for each expert: its rows of the stack that is in the file, or a half."""
    stored = model[tensor]
    shape = stored.shape
    if len(shape) < _MATRIX:
        model.facts.bad(f"`{tensor}` {list(shape)} is not a stack of experts")
    if shape[0] > limits.TENSORS_PER_FILE:
        model.facts.bad(f"`{tensor}` {list(shape)} has too many experts")
    each = stored.rows // shape[0] if shape[0] else 0
    count = each if half is None else each // 2
    inner = (count, *shape[2:]) if len(shape) > _MATRIX else shape[1:]
    for expert in range(shape[0]):
        piece = Piece(tensor, expert * each + count * (half or 0), count)
        mine = name.replace(".E.", f".{expert}.")
        yield Made(mine, inner, (piece,), scale=_scale(model, tensor, expert, shape[0]))


def _unfused(model: Model, spelling: Spelling, key: Key, stored: Stored) -> Iterator[Made]:
    """Yield gates and ups, which a converter was told to fuse."""
    if len(stored.shape) != _STACK or stored.shape[1] % 2:
        model.facts.bad(f"`{key.name}` {list(stored.shape)} is not gates and ups")
    for half, stem in enumerate(_FUSED[key.stem]):
        name = spelling.name_of(Key.parse(key.sibling(stem)))
        if name is None or not _is_of_experts(name):
            return
        yield from _experts(model, name, key.name, half)


def _separated(model: Model, spelling: Spelling, key: Key, stored: Stored) -> Iterator[Made]:
    """Yield q, k and v, which a converter was told to fuse."""
    names = [spelling.name_of(Key.parse(key.sibling(f"attn_{one}"))) for one in "qkv"]
    if not all(names):
        return
    heads, groups = model.heads("attn_q", key), model.heads("attn_k", key)
    head, rest = divmod(stored.rows, heads + 2 * groups)
    if rest:
        model.facts.bad(f"`{key.name}` has {stored.rows} rows for {heads} + 2 x {groups} heads")
    pieces = model.split(key.name, heads * head, groups * head, groups * head)
    for one, name, piece in zip("qkv", names, pieces, strict=True):
        assert name is not None
        turned = Turned(head) if spelling.rotated and one != "v" else None
        if turned is not None and head % 2:
            model.facts.bad(f"`{key.name}` has heads of {head} rows, expected an even number")
        yield Made(name, (piece.rows, *stored.shape[1:]), (piece,), turned)


def _scale(model: Model, tensor: str, expert: int = 0, experts: int = 1) -> Piece | None:
    """Return the factor of a tensor, of whatever type: one number, or one of each expert."""
    scale = tensor.removesuffix(".weight") + ".scale"
    if scale == tensor or not model.has(scale) or _is_named(model, tensor, scale):
        return None
    stored = model[scale]
    if stored.kind or stored.width != 1 or stored.rows not in {1, experts}:
        model.facts.bad(f"`{scale}` {list(stored.shape)} is not a factor of `{tensor}`")
    model.take(scale)
    return Piece(scale, expert if stored.rows > 1 else 0, 1)


def _is_named(model: Model, tensor: str, scale: str) -> bool:
    """Return whether what could be a factor is a tensor of Hugging Face's: Gemma 4 has some."""
    is_factor = model[tensor].kind == _NVFP4
    return not is_factor and model.spelling.name_of(Key.parse(scale)) is not None


def _check_scales(
    facts: Facts, tensors: Mapping[str, Stored], found: list[Made], unnamed: list[str]
) -> None:
    """Refuse factors that nothing is multiplied by, where a rule took the matrices."""
    used = {made.scale.tensor for made in found if made.scale is not None}
    for name in unnamed:
        weight = name.removesuffix(".scale") + ".weight"
        if not name.endswith(".scale") or weight not in tensors or name in used:
            continue
        kind = tensors[weight].kind
        if kind == _NVFP4 or weight not in unnamed:
            raise UnsupportedError(
                f"{facts.where}: `{weight}` in {kind or 'plain numbers'} has a factor, "
                f"`{name}`, and is a part of a matrix, or of an unknown architecture: ingot "
                "does not read that",
                code="E_GGUF_SCALE",
            )


def _check_names(facts: Facts, found: list[Made]) -> None:
    seen: set[str] = set()
    for made in found:
        if made.name in seen:
            facts.bad(f"two tensors would be `{made.name}`")
        seen.add(made.name)
