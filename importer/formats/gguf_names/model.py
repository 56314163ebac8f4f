"""The tensors of a GGUF file, while they are given Hugging Face's names one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from importer.codecs.base import Shape
from importer.formats.gguf_names.facts import Facts
from importer.formats.gguf_names.made import Piece
from importer.formats.gguf_names.spelling import LAYER, Key, Spelling

_HEADS: Final = {"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"}


class Stored(NamedTuple):
    """A tensor of the file.

    Attributes:
        shape: in elements, outermost dimension first.
        kind: name of the type of GGML whose blocks it is in; empty for plain numbers.
    """

    shape: Shape
    kind: str = ""

    @property
    def width(self) -> int:
        """Elements of a row; 1 of a vector, whose elements are rows."""
        return self.shape[-1] if len(self.shape) > 1 else 1

    @property
    def rows(self) -> int:
        """The number of rows."""
        return math.prod(self.shape[:-1]) if len(self.shape) > 1 else math.prod(self.shape)


class Model:
    """The tensors that have no name yet; a rule takes those that it names.

    Attributes:
        facts: what the file says about the model.
        spelling: of its architecture.
    """

    def __init__(self, facts: Facts, spelling: Spelling, tensors: Mapping[str, Stored]) -> None:
        """Take all of them as not named."""
        self.facts = facts
        self.spelling = spelling
        self._all = tensors
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._all and name not in self._taken

    def has(self, name: str) -> bool:
        """Return whether the file has a tensor, named or not."""
        return name in self._all

    def __getitem__(self, name: str) -> Stored:
        return self._all[name]

    def left(self) -> Iterator[tuple[str, Stored]]:
        """Yield the tensors that have no name yet, in the order of the file."""
        for name, stored in self._all.items():
            if name not in self._taken:
                yield name, stored

    def keys(self, *stems: str) -> list[Key]:
        """Return the keys of tensors of blocks with such a stem that have no name yet."""
        wanted = {LAYER + stem for stem in stems}
        found = (Key.parse(name) for name, _ in self.left())
        return [key for key in found if key.stem in wanted]

    def take(self, name: str) -> Piece:
        """Return a whole tensor, which has a name now."""
        self._taken.add(name)
        return Piece(name, 0, self._all[name].rows)

    def split(self, name: str, *counts: int) -> tuple[Piece, ...]:
        """Return a tensor's rows in pieces of so many.

        Raises:
            InputError: it has another number of rows.
        """
        rows = self._all[name].rows
        if sum(counts) != rows:
            self.facts.bad(f"`{name}` has {rows} rows, expected {' + '.join(map(str, counts))}")
        pieces, first = [], 0
        for count in counts:
            pieces.append(Piece(name, first, count))
            first += count
        self._taken.add(name)
        return tuple(pieces)

    def head_rows(self, stem: str, key: Key, rows: int) -> int:
        """Return the rows of a head of q or k.

        Args:
            stem: `attn_q` or `attn_k`.
            rows: of all heads.

        Raises:
            InputError: heads of an even number of rows do not fill them.
        """
        heads = self.heads(stem, key)
        if rows % (2 * heads):
            self.facts.bad(f"`{key.name}` has {rows} rows, expected {heads} even heads")
        return rows // heads

    def heads(self, stem: str, key: Key) -> int:
        """Return the number of heads of q or k in a block."""
        return self.facts.count(self._heads(stem), key.block)

    def has_heads(self, key: Key) -> bool:
        """Return whether the metadata count heads of k in a block.

        What a converter of hybrid models took for a recurrent block, it did not turn.
        """
        counts = self.facts.own(self._heads("attn_k"))
        if isinstance(counts, Sequence) and not isinstance(counts, str):
            return key.block is None or key.block >= len(counts) or counts[key.block] != 0
        return True

    def _heads(self, stem: str) -> str:
        fact = _HEADS[stem]
        return _HEADS["attn_q"] if self.facts.own(fact) is None else fact
