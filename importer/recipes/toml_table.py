"""Tables of a recipe's TOML, read strictly: what is wrong is told by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from importer.codecs.spec import Target, parse_target
from store.errors import InputError, UsageError
from store.text import printable


class Table:
    """A table of a file.

    Every method gives the value of a key, or the default, and raises InputError where the
    value is no such thing.
    """

    def __init__(self, name: str, where: str, values: object) -> None:
        self._name, self._where = name, where
        if not isinstance(values, dict):
            self.bad("expected a table")
        self._values = values
        self._read: set[str] = set()

    def text(self, key: str, default: str) -> str:
        """Text."""
        value = self._get(key, default)
        if not isinstance(value, str):
            self.bad(f"`{key}` is no text")
        return value

    def word(self, key: str, default: str, words: set[Any]) -> str:
        """One of some words."""
        value = self.text(key, default)
        if value not in words:
            self.bad(f"`{key}` is `{value}`, expected {' or '.join(sorted(words))}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single one is a list, too."""
        value = self._get(key, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
            self.bad(f"`{key}` is no text, nor a list of texts")
        return tuple(values)

    def integer(self, key: str, default: int) -> int:
        """A number of 0 or more."""
        value = self._get(key, default)
        if type(value) is not int or value < 0:
            self.bad(f"`{key}` is no number of 0 or more")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of numbers."""
        value = self._get(key, [])
        if not isinstance(value, list) or not all(type(one) is int for one in value):
            self.bad(f"`{key}` is no list of numbers")
        return tuple(value)

    def boolean(self, key: str, default: bool) -> bool:  # noqa: FBT001
        """True or false."""
        value = self._get(key, default)
        if type(value) is not bool:
            self.bad(f"`{key}` is neither true nor false")
        return value

    def table(self, key: str, known: Sequence[str]) -> Table:
        """A table with no keys but the known."""
        found = Table(self._name, f"{self._where}{key}: ", self._get(key, {}))
        found._read.update(known)
        found.end()
        return found

    def tables(self, key: str) -> list[object]:
        """A list of tables, to be made into `Table`."""
        value = self._get(key, [])
        if not isinstance(value, list):
            self.bad(f"`{key}` is written [[{key}]]")
        return value

    def target(self, text: str) -> Target:
        """Read what a tensor becomes."""
        try:
            return parse_target(text)
        except UsageError as error:
            self.bad(str(error))

    def end(self) -> None:
        """Make sure that every key was asked for."""
        if unknown := set(self._values) - self._read:
            self.bad(f"`{min(unknown)}` is no key of a recipe")

    def bad(self, what: str) -> NoReturn:
        """Raise InputError."""
        bad_recipe(self._name, self._where + what)

    def _get(self, key: str, default: object) -> Any:  # noqa: ANN401 - checked by the callers
        self._read.add(key)
        return self._values.get(key, default)


def bad_recipe(name: str, what: str) -> NoReturn:
    """Say that a file is no recipe."""
    raise InputError(
        f"recipe `{printable(name)}`: {printable(what, 300)}",
        code="E_RECIPE",
        hint="docs/recipes.md describes the format; `ingot show NAME --recipe` prints one",
    )
