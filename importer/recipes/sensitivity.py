"""How much the error of each tensor matters: factors of a file, by name or glob."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from store.errors import InputError, NotFoundError
from store.json import Json, JsonError, loads
from store.text import count, printable

_LARGEST: Final = 64 << 20
"""Bytes of a file: 100 000 names of 200 bytes are a third of it."""
_MOST: Final = 1e30
"""What no factor is above, so that no sum is infinite."""
_SUFFIX: Final = ".weight"
_GLOB: Final = frozenset("*?[")
# mlx-lm keeps the experts of a projection as one module of this name.
_MLX_EXPERTS: Final = (".switch_mlp.", ".experts.*.")


class Sensitivity(NamedTuple):
    """Factors by which the errors of tensors count.

    Attributes:
        factors: of names and globs, in the order of the file.
        is_relative: whether only their ratios mean something, as in a file of mlx-lm's.
    """

    factors: Mapping[str, float]
    is_relative: bool = False

    def of(self, names: Sequence[str]) -> dict[str, float]:
        """Return the factor of each tensor that the file speaks of: its name's, or a glob's.

        A `.weight` at the end may be left out, as in rules.

        Raises:
            InputError: it speaks of none.
        """
        globs = [
            (re.compile(translate(glob)), factor)
            for glob, factor in self.factors.items()
            if _GLOB & {*glob}
        ]
        found: dict[str, float] = {}
        for name in names:
            spellings = (name, name.removesuffix(_SUFFIX))
            exact = (self.factors[one] for one in spellings if one in self.factors)
            matched = (factor for glob, factor in globs if any(map(glob.match, spellings)))
            factor = next(exact, None) or next(matched, None)
            if factor is not None:
                found[name] = factor
        if not found:
            raise InputError(
                f"of {count(len(self.factors), 'factor')} of the sensitivities none is of a "
                "tensor whose type is to be chosen",
                code="E_SENSITIVITY",
            )
        return found


def read_sensitivity(path: str) -> Sensitivity:
    """Read a JSON file: `{"NAME or GLOB": factor}`, or mlx-lm's `[["NAME", number], …]`.

    The second is what `mlx_lm.dynamic_quant` writes: the first-order change of the loss for a
    million weights. Rounding can make it lower the loss; such a number counts as the least
    positive one.

    Raises:
        NotFoundError: there is no such file.
        InputError: it is not such a file.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError) as error:
        message = f"there is no file `{printable(path)}`"
        raise NotFoundError(message, code="E_SENSITIVITY") from error
    if len(data) > _LARGEST:
        _bad(path, f"it has more than {_LARGEST} bytes")
    try:
        document = loads(data, floats=True)
    except JsonError as error:
        _bad(path, str(error))
    if isinstance(document, dict):
        factors = {name: _number(path, name, value) for name, value in document.items()}
        if wrong := next((name for name, value in factors.items() if value <= 0), None):
            _bad(path, f"the factor of `{wrong}` is not above 0")
        is_relative = False
    elif isinstance(document, list):
        factors = dict(_pairs(path, document))
        least = min((value for value in factors.values() if value > 0), default=1.0)
        factors = {name: max(value, least) for name, value in factors.items()}
        is_relative = True
    else:
        _bad(path, "expected an object, or a list of pairs")
    if not factors:
        _bad(path, "it is empty")
    return Sensitivity(factors, is_relative)


def _pairs(path: str, rows: list[Json]) -> Iterator[tuple[str, float]]:
    for row in rows:
        match row:
            case [str(name), value]:
                yield name.replace(*_MLX_EXPERTS), _number(path, name, value)
            case _:
                _bad(path, "expected pairs of a name and a number")


def _number(path: str, name: str, value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _MOST:
        _bad(path, f"the factor of `{name}` is not a number")
    number = float(value)
    if not math.isfinite(number):
        _bad(path, f"the factor of `{name}` is not finite")
    return number


def _bad(path: str, what: str) -> NoReturn:
    raise InputError(
        f"sensitivities `{printable(path)}`: {printable(what, 300)}", code="E_SENSITIVITY"
    )
