"""Hugging Face's names of GGUF's tensors, from the table of architectures."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, NamedTuple

_TABLE: Final = "architectures.toml"
_BLOCK: Final = re.compile(r"(?<![\w.])((?:enc\.|dec\.)?blk\.)(0|[1-9][0-9]{0,8})\.")
"""Only a number as converters write it is a block's: a name has to come back from its parts."""
_NUMBER: Final = re.compile(r"(?<=\.)\d+(?=\.)")
_ENDINGS: Final = ("weight", "bias")
LAYER: Final = "blk.N."


class Key(NamedTuple):
    """A name of GGUF's, with its block apart.

    Attributes:
        stem: such as `blk.N.attn_q` or `token_embd`; N stands for the block's number.
        block: the number, or None.
        ending: `weight`, `bias` or empty.
    """

    stem: str
    block: int | None
    ending: str

    @classmethod
    def parse(cls, name: str) -> Key:
        """Take a name apart.

        Example:
            >>> Key.parse("blk.12.attn_q.weight")
            Key(stem='blk.N.attn_q', block=12, ending='weight')
        """
        found = _BLOCK.match(name)
        if found is not None:
            name = f"{found[1]}N.{name[found.end() :]}"
        stem, _, ending = name.rpartition(".")
        if ending not in _ENDINGS or not stem:
            stem, ending = name, ""
        return cls(stem, int(found[2]) if found is not None else None, ending)

    @property
    def template(self) -> str:
        """The name with N for the number."""
        return f"{self.stem}.{self.ending}" if self.ending else self.stem

    @property
    def name(self) -> str:
        """The whole name."""
        return self.template.replace("blk.N.", f"blk.{self.block}.")

    def sibling(self, stem: str) -> str:
        """Return the name of another tensor of the block, with the same ending."""
        return self._replace(stem=LAYER + stem).name


class Placed(NamedTuple):
    """Where a tensor of Hugging Face's is in a GGUF file.

    Attributes:
        expert: number of the slice that it is of a stack, or None.
    """

    key: Key
    expert: int | None = None


@dataclass(frozen=True, slots=True)
class Spelling:
    """How one architecture's tensors are called.

    Attributes:
        layers: what stands before the names of a block's tensors, N for its number.
        rotated: whether the rows of each head of q and k are in llama.cpp's order.
        added: ends of the names of norms that 1 was added to.
        names: GGUF's template -> Hugging Face's, with N, and E for the number of an expert.
        keys: Hugging Face's template -> GGUF's; of several the one that the table names last.
    """

    layers: str
    rotated: bool
    added: tuple[str, ...]
    names: Mapping[str, str]
    keys: Mapping[str, str]

    def name_of(self, key: Key) -> str | None:
        """Return Hugging Face's name; one of an expert has E for its number.

        Example:
            >>> spelling_of("llama").name_of(Key.parse("blk.3.attn_q.weight"))
            'model.layers.3.self_attn.q_proj.weight'
        """
        found = self.names.get(key.template)
        if found is None and key.ending:
            stem = self.names.get(key.stem)
            found = None if stem is None else f"{stem}.{key.ending}"
        return None if found is None else self.numbered(found, key.block)

    def key_of(self, name: str) -> Placed | None:
        """Return where a tensor of Hugging Face's is in a file, or None if that is not known.

        Example:
            >>> spelling_of("llama").key_of("model.layers.3.self_attn.q_proj.weight")
            Placed(key=Key(stem='blk.N.attn_q', block=3, ending='weight'), expert=None)
        """
        found = self._in_layer.match(name)
        block = int(found[1]) if found is not None else None
        text = name if found is None else self.layers + name[found.end() :]
        if not self.layers and (found := _NUMBER.search(name)) is not None:
            block = int(found[0])
            text = f"{name[: found.start()]}N{name[found.end() :]}"
        for expert, one in ((None, text), *_of_experts(text)):
            if one in self.keys:
                return Placed(Key.parse(self.keys[one])._replace(block=block), expert)
            stem, _, ending = one.rpartition(".")
            if ending in _ENDINGS and stem in self.keys:
                key = Key(self.keys[stem], block, ending)
                return Placed(key, expert)
        return None

    @property
    def _in_layer(self) -> re.Pattern[str]:
        before, _, after = self.layers.partition("N")
        return re.compile(rf"{re.escape(before)}(\d+){re.escape(after)}")

    def layer(self, rest: str, block: int | None) -> str:
        """Return a name in a block."""
        return self.numbered(self.layers + rest, block)

    @staticmethod
    def numbered(template: str, block: int | None) -> str:
        """Put the number of a block in the place of N."""
        return template if block is None else re.sub(r"\bN\b", str(block), template, count=1)


@functools.cache
def spelling_of(architecture: str) -> Spelling | None:
    """Return the spelling of an architecture, as `general.architecture` names it, or None."""
    tables = _tables()
    if architecture not in tables:
        return None
    layers: str | None = None
    whole: dict[str, str] = {}
    layer: dict[str, str] = {}
    mine = tables[architecture]
    table: Mapping[str, Any] | None = mine
    while table is not None:
        layers = table.get("layers", layers) if layers is None else layers
        whole = {**table.get("whole", {}), **whole}
        layer = {**table.get("layer", {}), **layer}
        table = tables[table["base"]] if "base" in table else None
    assert layers is not None, architecture
    names = {**whole, **{LAYER + key: layers + name for key, name in layer.items()}}
    keys = {name: key for key, name in names.items()}
    rotated, added = mine.get("rotated", False), tuple(mine.get("added", ()))
    return Spelling(layers, rotated, added, names, keys)


def architectures() -> tuple[str, ...]:
    """Return the names of all architectures and of their variants, which have a `+`."""
    return tuple(_tables())


def _of_experts(name: str) -> Iterator[tuple[int, str]]:
    """Yield the name for each number in it that may be an expert's, with E in its place."""
    for found in _NUMBER.finditer(name):
        yield int(found[0]), f"{name[: found.start()]}E{name[found.end() :]}"


@functools.cache
def _tables() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath(_TABLE).read_text(encoding="utf-8")
    return tomllib.loads(text)
