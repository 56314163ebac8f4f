"""What is known of each class of models that can become a GGUF file."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

from store.errors import UnsupportedError
from store.json import Json
from store.text import printable

_TABLE: Final = "architectures.toml"


@dataclass(frozen=True, slots=True)
class Architecture:
    """A class, as architectures.toml describes it.

    Attributes:
        variant: the table of its tensors' names.
        vocabulary: how that is found.
        parameters: lines for the keys.
        first: lines for keys before all others.
        drops: how the names of tensors that are left out begin.
        prefix: before the names of its tensors.
        strips: before names in its files, and not in those of the table.
        fixed: values in place of the configuration's.
        instead: variants in place of the first, each by how a name ends that it alone has.
        further: the key that counts blocks after those that the configuration counts.
        skips_padding: whether the first positions, up to the padding token's number, are none.
        stacks_in_order: stems of stacks of experts that are not written by their names.
        numbers: keys with a number for each block, by the end of the name of the scalar.
    """

    variant: str
    vocabulary: str
    parameters: tuple[str, ...]
    first: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    prefix: str = ""
    strips: str = ""
    further: str = ""
    skips_padding: bool = False
    stacks_in_order: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Json] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)

    def spelled(self, names: Iterable[str]) -> str:
        """Return the variant that a model of such tensors has."""
        ends = tuple(self.instead)
        found = next((name for name in names if ends and name.endswith(ends)), None)
        if found is None:
            return self.variant
        return next(one for end, one in self.instead.items() if found.endswith(end))

    @property
    def name(self) -> str:
        """GGUF's name of the architecture."""
        return self.variant.partition("+")[0]


def architecture_of(name: str) -> Architecture:
    """Return what is known of a class.

    Args:
        name: as config.json has it among its `architectures`.

    Raises:
        UnsupportedError: nothing is.
    """
    found = _tables().get(name)
    if found is None:
        shown = f"`{printable(name)}`" if name else "that the configuration does not name"
        raise UnsupportedError(
            f"the architecture {shown} as GGUF: known are {', '.join(sorted(_tables()))}",
            code="E_EXPORT_FORMAT",
        )
    made: dict[str, Any] = {}
    while found is not None:
        made = {**found, **made}
        like = found.get("like")
        found = _tables()[like] if like else None
    made.pop("like", None)
    for key in ("parameters", "first", "drops", "stacks_in_order"):
        made[key] = tuple(made.get(key, ()))
    return Architecture(**made)


@functools.cache
def _tables() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath(_TABLE).read_text(encoding="utf-8")
    return tomllib.loads(text)
