"""Which tensor gets which type, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from importer.quant import QuantSpec


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a recipe.

    Attributes:
        pattern: a glob over tensor names.
        quant: the type that a matching tensor gets, or None to keep it.
        reason: why; the plan prints it.
    """

    pattern: str
    quant: QuantSpec | None
    reason: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """Ordered rules, of which the first that matches decides.

    Attributes:
        name: as the plan and the model's configuration call it.
    """

    name: str
    rules: tuple[Rule, ...]

    def decide(self, tensor: str) -> Rule:
        """The rule for a tensor; the last rule of a recipe matches everything."""
        return next(rule for rule in self.rules if fnmatchcase(tensor, rule.pattern))

    def quantizes(self) -> Iterable[QuantSpec]:
        """The types that a tensor may get."""
        return (rule.quant for rule in self.rules if rule.quant is not None)


PLAIN: Final = Recipe("plain", (Rule("*", None, "kept as it is"),))
"""What a `create` without quantization does."""
