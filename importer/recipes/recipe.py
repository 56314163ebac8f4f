"""Which tensor gets which type, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from fnmatch import translate
from typing import Final, NamedTuple

from importer.codecs.spec import GROUP_SIZES, Downcast, QuantSpec, Target
from store.errors import InputError, UsageError
from store.tensorfile import elements
from store.text import printable

_SUFFIX: Final = ".weight"
_QUANTIZED: Final[Mapping[str, str]] = {
    "BF16": "",
    "F16": "",
    "F32": "",
    "F64": "converted to F32 first",
    "F8_E4M3": "converted to BF16 first",
    "F8_E5M2": "converted to BF16 first",
}
"""The dtypes that can be quantized, and what is to be said of it."""
FLOATS: Final = ("F64", "F32", "F16", "BF16")
"""The dtypes that can be downcast."""


@unique
class Misaligned(StrEnum):
    """What becomes of a tensor whose last dimension is no multiple of its group size."""

    KEEP = "keep"
    ADJUST = "adjust"
    """The largest smaller group size that fits."""
    ERROR = "error"


@unique
class Layers(StrEnum):
    """Layers of a model that have a name, for `i` of `n`."""

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
        fits: whether it leaves what does not fit its type to the rules after it.
        optional: whether it may match nothing.
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
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", re.compile("|".join(map(translate, self.match))))

    @property
    def takes_all(self) -> bool:
        """Whether there is no tensor that it does not take."""
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
        return _why_unfit(dtype, shape) is None and shape[-1] % spec.group_size == 0


class Decision(NamedTuple):
    """What becomes of a tensor.

    Attributes:
        rule: that decided.
        reason: the rule's, or why the tensor does not fit it.
        fits: whether the tensor becomes what the rule wants.
    """

    target: Target
    rule: Rule
    reason: str
    fits: bool = True


@dataclass(frozen=True, slots=True)
class Recipe:
    """Ordered rules, of which the first that matches decides.

    Attributes:
        name: as the plan and the model's configuration call it.
        rules: the last one matches everything.
        type: what was asked for, as it is spelled; empty where the rules name all types.
        stacked: whether the experts of a projection become one tensor.
        allow_nonfinite: whether NaN and infinities may be quantized.
    """

    name: str
    rules: tuple[Rule, ...]
    type: str = ""
    misaligned: Misaligned = Misaligned.KEEP
    stacked: bool = False
    allow_nonfinite: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether every tensor is kept."""
        return all(rule.target is None for rule in self.rules)

    def decide(self, name: str, dtype: str, shape: tuple[int, ...], depths: Depths) -> Decision:
        """Decide what becomes of a tensor.

        Raises:
            InputError: it does not fit, and that is an error.
        """
        rule = next(rule for rule in self.rules if rule.takes(name, dtype, shape, depths))
        match rule.target:
            case None:
                return Decision(None, rule, rule.reason)
            case Downcast(wanted):
                if dtype == wanted:
                    return Decision(None, rule, f"{rule.reason}; it is {wanted} already")
                if dtype in FLOATS:
                    return Decision(rule.target, rule, rule.reason)
                return Decision(None, rule, f"{dtype} is not downcast", fits=False)
            case spec:
                return self._quantize(spec, rule, name, dtype, shape)

    def _quantize(
        self, spec: QuantSpec, rule: Rule, name: str, dtype: str, shape: tuple[int, ...]
    ) -> Decision:
        if why := _why_unfit(dtype, shape):
            return Decision(None, rule, why, fits=False)
        reason = rule.reason + (f"; {said}" if (said := _QUANTIZED[dtype]) else "")
        if shape[-1] % spec.group_size == 0:
            return Decision(spec, rule, reason)
        why = f"{shape[-1]} % {spec.group_size} != 0"
        if self.misaligned is Misaligned.ERROR:
            raise InputError(
                f"tensor `{name}` has shape {list(shape)}, {spec.name} in groups of "
                f"{spec.group_size} does not fit: {why}",
                code="E_MISALIGNED",
                hint="`--on-misaligned adjust` takes a smaller group, `keep` leaves it alone",
            )
        if self.misaligned is Misaligned.ADJUST:
            for size in reversed(GROUP_SIZES[spec.mode]):
                if size < spec.group_size and shape[-1] % size == 0:
                    smaller = replace(spec, group_size=size)
                    return Decision(smaller, rule, f"{reason}; groups of {size} because {why}")
        return Decision(None, rule, why, fits=False)

    def check_used(self, used: Iterable[Rule], names: Iterable[str]) -> None:
        """Make sure that every rule of the user's decided something.

        Args:
            used: the rules that did.
            names: of all tensors.

        Raises:
            UsageError: one did not.
        """
        useful = {id(rule) for rule in used}
        # "All the rest", at the end, may be nothing.
        rules = self.rules[:-1] if self.rules[-1].takes_all else self.rules
        for rule in rules:
            if rule.optional or id(rule) in useful:
                continue
            globs = " or ".join(f"`{printable(glob)}`" for glob in rule.match)
            if any(map(rule.matches, names)):
                what = f"the rule for {globs} decides nothing: rules before it, or its own \
conditions, leave it no tensor"
            else:
                what = f"no tensor matches the rule for {globs}"
            raise UsageError(
                what, code="E_RULE_UNUSED", hint="`--dry-run` without it lists the names"
            )


class Depths:
    """How many layers there are in each stack of blocks, told from names."""

    def __init__(self, names: Iterable[str]) -> None:
        """Look at all `names`."""
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


# The first component that is a number; a model has not more layers than 9 digits count.
_LAYER: Final = re.compile(r"(.*?[./])([0-9]{1,9})(?=[./])")
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def ranges(text: str) -> Iterator[tuple[int, int]]:
    """Read `0-3,28`: first and last of each range.

    Raises:
        ValueError: it is no such list.
    """
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise ValueError(part)
        yield int(found[1]), int(found[2] or found[1])


def _why_unfit(dtype: str, shape: tuple[int, ...]) -> str | None:
    if dtype not in _QUANTIZED:
        return f"{dtype} cannot be quantized"
    if len(shape) < 2:  # noqa: PLR2004
        return "it has no rows"
    return None if elements(shape) else "it has no elements"


PLAIN: Final = Recipe("plain", (Rule(("*",), None, "kept as it is", optional=True),))
"""What a `create` without quantization does."""
