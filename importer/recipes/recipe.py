"""Which tensor gets which type, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import Final, NamedTuple

from importer.codecs.spec import (
    CAST_DTYPES,
    DECODE,
    GROUP_SIZES,
    REPACK,
    VALUE_DTYPES,
    Change,
    FloatType,
    QuantSpec,
    Target,
)
from importer.recipes.depths import Depths
from importer.recipes.rule import Origin, Rule, why_unfit
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


class Packed(NamedTuple):
    """How the values of a tensor are packed in the source.

    Attributes:
        kind: the type as people are shown it, such as `gptq int4/128`.
        held_by: the type of the store that holds codes and values exactly, or None.
        computed_in: the dtype that the model computes in.
    """

    kind: str
    held_by: QuantSpec | None
    computed_in: str


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
        imatrix: digest of the importance matrix that searches for scales go by, or empty.
    """

    name: str
    rules: tuple[Rule, ...]
    type: str = ""
    misaligned: Misaligned = Misaligned.KEEP
    stacked: bool = False
    allow_nonfinite: bool = False
    imatrix: str = ""

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

    def decide(  # noqa: PLR0913 - everything that a condition may ask
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        depths: Depths,
        packed: Packed | None = None,
        *,
        copies: int = 1,
    ) -> Decision:
        """Decide what becomes of a tensor.

        Args:
            dtype: of its values.
            packed: how these are packed, or None where they are stored as they are.
            copies: tensors of this shape that become one.

        Raises:
            InputError: it does not fit, and that is an error.
        """
        rule = next(
            rule for rule in self.rules if rule.takes(name, dtype, shape, depths, copies)
        )
        match rule.target:
            case None:
                return Decision(None, rule, rule.reason)
            case FloatType() as wanted:
                return _cast(wanted, rule, dtype, packed)
            case Change() as change:
                return _changed(change, rule, packed)
            case spec:
                decision = self._quantize(spec, rule, name, dtype, shape)
                if packed is None or decision.fits:
                    return decision
                # Codes of one type among those of another are a model that nobody reads.
                return decision._replace(target=FloatType(packed.computed_in))

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
                    smaller = spec._replace(group_size=size)
                    return Decision(smaller, rule, f"{reason}; groups of {size} because {why}")
        return Decision(None, rule, why, fits=False)

    def decoding(self) -> Recipe:
        """Return the recipe for packed tensors: what its preset keeps is decoded.

        A rule of the user's that keeps a tensor keeps its arrays.
        """
        if all(rule.origin is not Origin.PRESET for rule in self.rules):
            return self
        of_preset = (Origin.PRESET, Origin.REST)
        rules = (
            replace(rule, target=DECODE)
            if rule.target is None and rule.origin in of_preset
            else rule
            for rule in self.rules
        )
        return replace(self, rules=tuple(rules))

    def check_used(self, used: Collection[int], names: Iterable[str]) -> list[str]:
        """Make sure that every rule of the user's decided something.

        Args:
            used: the indexes of the rules that did.
            names: of all tensors.

        Returns:
            A note for each role that the model does not have.

        Raises:
            UsageError: a rule decided nothing.
        """
        notes = []
        # "All the rest", at the end, may be nothing.
        rules = self.rules[:-1] if self.rules[-1].takes_all else self.rules
        for rule in rules:
            if not rule.optional and rule.index not in used:
                if rule.origin not in _ROLES or any(map(rule.matches, names)):
                    raise _unused(rule, names)
                notes.append(
                    f"no tensor belongs to {_ROLES[rule.origin]}: the type that was asked for "
                    "it decides nothing"
                )
        return notes


def _cast(wanted: FloatType, rule: Rule, dtype: str, packed: Packed | None) -> Decision:
    if dtype == wanted.dtype and packed is None:
        return Decision(None, rule, f"{rule.reason}; it is {dtype} already")
    if dtype in CAST_DTYPES:
        return Decision(wanted, rule, rule.reason)
    return Decision(None, rule, f"{dtype} is not a float", fits=False)


def _changed(change: Change, rule: Rule, packed: Packed | None) -> Decision:
    if packed is None:
        return Decision(None, rule, "not packed" if change == REPACK else rule.reason)
    if change == DECODE:
        return Decision(FloatType(packed.computed_in), rule, rule.reason)
    if packed.held_by is None:
        why = f"the store has no type that holds {packed.kind} exactly"
        return Decision(None, rule, why, fits=False)
    return Decision(packed.held_by, rule, rule.reason)


def _unused(rule: Rule, names: Iterable[str]) -> UsageError:
    globs = " or ".join(f"`{printable(glob)}`" for glob in rule.match)
    if role := _ROLES.get(rule.origin):
        code, what = "E_ROLE_UNUSED", f"the type for {role} ({globs})"
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
