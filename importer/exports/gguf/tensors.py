"""The tensors of a GGUF file: under its names, in the order in which its converter writes."""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from importer.codecs.base import Decoder, Shape
from importer.codecs.views.added import PlusOne
from importer.codecs.views.rotated import Rotated
from importer.codecs.views.undone import Change, Undone
from importer.exports.gguf.hparams import Hparams
from importer.formats.gguf_names.spelling import LAYER, Key, Placed, Spelling
from importer.sources.file import Extent
from importer.sources.tensor import SourceTensor
from store.errors import InputError, UnsupportedError
from store.text import printable

_UNUSED: Final = (".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq")
_SEEN: Final = ("mlp", "vit.", "vpm.", "siglip2.", "merger.", "resampler.")
_SEEING: Final = (
    *("visual.", "vision.", "vision_", "projector.", "pre_mm_projector_norm"),
    *("image_newline", "patch_embed", "patch_merger.", "model.connector."),
)
_INNER: Final = "language_model."
_F32: Final = 4


class Member(NamedTuple):
    """Some values that follow each other in a tensor.

    Attributes:
        shape: of the values, in elements.
        extents: of the arrays that they are in.
        turn: 0 or 1 where two tensors' rows take turns in the arrays, or None.
        by_element: whether not rows but elements do.
    """

    shape: Shape
    extents: tuple[Extent, ...]
    decoder: Decoder
    turn: int | None = None
    by_element: bool = False

    @classmethod
    def of(cls, source: SourceTensor, decoder: Decoder | None = None) -> Member:
        """Return all values of a tensor of the source."""
        extents = tuple(array.extent for array in source.arrays)
        return cls(source.shape, extents, decoder or source.decoder)

    def rows(self, first: int, count: int) -> Member:
        """Return some rows: all dimensions but the last count them."""
        width = self.shape[-1]
        elements = range(first * width, (first + count) * width)
        spans = self.decoder.spans(self.shape, elements)
        extents = tuple(
            Extent(extent.file, extent.offset + span.begin, span.nbytes)
            for extent, span in zip(self.extents, spans, strict=True)
        )
        return Member((count, width), extents, self.decoder)


class Tensor(NamedTuple):
    """A tensor of the file.

    Attributes:
        name: GGUF's.
        shape: in elements, outermost dimension first.
        members: whose values follow each other in it; none where `data` has them.
        before: the type that it has in the source.
        data: values of F32 that were computed of the configuration.
    """

    name: str
    shape: Shape
    members: tuple[Member, ...]
    before: str
    data: bytes = b""


