"""How scales are to be found: as an option, a recipe or one of its rules asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, NamedTuple

from importer.codecs.spec import Method, QuantSpec, Target, calibrated
from store.errors import UsageError
from store.text import printable


class Calibrate(NamedTuple):
    """What was asked for; None where nothing was.

    Example:
        >>> Calibrate(Method.MSE).or_else(Calibrate(Method.MINMAX, True))
        Calibrate(method=<Method.MSE: 'mse'>, symmetric=True)
    """

    method: Method | None = None
    symmetric: bool | None = None

    def or_else(self, other: Calibrate) -> Calibrate:
        """Return what this asks for, and what `other` does where this asks for nothing."""
        return Calibrate(
            other.method if self.method is None else self.method,
            other.symmetric if self.symmetric is None else self.symmetric,
        )

    def apply(self, target: Target) -> Target:
        """Return what a tensor becomes with such scales."""
        if not isinstance(target, QuantSpec):
            return target
        method = Method.MINMAX if self.method is None else self.method
        return calibrated(target, method, symmetric=bool(self.symmetric))


NOTHING: Final = Calibrate()


def by_importance(asked: Calibrate) -> Calibrate:
    """Return what was asked for where there is an importance matrix: the search that reads it.

    Raises:
        UsageError: another way was asked for.
    """
    if asked.method not in {None, Method.MSE}:
        raise UsageError(
            f"an importance matrix is for {Method.MSE}, and {asked.method} is asked for",
            code="E_CALIBRATE_UNUSED",
            facts={"way": "calibrate"},
        )
    return asked._replace(method=Method.MSE)


def parse_calibrate(method: str | None, *, symmetric: bool | None = None) -> Calibrate:
    """Read what was asked for.

    Raises:
        UsageError: there is no such method.
    """
    if method is not None and method not in set(Method):
        known = ", ".join(Method)
        raise UsageError(
            f"`{printable(method)}` is not a way to find scales, expected one of {known}",
            code="E_CALIBRATE",
        )
    return Calibrate(Method(method) if method is not None else None, symmetric)


def check_used(asked: Calibrate, types: Sequence[Target]) -> None:
    """Raise UsageError where none of the types that are asked for has such scales."""
    if asked == NOTHING:
        return
    if not any(isinstance(one, QuantSpec) for one in types):
        raise UsageError(
            f"`{asked.method or 'symmetric'}` is a way to find scales, expected a type that "
            "has them",
            code="E_CALIBRATE_UNUSED",
            facts={"way": "calibrate" if asked.method else "symmetric"},
        )
    if asked.symmetric and not any(
        isinstance(one, QuantSpec) and one.has_bias for one in types
    ):
        raise UsageError(
            f"{types[0]} has no biases: it is symmetric already",
            code="E_CALIBRATE_UNUSED",
            hint="Leave it out: it would change nothing",
        )


def shared(targets: Iterable[Target]) -> Calibrate | None:
    """Return what makes all types as they are, asked for once; None where nothing does."""
    types = [target for target in targets if isinstance(target, QuantSpec)]
    for method, symmetric in product((None, Method.MSE, Method.PERCENTILE), (None, True)):
        asked = Calibrate(method, symmetric)
        if all(asked.apply(target.stored) == target for target in types):
            return asked
    return None
