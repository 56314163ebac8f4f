"""Which tensor gets which type, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import Final, NamedTuple

from importer.codecs.spec import (
    DOWNCAST_DTYPES,
    GROUP_SIZES,
    VALUE_DTYPES,
    Downcast,
    QuantSpec,
    Target,
)
from importer.recipes.rule import Depths, Origin, Rule, why_unfit
from store.errors import InputError, UsageError
from store.text import printable


@unique
class Misaligned(StrEnum):
    """What becomes of a tensor whose last dimension is not a multiple of its group size."""

    KEEP = "keep"
    ADJUST = "adjust"
    """The largest smaller group size that fits."""
    ERROR = "error"


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
        rules: the last one matches everything; each knows its index here.
        type: what was asked for, as it is spelled; empty where the rules name all types.
        misaligned: what becomes of a tensor that groups do not fit.
        stacked: whether the experts of a projection become one tensor.
        allow_nonfinite: whether NaN and infinities may be quantized.
    """

    name: str
    rules: tuple[Rule, ...]
    type: str = ""
    misaligned: Misaligned = Misaligned.KEEP
    stacked: bool = False
    allow_nonfinite: bool = False

    def __post_init__(self) -> None:
        """Number the rules."""
        numbered = (
            rule if rule.index == index else replace(rule, index=index)
            for index, rule in enumerate(self.rules)
        )
        object.__setattr__(self, "rules", tuple(numbered))

    @property
    def is_plain(self) -> bool:
        """Whether every tensor is kept."""
        return all(rule.target is None for rule in self.rules)

    def decide(
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        depths: Depths,
        *,
        is_plain: bool = True,
    ) -> Decision:
        """Decide what becomes of a tensor.

        Args:
            dtype: of its values.
            is_plain: whether these are stored as such, and not as codes and scales.

        Raises:
            InputError: it does not fit, and that is an error.
        """
        rule = next(rule for rule in self.rules if rule.takes(name, dtype, shape, depths))
        match rule.target:
            case None:
                return Decision(None, rule, rule.reason)
            case Downcast(wanted):
                if dtype == wanted and is_plain:
                    return Decision(None, rule, f"{rule.reason}; it is {wanted} already")
                if dtype in DOWNCAST_DTYPES:
                    return Decision(rule.target, rule, rule.reason)
                return Decision(None, rule, f"{dtype} is not downcast", fits=False)
            case spec:
                return self._quantize(spec, rule, name, dtype, shape)

    def _quantize(
        self, spec: QuantSpec, rule: Rule, name: str, dtype: str, shape: tuple[int, ...]
    ) -> Decision:
        if why := why_unfit(dtype, shape):
            return Decision(None, rule, why, fits=False)
        value_dtype, reason = VALUE_DTYPES[dtype], rule.reason
        if value_dtype != dtype:
            reason += f"; converted to {value_dtype} first"
        if shape[-1] % spec.group_size == 0:
            return Decision(spec, rule, reason)
        why = f"{shape[-1]} % {spec.group_size} != 0"
        if self.misaligned is Misaligned.ERROR:
            raise InputError(
                f"tensor `{name}` has shape {list(shape)}, {spec.name} in groups of "
                f"{spec.group_size} does not fit: {why}",
                code="E_MISALIGNED",
            )
        if self.misaligned is Misaligned.ADJUST:
            for size in reversed(GROUP_SIZES[spec.mode]):
                if size < spec.group_size and shape[-1] % size == 0:
                    smaller = replace(spec, group_size=size)
                    return Decision(smaller, rule, f"{reason}; groups of {size} because {why}")
        return Decision(None, rule, why, fits=False)

    def check_used(self, used: Collection[int], names: Iterable[str]) -> None:
        """Make sure that every rule of the user's decided something.

        Args:
            used: the indexes of the rules that did.
            names: of all tensors.

        Raises:
            UsageError: one did not.
        """
        # "All the rest", at the end, may be nothing.
        rules = self.rules[:-1] if self.rules[-1].takes_all else self.rules
        for rule in rules:
            if not rule.optional and rule.index not in used:
                raise _unused(rule, names)


def _unused(rule: Rule, names: Iterable[str]) -> UsageError:
    globs = " or ".join(f"`{printable(glob)}`" for glob in rule.match)
    if role := _ROLES.get(rule.origin):
        code, what = "E_ROLE_UNUSED", f"the type for {role}"
        nothing = f"no tensor belongs to {role}: no name matches {globs}"
    else:
        code, what = "E_RULE_UNUSED", f"the rule for {globs}"
        nothing = f"no tensor matches {what}"
    if any(map(rule.matches, names)):
        why = "rules before it, or its own conditions, leave it no tensor"
        nothing = f"{what} decides nothing: {why}"
    return UsageError(nothing, code=code, facts={"role": rule.origin})


_ROLES: Final = {
    Origin.VISION: "the vision tower",
    Origin.LM_HEAD: "the output layer",
    Origin.EMBEDDING: "the embeddings",
}
_KEPT: Final = Rule(("*",), None, "kept as it is", optional=True, origin=Origin.REST)
PLAIN: Final = Recipe("plain", (_KEPT,))
"""What is done where nothing was asked for."""
