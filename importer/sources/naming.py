"""The names of weights files: `<stem>[.<variant>][-N-of-M]<suffix>`, and of their indexes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

_NUMBERED: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{5,})-of-(?P<count>\d{5,})")


@dataclass(frozen=True, slots=True)
class WeightsName:
    """The name of a weights file or a shard index, taken apart.

    Attributes:
        stem: what is left without variant, number and suffix.
        variant: such as `fp16`, or empty.
        number: of the shard, from 1 on; 0 where the name has none.
        count: of the shards of its set, or 0.
        is_index: whether the file says which tensor is in which other file.
        precedence: the place among the names that the format gives to whole models, the
            likeliest first; None for every other name.
        is_second_copy: whether the name is one for a second copy of the same weights.
        stands_alone: whether files of other stems are other variants of the model, and not
            further parts of it.
        is_companion: whether the file goes with a model and is none by itself.
        copy_of: the stem of another file that has the same weights, if that is there.
    """

    stem: str
    variant: str = ""
    number: int = 0
    count: int = 0
    is_index: bool = False
    precedence: int | None = None
    is_second_copy: bool = False
    stands_alone: bool = False
    is_companion: bool = False
    copy_of: str = ""

    def is_of(self, variant: str) -> bool:
        """Return whether this is a name of a variant.

        In a name that the format does not know, every part between dots may be one. Where
        every name is a variant, letter case does not matter, and the stem stands for one, too.
        """
        if self.stands_alone:
            return variant.upper() == self.variant.upper() != "" or variant == self.stem
        has_any = self.precedence is not None or self.is_second_copy or self.variant
        there = (self.variant,) if has_any else self.stem.split(".")[1:]
        return bool(variant) and variant in there


class Naming(NamedTuple):
    """The names that a format gives to its files.

    Example:
        >>> naming = Naming((".safetensors",), ("model",))
        >>> naming.parse("model-00001-of-00002.safetensors").count
        2

    Attributes:
        suffixes: in lower case, each with its dot; any case is recognized.
        stems: of whole models, the likeliest first.
        second_copies: stems of files that repeat what the others hold.
    """

    suffixes: tuple[str, ...]
    stems: tuple[str, ...] = ()
    second_copies: tuple[str, ...] = ()

    def parse(self, name: str) -> WeightsName | None:
        """Take a file's name apart, or return None for a name of another format."""
        if suffix := self._suffix(name):
            return self._weights(name[: -len(suffix)])
        if not name.endswith(".json"):  # a source may have 100 000 files
            return None
        rest, mark, variant = name.removesuffix(".json").rpartition(".index")
        suffix = self._suffix(rest)
        if mark and suffix and (not variant or variant[0] == "."):
            return self._named(rest[: -len(suffix)], variant.removeprefix("."), is_index=True)
        return None

    def _suffix(self, name: str) -> str:
        lower = name.lower()
        if not lower.endswith(self.suffixes):
            return ""
        return next(suffix for suffix in self.suffixes if lower.endswith(suffix))

    def _weights(self, rest: str) -> WeightsName:
        number = count = 0
        # diffusers writes `x.fp16-00001-of-00002`, transformers `x-00001-of-00002.fp16`.
        stem, _, tail = rest.partition(".")
        if match := _NUMBERED.fullmatch(stem) or _NUMBERED.fullmatch(rest):
            number, count = int(match["number"]), int(match["count"])
            rest = rest.replace(match[0], match["stem"], 1)
            stem, _, tail = rest.partition(".")
        # Only the format's own names have variants: `sd3.5_large` is a name with a dot.
        if stem in self.stems or stem in self.second_copies:
            return self._named(stem, tail, number, count)
        return self._named(rest, "", number, count)

    def _named(
        self,
        stem: str,
        variant: str,
        number: int = 0,
        count: int = 0,
        *,
        is_index: bool = False,
    ) -> WeightsName:
        precedence = self.stems.index(stem) if stem in self.stems else None
        copy = stem in self.second_copies
        return WeightsName(stem, variant, number, count, is_index, precedence, copy)
