"""One rule of a recipe: which tensors it takes, and what they become."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from enum import StrEnum, unique
from fnmatch import translate
from typing import Final

from importer.codecs.spec import VALUE_DTYPES, QuantSpec, Target
from importer.recipes.calibrate import NOTHING, Calibrate
from importer.recipes.depths import Depths
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
        experts: of each layer, as config.json tells, or 0 for any number.
        is_requested: whether its type is what was asked for; not recorded with the model.
        calibrate: how the scales of such a type are found; not recorded either.
        factor: how much an error of its tensors matters where types are chosen within a size,
            1 being usual; not recorded either.
        origin: where it comes from; not recorded either.
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
    experts: int = 0
    is_requested: bool = field(default=False, compare=False)
    calibrate: Calibrate = field(default=NOTHING, compare=False)
    factor: float = field(default=1.0, compare=False)
    origin: Origin = field(default=Origin.FILE, compare=False)
    index: int = field(default=0, compare=False)
    # Of the globs, and of those that leave the suffix out; made when a name is looked at. A
    # model has 100 000 names, and `show` looks at few rules of a recipe.
    _pattern: re.Pattern[str] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    _short: re.Pattern[str] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def takes_all(self) -> bool:
        """Whether it takes every tensor."""
        sizes = (self.ndim, self.dtype, self.min_elements)
        conditions = (*sizes, self.layers, self.experts, self.fits)
        return "*" in self.match and not any(conditions)

    def matches(self, name: str) -> bool:
        """Whether one of the globs matches a name."""
        if (self._pattern or self._compile()).match(name):
            return True
        stem = name.removesuffix(_SUFFIX)
        if self._short is None or stem is name:
            return False
        return self._short.match(stem) is not None

    def _compile(self) -> re.Pattern[str]:
        short = tuple(glob for glob in self.match if not glob.endswith(_SUFFIX))
        object.__setattr__(self, "_short", _compiled(short) if short else None)
        pattern = _compiled(self.match)
        object.__setattr__(self, "_pattern", pattern)
        return pattern

    def takes(
        self, name: str, dtype: str, shape: tuple[int, ...], depths: Depths, copies: int = 1
    ) -> bool:
        """Whether a tensor meets all conditions.

        Args:
            name: of the tensor.
            dtype: of its values.
            shape: of the tensor.
            depths: of the model.
            copies: tensors of this shape that become one.
        """
        return (
            (not self.ndim or len(shape) in self.ndim)
            and (not self.dtype or dtype in self.dtype)
            and self.matches(name)
            and elements(shape) * copies >= self.min_elements
            and (not self.layers or depths.within(name, self.layers))
            and (not self.experts or depths.experts == self.experts)
            and (not self.fits or self._suits(dtype, shape))
        )

    def _suits(self, dtype: str, shape: tuple[int, ...]) -> bool:
        spec = self.target
        if not isinstance(spec, QuantSpec):
            return True
        return why_unfit(dtype, shape) is None and shape[-1] % spec.group_size == 0


@functools.cache  # a rule is made again with its type, and once more with its index
def _compiled(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)))


def why_unfit(dtype: str, shape: tuple[int, ...]) -> str | None:
    """Return why such a tensor cannot be quantized to any type, or None."""
    if dtype not in VALUE_DTYPES:
        return f"{dtype} cannot be quantized"
    if len(shape) < 2:  # noqa: PLR2004
        return "it has no rows"
    return None if elements(shape) else "it has no elements"
