"""Modules that a configuration leaves out of quantization, however it says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from importer.sources.schemes.declaration import declaration
from importer.sources.schemes.patterns import Patterns
from store.json import Json

_KEYS: Final = (
    *("ignore", "exclude_modules", "modules_to_not_convert", "llm_int8_skip_modules"),
    "ignored_layers",
)
_EXPRESSION: Final = "re:"
_MIXED: Final = "MIXED_PRECISION"
_FUEL: Final = 10_000_000
_PATTERN: Final = 100
"""What a pattern takes of the fuel, of which a word takes 1: all of it is some 5 s."""


class NotQuantized:
    """The modules that are left out.

    Names, parts of names, globs and expressions all count: each program reads them in its own
    way, and what one of them may leave out is not taken for damaged.
    """

    def __init__(self, config: Mapping[str, Json]) -> None:
        """Read the lists of a configuration."""
        said = declaration(config)
        lists = (said.get(key) for key in _KEYS)
        named = (one for words in lists for one in (words if isinstance(words, list) else ()))
        words = [word for word in named if isinstance(word, str) and word]
        self._words = [word for word in words if not word.startswith(_EXPRESSION)]
        self._spelled = [pattern for word in words for pattern in _spelled(word)]
        self._patterns, self._fuel = Patterns(), _FUEL
        self._layers = said.get("quantized_layers")
        self._is_mixed = str(said.get("quant_algo")).upper() == _MIXED
        self._mlx = config.get("quantization")

    def has(self, module: str) -> bool:
        """Return whether a module may be one of them."""
        if self._is_mixed and isinstance(self._layers, dict) and module not in self._layers:
            return True
        if isinstance(self._mlx, dict) and not self._is_of_mlx(self._mlx, module):
            return True
        self._fuel -= len(self._words) + _PATTERN * len(self._spelled)
        if self._fuel < 0 or any(word in module for word in self._words):
            return True
        return any(
            self._patterns.match(pattern, module) is not False for pattern in self._spelled
        )

    def _is_of_mlx(self, said: Mapping[str, Json], module: str) -> bool:
        if module in said:
            return said[module] is not False
        return any(said.get(key) is not None for key in ("bits", "group_size", "mode"))


def _spelled(word: str) -> Iterator[str]:
    """Yield a word as an expression, and as a glob, where it may be one."""
    if word.startswith(_EXPRESSION):
        yield word.removeprefix(_EXPRESSION)
    elif any(char in word for char in "*?+[(|^$\\"):
        yield word
        yield ".*".join(_escaped(part) for part in word.split("*")) + "$"


def _escaped(text: str) -> str:
    return "".join(char if char.isalnum() or char == "_" else f"\\{char}" for char in text)
