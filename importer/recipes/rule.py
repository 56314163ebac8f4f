"""One rule of a recipe: which tensors it takes, and what they become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum, unique
from fnmatch import translate
from typing import Final

from importer.codecs.spec import VALUE_DTYPES, QuantSpec, Target
from store.tensorfile import elements

_SUFFIX: Final = ".weight"


@unique
class Origin(StrEnum):
    """Where a rule comes from: an option of the user, a recipe, or neither."""

    RULE = "rule"
    VISION = "vision"
    LM_HEAD = "lm-head"
    EMBEDDING = "embedding"
    FILE = "file"
    PRESET = "preset"
    REST = "rest"
    """The rule that keeps what no other takes."""


@unique
class Layers(StrEnum):
    """Names for sets of layers: layer `i` of `n`."""

    FIRST_LAST_EIGHTH = "first-last-eighth"
    MORE_BITS = "more-bits"
    """The first and the last eighth, and every third between (llama.cpp's `use_more_bits`)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a recipe.

    Attributes:
        match: globs over tensor names; a `.weight` at the end of a name may be left out.
        target: what a tensor becomes that meets all conditions, or None to keep it.
        reason: why; the plan prints it.
        ndim: numbers of dimensions, or empty for any.
        dtype: of the source, or empty for any.
        min_elements: of the tensor.
        layers: `0-3,28-31` or a word of `Layers`, or empty for any.
        fits: whether what does not fit its type is left to the rules after it.
        optional: whether it may decide nothing.
        origin: where it comes from; not recorded with the model.
        index: its position in the recipe, which gives it; not recorded either.
    """

    match: tuple[str, ...]
    target: Target
    reason: str
    ndim: tuple[int, ...] = ()
    dtype: tuple[str, ...] = ()
    min_elements: int = 0
    layers: str = ""
    fits: bool = False
    optional: bool = False
    origin: Origin = field(default=Origin.FILE, compare=False)
    index: int = field(default=0, compare=False)
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the globs once: a model has 100 000 names."""
        object.__setattr__(self, "_pattern", re.compile("|".join(map(translate, self.match))))

    @property
    def takes_all(self) -> bool:
        """Whether it takes every tensor."""
        conditions = (self.ndim, self.dtype, self.min_elements, self.layers, self.fits)
        return "*" in self.match and not any(conditions)

    def matches(self, name: str) -> bool:
        """Whether one of the globs matches a name."""
        if self._pattern.match(name):
            return True
        stem = name.removesuffix(_SUFFIX)
        return stem is not name and self._pattern.match(stem) is not None

    def takes(self, name: str, dtype: str, shape: tuple[int, ...], depths: Depths) -> bool:
        """Whether a tensor meets all conditions."""
        return (
            (not self.ndim or len(shape) in self.ndim)
            and (not self.dtype or dtype in self.dtype)
            and self.matches(name)
            and elements(shape) >= self.min_elements
            and (not self.layers or depths.within(name, self.layers))
            and (not self.fits or self._suits(dtype, shape))
        )

    def _suits(self, dtype: str, shape: tuple[int, ...]) -> bool:
        spec = self.target
        if not isinstance(spec, QuantSpec):
            return True
        return why_unfit(dtype, shape) is None and shape[-1] % spec.group_size == 0


class Depths:
    """The number of layers in each stack of blocks, as the names of the tensors tell it."""

    def __init__(self, names: Iterable[str]) -> None:
        """Count the layers that `names` number; all names of the model are needed."""
        self._counts: dict[str, int] = {}
        for name in names:
            if found := _LAYER.match(name):
                stack, index = found[1], int(found[2])
                self._counts[stack] = max(self._counts.get(stack, 0), index + 1)

    def within(self, name: str, layers: str) -> bool:
        """Whether a tensor is in one of the layers that `layers` names."""
        found = _LAYER.match(name)
        if found is None:
            return False
        index, count = int(found[2]), self._counts[found[1]]
        if layers in set(Layers):
            outer = index < count // 8 or index >= 7 * count // 8
            third = (index - count // 8) % 3 == 2  # noqa: PLR2004
            return outer or (layers == Layers.MORE_BITS and third)
        return any(first <= index <= last for first, last in ranges(layers))


# The first component that is a number; no model has more layers than 9 digits count.
_LAYER: Final = re.compile(r"(.*?[./])([0-9]{1,9})(?=[./])")
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yield first and last of each range of a list such as `0-3,28`.

    Raises:
        ValueError: the text is not such a list.
    """
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise ValueError(part)
        yield int(found[1]), int(found[2] or found[1])


def why_unfit(dtype: str, shape: tuple[int, ...]) -> str | None:
    """Return why such a tensor cannot be quantized to any type, or None."""
    if dtype not in VALUE_DTYPES:
        return f"{dtype} cannot be quantized"
    if len(shape) < 2:  # noqa: PLR2004
        return "it has no rows"
    return None if elements(shape) else "it has no elements"
