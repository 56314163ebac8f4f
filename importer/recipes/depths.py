"""How deep a model is, and which of its layers a word of a recipe means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

from store.json import Json

_NOTHING: Final[Mapping[str, Json]] = MappingProxyType({})


@unique
class Layers(StrEnum):
    """Names for sets of layers: layer `i` of `n`."""

    FIRST_LAST_EIGHTH = "first-last-eighth"
    MORE_BITS = "more-bits"
    """The first and the last eighth, and every third between (llama.cpp's `use_more_bits`)."""
    MORE_BITS_EARLY = "more-bits-early"
    """As `more-bits`, but of the layers between only those well before the middle."""
    KNOWN = "known"
    """Every layer, where config.json tells how many there are; no layer elsewhere."""
    KNOWN_MORE_BITS = "known-more-bits"
    """As `more-bits`, where config.json tells how many layers there are."""
    DENSE = "dense"
    """Those without routed experts, as config.json names them; without a word, the first."""


class Depths:
    """The number of layers in each stack of blocks.

    config.json tells it of the language model, the names of the tensors of everything else:
    a checkpoint may lack layers, and Ollama asks the configuration.
    """

    def __init__(self, names: Iterable[str], config: Mapping[str, Json] = _NOTHING) -> None:
        """Count the layers that `names` number; all names of the model are needed.

        Args:
            names: of the tensors.
            config: the config.json of the model.
        """
        self._counts: dict[str, int] = {}
        self._known = _first(config, "num_hidden_layers") or _count(
            config.get("mlp_layer_types")
        )
        self._dense = frozenset(_dense(config)) or frozenset({0})
        self.experts: Final = _first(config, "num_experts")
        """Experts of each layer, as config.json tells, or 0."""
        for name in names:
            if found := _LAYER.match(name):
                stack, index = found[1], int(found[2])
                self._counts[stack] = max(self._counts.get(stack, 0), index + 1)

    def within(self, name: str, layers: str) -> bool:
        """Whether a tensor is in one of the layers that `layers` names."""
        found = _LAYER.match(name)
        if found is None:
            return False
        index, known = (
            int(found[2]),
            0 if any(word in found[1] for word in _TOWERS) else self._known,
        )
        count = known or self._counts.get(found[1], 0)
        if layers == Layers.DENSE:
            return index in self._dense
        if layers in _KNOWN and not known:
            return False
        if layers in _ENDS:
            return _has_more_bits(index, count, _ENDS[layers](count))
        return layers == Layers.KNOWN or any(
            first <= index <= last for first, last in ranges(layers)
        )


_KNOWN: Final = frozenset({Layers.KNOWN, Layers.KNOWN_MORE_BITS})
_ENDS: Final[Mapping[str, Callable[[int], int]]] = {
    Layers.MORE_BITS: lambda count: count,
    Layers.KNOWN_MORE_BITS: lambda count: count,
    Layers.MORE_BITS_EARLY: lambda count: count // 2 - 4,
    Layers.FIRST_LAST_EIGHTH: lambda _: 0,
}
"""Before which layer of `count` every third has more bits."""


def layer_number(name: str) -> range | None:
    """Return where in a tensor's name the number of its layer stands, or None without one."""
    found = _LAYER.match(name)
    return None if found is None else range(*found.span(2))


def spelled_ranges(numbers: Iterable[int]) -> str:
    """Return numbers of layers as `ranges` reads them.

    Example:
        >>> spelled_ranges([3, 0, 1, 2, 28])
        '0-3,28'
    """
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


def _has_more_bits(index: int, count: int, end: int) -> bool:
    """Whether layer `index` of `count` is in an outer eighth, or a third one before `end`."""
    first = count // 8
    outer = index < first or index >= 7 * count // 8
    return outer or (index < end and (index - first) % 3 == 2)  # noqa: PLR2004


def _first(config: Mapping[str, Json], key: str) -> int:
    """Return the first number that a configuration has under a key, its parts' included."""
    parts = [config, *(config.get(part) for part in _PARTS)]
    numbers = (part.get(key) for part in parts if isinstance(part, Mapping))
    found = (number for number in numbers if type(number) is int and number > 0)
    return min(next(found, 0), _DEEPEST)


def _count(value: Json) -> int:
    return len(value) if isinstance(value, list) else 0


def _dense(config: Mapping[str, Json]) -> Iterator[int]:
    kinds, only = config.get("mlp_layer_types"), config.get("mlp_only_layers")
    for index, kind in enumerate(kinds if isinstance(kinds, list) else ()):
        if kind == "dense":
            yield index
    for layer in only if isinstance(only, list) else ():
        if type(layer) is int:
            yield layer


_PARTS: Final = ("text_config", "llm_config")
_DEEPEST: Final = 10**9
# The first component that is a number; no model has more layers than 9 digits count.
_LAYER: Final = re.compile(r"(.*?[./])([0-9]{1,9})(?=[./])")
_TOWERS: Final = ("vision", "visual", "audio", "sound")
_RANGE: Final = "([0-9]{1,9})(?:-([0-9]{1,9}))?"


def ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yield first and last of each range of a list such as `0-3,28`.

    Raises:
        ValueError: the text is not such a list.
    """
    for part in text.split(","):
        found = re.fullmatch(_RANGE, part.strip())
        if found is None:
            raise ValueError(part)
        yield int(found[1]), int(found[2] or found[1])
