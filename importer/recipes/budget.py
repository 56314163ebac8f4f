"""A size that a model is to have, and the types that may be chosen to meet it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from importer.codecs.spec import (
    GROUP_SIZES,
    QUANT_TYPES,
    TARGETS,
    Change,
    FloatType,
    Mode,
    QuantSpec,
    Target,
    parse_target,
)
from importer.recipes.sensitivity import Sensitivity, read_sensitivity
from store.errors import UsageError
from store.text import printable

PRESET: Final = "budget"
"""The recipe whose types are chosen where none is named."""
_MOST_BITS: Final = 64
_NUMBER: Final = r"\d{1,2}(?:\.\d{1,9})?"
_TWO_BITS: Final = 2


class Budget(NamedTuple):
    """What was asked for.

    Attributes:
        nbytes: that the whole model may have, or None.
        bits: for each weight, as `show` counts them, or None.
        allow: what a tensor may become, each once.
        sensitivity: factors of tensors, in place of those of the recipe, or None.
    """

    nbytes: int | None
    bits: Fraction | None
    allow: tuple[Target, ...]
    sensitivity: Sensitivity | None = None


def parse_budget(
    nbytes: int | None,
    bits: str | None,
    allow: Sequence[str] = (),
    sensitivity: str | None = None,
) -> Budget | None:
    """Read what was asked for; None where nothing was.

    Args:
        nbytes: of the whole model.
        bits: for each weight, a decimal number.
        allow: types, as they are spelled; none for those that are usual.
        sensitivity: the path of a file.

    Raises:
        UsageError: a word is not what it should be, or the words do not go together.
        NotFoundError: there is no such file.
        InputError: it is not a file of factors.
    """
    if nbytes is None and bits is None:
        if allow or sensitivity:
            given = printable(sensitivity or ",".join(allow))
            message = f"`{given}` is for types that are chosen within a size, and none is given"
            word = "sensitivity" if sensitivity else "allow"
            raise UsageError(message, code="E_BUDGET_UNUSED", facts={"word": word})
        return None
    if nbytes is not None and bits is not None:
        message = f"{nbytes:,} bytes and `{printable(bits)}` bits a weight are two budgets"
        raise UsageError(message, code="E_BUDGET_TWICE")
    return Budget(
        nbytes,
        None if bits is None else _bits(bits),
        tuple(dict.fromkeys(_targets(allow))),
        None if sensitivity is None else read_sensitivity(sensitivity),
    )


def recipe_of(quantize: str | None, recipe: str | None) -> str:
    """Return the name of the recipe whose types a budget chooses.

    Raises:
        UsageError: a type is asked for, too.
    """
    if quantize is not None:
        message = (
            f"`{printable(quantize)}` cannot be combined with a target size, which chooses "
            "the types"
        )
        raise UsageError(message, code="E_BUDGET_TYPE")
    return recipe or PRESET


def _targets(allow: Sequence[str]) -> Sequence[Target]:
    if not allow:
        return _USUAL
    found = [parse_target(text, ALLOWED) for text in allow]
    for text, target in zip(allow, found, strict=True):
        if isinstance(target, Change):
            raise UsageError(
                f"`{printable(text)}` is not a type to choose, expected {', '.join(ALLOWED)}",
                code="E_QUANT_TYPE",
            )
    return found


def _usual() -> tuple[Target, ...]:
    """Return every int type in every group, BF16, and what keeps a tensor.

    Not those of 2 bits, which break a tensor, nor float types of 4 and 8, which an int type of
    no more bits is as good as.
    """
    found: list[Target] = [
        QuantSpec(spec.name, spec.mode, spec.bits, size)
        for spec in QUANT_TYPES.values()
        if spec.mode is Mode.AFFINE and spec.bits > _TWO_BITS
        for size in reversed(GROUP_SIZES[spec.mode])
    ]
    return (*found, FloatType("BF16"), None)


_USUAL: Final = _usual()
ALLOWED: Final = tuple(word for word in TARGETS if not isinstance(parse_target(word), Change))
"""Words for what a tensor may become."""


def _bits(text: str) -> Fraction:
    found = re.fullmatch(_NUMBER, text.strip(), re.ASCII)
    bits = Fraction(found[0]) if found else Fraction(0)
    if not 0 < bits <= _MOST_BITS:
        raise UsageError(
            f"`{printable(text)}` bits for a weight: expected a decimal number above 0 and "
            f"at most {_MOST_BITS}",
            code="E_BUDGET_BITS",
        )
    return bits
