"""Tables of a recipe's TOML, read strictly: an error names the key that is wrong."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

from importer.codecs.spec import Target, parse_target
from store.errors import InputError, UsageError
from store.text import did_you_mean, printable

_LONG_KEY: Final = re.compile(r"(?<![\w'\"-])(?:[\w'\"-]++[ \t]*+\.[ \t]*+){64}")
"""A key of so many parts; `tomllib` takes 40 s for one of 30 000 (quadratic in its parts)."""


_MOST: Final = 1e9
"""What no number of a table is above."""


class Table:
    """A table of a file.

    Every method that takes a key returns its value, or the default, and raises InputError
    where the value is of another kind.

    Attributes:
        what: the file is to be.
    """

    what = "recipe"

    def __init__(self, name: str, where: str, values: object) -> None:
        self._name, self._where = name, where
        if not isinstance(values, dict):
            self.bad("expected a table")
        self._values = values
        self._read: set[str] = set()

    def text(self, key: str, default: str) -> str:
        """Return text."""
        value = self._get(key, default)
        if not isinstance(value, str):
            self.bad(f"`{key}` is not text")
        return value

    def word(self, key: str, default: str, words: set[Any]) -> str:
        """Return one of some words."""
        value = self.text(key, default)
        if value not in words:
            self.bad(
                f"`{key}` is `{value}`, expected {' or '.join(sorted(words))}",
                did_you_mean(value, words),
            )
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; a single text is a list of one."""
        value = self._get(key, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
            self.bad(f"`{key}` is neither text nor a list of texts")
        return tuple(values)

    def integer(self, key: str, default: int) -> int:
        """Return an integer of 0 or more."""
        value = self._get(key, default)
        if type(value) is not int or value < 0:
            self.bad(f"`{key}` is not an integer of 0 or more")
        return value

    def positive(self, key: str, default: float) -> float:
        """Return a number above 0."""
        value = self._get(key, default)
        if type(value) not in {int, float} or not 0 < value <= _MOST:
            self.bad(f"`{key}` is not a number above 0")
        return float(value)

    def integers(self, key: str) -> tuple[int, ...]:
        """Return a list of integers."""
        value = self._get(key, [])
        if not isinstance(value, list) or not all(type(one) is int for one in value):
            self.bad(f"`{key}` is not a list of integers")
        return tuple(value)

    def boolean(self, key: str, default: bool) -> bool:  # noqa: FBT001
        """Return true or false."""
        value = self._get(key, default)
        if type(value) is not bool:
            self.bad(f"`{key}` is neither true nor false")
        return value

    def has(self, key: str) -> bool:
        """Whether there is a value, which may also be the usual one."""
        self._read.add(key)
        return key in self._values

    def table(self, key: str, known: Sequence[str]) -> Table:
        """Return a table that has no keys but the known ones."""
        found = type(self)(self._name, f"{self._where}{key}: ", self._get(key, {}))
        found._read.update(known)  # noqa: SLF001 - of this class
        found.end()
        return found

    def tables(self, key: str) -> list[object]:
        """Return a list of tables, each to be made a `Table` of."""
        value = self._get(key, [])
        if not isinstance(value, list):
            self.bad(f"`{key}` is written [[{key}]]")
        return value

    def target(self, text: str) -> Target:
        """Return what a tensor becomes, from its spelling."""
        try:
            return parse_target(text)
        except UsageError as error:
            self.bad(str(error), error.hint)

    def end(self, more: Iterable[str] = ()) -> None:
        """Make sure that every key was read: others are mistakes.

        Args:
            more: keys that are not read yet, and no mistakes.
        """
        keys = self._read | set(more)
        if unknown := set(self._values) - keys:
            wrong, known = min(unknown), sorted(keys)
            self.bad(
                f"`{printable(wrong)}` is not a key of a {self.what}",
                _meant(wrong, known) or f"The keys are {', '.join(known)}",
            )

    def bad(self, what: str, hint: str | None = None) -> NoReturn:
        """Raise InputError."""
        bad_recipe(self._name, self._where + what, hint)

    def _get(self, key: str, default: object) -> Any:  # noqa: ANN401 - checked by the callers
        self._read.add(key)
        return self._values.get(key, default)


def _meant(wrong: str, known: Sequence[str]) -> str | None:
    """Return the hint that asks for the key that was meant: like it, or the one it begins."""
    begun = [key for key in known if key.startswith(wrong)]
    if len(begun) == 1:
        return f"Did you mean `{begun[0]}`?"
    return did_you_mean(wrong, known)


def document_of(data: bytes, bad: Callable[[str], NoReturn]) -> dict[str, Any]:
    """Return a TOML document; `bad` is called with what is wrong with it."""
    try:
        text = data.decode()
        if _LONG_KEY.search(text):
            bad("a key has 64 parts or more")
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # A ValueError of Python itself: an integer of more than 4300 digits.
        bad(str(error))


def bad_recipe(name: str, what: str, hint: str | None = None) -> NoReturn:
    """Raise InputError: a file is not a recipe."""
    raise InputError(
        f"recipe `{printable(name)}`: {printable(what, 300)}", code="E_RECIPE", hint=hint
    )