@dataclass
class Model:
    """The tensors of a source while they are given GGUF's names.

    Attributes:
        hparams: the configuration.
        spelling: of the architecture.
        sources: in the order in which the converter reads them.
    """

    hparams: Hparams
    spelling: Spelling
    sources: Sequence[SourceTensor]
    _computed: list[Tensor] = field(default_factory=list)
    _made: list[tuple[tuple[int, str], Tensor]] = field(default_factory=list)

    def put(self, position: int, tensor: Tensor, rank: str = "") -> None:
        """Take a tensor of the file.

        Args:
            position: of the source that it is complete with.
            tensor: of the file.
            rank: which of several with one position comes first; by default its name.
        """
        self._made.append(((position, rank or tensor.name), tensor))

    def compute(self, name: str, values: bytes) -> None:
        """Take a vector of F32 that the configuration tells; it comes before all others."""
        shape = (len(values) // _F32,)
        self._computed.append(Tensor(name, shape, (), "config.json", values))

    def tensors(self) -> list[Tensor]:
        """Return what was taken, in order.

        Raises:
            InputError: two have one name.
        """
        made = sorted(self._made, key=operator.itemgetter(0))
        found = [*self._computed, *(tensor for _, tensor in made)]
        seen: set[str] = set()
        for one in found:
            if one.name in seen:
                raise InputError(
                    f"two tensors would be `{printable(one.name)}` in the export",
                    code="E_NAME_COLLISION",
                )
            seen.add(one.name)
        return found

    def place(self, source: SourceTensor, prefix: str) -> Placed:
        """Return where a tensor belongs in the file.

        Raises:
            UnsupportedError: that is not known.
        """
        name = source.own_name.replace(_INNER, "")
        found = self.spelling.key_of(name)
        if found is None:
            found = self.spelling.key_of(prefix + name)
        if found is None:
            raise UnsupportedError(
                f"`{printable(source.name)}` has no name in GGUF that ingot knows",
                code="E_EXPORT_TENSOR",
            )
        return found


def ordered(sources: Sequence[SourceTensor]) -> list[SourceTensor]:
    """Return tensors as the converter reads them: file by file, and in each by name.

    A stored model has a file for each, so that the order is that of one file.
    """
    return sorted(
        sources, key=lambda one: ("" if one.file.is_blob else one.file.path, one.name)
    )


def is_buffer(name: str) -> bool:
    """Return whether a tensor is computed anew by whoever loads the model."""
    return name.endswith(_UNUSED)


def is_of_text(name: str) -> bool:
    """Return whether a tensor is of the text model."""
    return not name.startswith(_SEEN) and not any(part in name for part in _SEEING)


def take_plainly(
    model: Model, prefix: str, taken: set[str], *, stacks_in_order: Sequence[str] = ()
) -> None:
    """Take every tensor that no rule took: under its name, or as a slice of a stack.

    Args:
        model: whose tensors are taken.
        prefix: before the names of the class.
        taken: names of tensors that a rule has taken.
        stacks_in_order: stems of stacks that are not written in the order of their names.
    """
    stacks: defaultdict[str, list[tuple[int, int, SourceTensor]]] = defaultdict(list)
    last: defaultdict[int | None, int] = defaultdict(int)
    for position, source in enumerate(model.sources):
        if source.name in taken:
            continue
        key, expert = model.place(source, prefix)
        if expert is None:
            model.put(position, single(model, key, source))
        else:
            stacks[key.name].append((expert, position, source))
            last[key.block] = max(last[key.block], position)
    for name, members in stacks.items():
        key = Key.parse(name)
        # Of a block's experts the converter takes one matrix after the other, by their names.
        stem = key.stem.removeprefix(LAYER)
        rank = model.spelling.name_of(key) or ""
        if stem in stacks_in_order:
            rank = str(stacks_in_order.index(stem))
        model.put(last[key.block], _stack(name, members), rank)


def single(model: Model, key: Key, source: SourceTensor) -> Tensor:
    """Return a tensor that is one of the source's."""
    decoder = source.decoder
    stem = key.stem.rpartition(".")[2]
    if model.spelling.rotated and stem in {"attn_q", "attn_k"}:
        heads = model.hparams.heads if stem == "attn_q" else model.hparams.kv_heads
        decoder = rotated(source, heads)
    if source.own_name.endswith(model.spelling.added or "/"):
        decoder = plus_one(decoder)
    before = source.stored_as or source.dtype
    return Tensor(key.name, source.shape, (Member.of(source, decoder),), before)


def rotated(source: SourceTensor, heads: int) -> Decoder:
    """Return what reads the rows of each head in llama.cpp's order.

    Raises:
        InputError: heads of an even number of rows do not fill them.
    """
    width = source.shape[-1] if len(source.shape) > 1 else 1
    rows = math.prod(source.shape) // width if width else 0
    if not rows or rows % (2 * heads):
        raise InputError(
            f"`{printable(source.name)}` has {rows} rows, expected {heads} even heads",
            code="E_GGUF_CONFIG",
        )
    inner = source.decoder
    if isinstance(inner, Rotated) and inner.rows == rows // heads and not inner.alternates:
        return inner.inner
    return Rotated(inner, rows // heads, width, alternates=True)


def plus_one(decoder: Decoder) -> Decoder:
    """Return what reads values and adds 1, which an import may have taken off."""
    if isinstance(decoder, Undone) and decoder.change is Change.PLUS_ONE:
        return decoder.inner
    return PlusOne(decoder)


def _stack(name: str, members: list[tuple[int, int, SourceTensor]]) -> Tensor:
    members.sort(key=operator.itemgetter(0))
    sources = [source for _, _, source in members]
    first = sources[0]
    if [number for number, _, _ in members] != list(range(len(members))):
        raise InputError(
            f"the experts of `{printable(name)}` are not numbered from 0 without gaps",
            code="E_EXPORT_EXPERTS",
        )
    if any(source.shape != first.shape for source in sources):
        raise InputError(
            f"the experts of `{printable(name)}` have several shapes", code="E_EXPORT_EXPERTS"
        )
    shape = (len(sources), *first.shape)
    before = first.stored_as or first.dtype
    return Tensor(name, shape, tuple(map(Member.of, sources)), before)
