"""Patterns of configurations, matched in linear time: those of a checkpoint may be hostile.

A regular expression of Python's may take years for a name of 40 letters. Here a pattern is a
program for a machine that is in all its states at once (Thompson 1968; Pike's machine), and
what is not a regular language, or too large, is not decided.
"""

from __future__ import annotations

import functools
import string
from typing import Final, NamedTuple

_LONGEST: Final = 1000
_STEPS: Final = 4000
"""Instructions of a program."""
_WIDEST: Final = 256
"""Characters of a range."""
_FUEL: Final = 5_000_000
"""States that are gone through for all names: some 5 s."""
_CLASSES: Final = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset(string.whitespace),
}
_SPECIAL: Final = frozenset("^$*+?{}[]()|")
_REPEATED: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class _UndecidedError(Exception):
    """The pattern is not one of those that are matched here."""


class _Any(NamedTuple):
    """One character, in a set or not."""

    chars: frozenset[str]
    is_inverted: bool


class _Edge(NamedTuple):
    """The beginning or the end of the name."""

    is_end: bool


class _Fork(NamedTuple):
    """Go on at each of some distances from here."""

    ahead: tuple[int, ...]


_Program = list[_Any | _Edge | _Fork]


class Patterns:
    """Patterns that match a name from its beginning on, but not always to its end."""

    def __init__(self) -> None:
        """Begin with as much time as all names may take."""
        self._fuel = _FUEL

    def match(self, text: str, name: str) -> bool | None:
        r"""Return whether a name matches a pattern, or None where that is not decided.

        Example:
            >>> Patterns().match(r".*\.down_proj$", "model.layers.0.mlp.down_proj")
            True
        """
        found = _program(text)
        if found is None:
            return None
        program, start = found
        if not name.startswith(start):
            return False
        if self._fuel < 0:
            return None
        matches, steps = _run(program, name)
        self._fuel -= steps
        return matches


@functools.lru_cache(4096)
def _program(text: str) -> tuple[_Program, str] | None:
    """Return the program of a pattern, and what every name that matches begins with."""
    try:
        if len(text) > _LONGEST:
            return None
        reader = _Reader(text)
        program = reader.alternatives(0)
    except (_UndecidedError, IndexError):
        return None
    if reader.at != len(text):
        return None
    start = ""
    is_anchored = program[:1] == [_Edge(is_end=False)]
    for step in program[1:] if is_anchored else program:
        if not isinstance(step, _Any) or step.is_inverted or len(step.chars) != 1:
            break
        start += min(step.chars)
    return program, start


def _run(program: _Program, name: str) -> tuple[bool, int]:
    """Return whether a name matches, and how many states were gone through."""
    end, steps = len(program), 0
    states: set[int] = set()
    _follow(program, 0, 0, len(name), states)
    for at, char in enumerate(name, 1):
        if end in states or not states:
            break
        reached: set[int] = set()
        steps += len(states)
        for state in states:
            step = program[state]
            if isinstance(step, _Any) and (char in step.chars) != step.is_inverted:
                _follow(program, state + 1, at, len(name), reached)
        states = reached
    return end in states, steps


def _follow(program: _Program, start: int, at: int, length: int, states: set[int]) -> None:
    """Add a state, and those that are reached from it without a character."""
    waiting = [start]
    while waiting:
        state = waiting.pop()
        if state in states:
            continue
        states.add(state)
        if state == len(program):
            continue
        step = program[state]
        if isinstance(step, _Fork):
            waiting += [state + ahead for ahead in step.ahead]
        elif isinstance(step, _Edge) and at == (length if step.is_end else 0):
            waiting.append(state + 1)


class _Reader:
    """Reads a pattern to a program."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def alternatives(self, depth: int) -> _Program:
        """Read up to the end, or to a closing parenthesis."""
        if depth > 20:  # noqa: PLR2004 - each is a call of this function
            raise _UndecidedError
        program = self._sequence(depth)
        while self._take("|"):
            other = self._sequence(depth)
            head, tail = _Fork((1, len(program) + 2)), _Fork((len(other) + 1,))
            program = [head, *program, tail, *other]
        return program

    def _sequence(self, depth: int) -> _Program:
        program: _Program = []
        while self.at < len(self._text) and self._text[self.at] not in "|)":
            program += self._repeated(self._atom(depth))
            if len(program) > _STEPS:
                raise _UndecidedError
        return program

    def _atom(self, depth: int) -> _Program:
        char = self._next()
        match char:
            case "(":
                if self._take("?") and not self._take(":"):
                    raise _UndecidedError  # lookahead, flags, names
                inner = self.alternatives(depth + 1)
                if not self._take(")"):
                    raise _UndecidedError
                return inner
            case "[":
                return [self._class()]
            case ".":
                return [_Any(frozenset("\n"), is_inverted=True)]
            case "^" | "$":
                return [_Edge(char == "$")]
            case "\\":
                return [self._escaped()]
            case _ if char in _SPECIAL:
                raise _UndecidedError
            case _:
                return [_Any(frozenset(char), is_inverted=False)]

    def _repeated(self, program: _Program) -> _Program:
        if self.at == len(self._text) or self._text[self.at] not in "*+?{":
            return program
        if len(program) == 1 and isinstance(program[0], _Edge):
            raise _UndecidedError
        char = self._next()
        least, most = _REPEATED[char] if char in _REPEATED else self._counts()
        if self.at < len(self._text) and self._text[self.at] in "+*{":
            raise _UndecidedError  # possessive
        self._take("?")  # lazy: the same names
        size = len(program)
        if max(least, most or 0) * (size + 2) > _STEPS:
            raise _UndecidedError
        made = program * least
        if most is None:
            return [*made, _Fork((1, size + 2)), *program, _Fork((-size - 1,))]
        for _ in range(most - least):
            made += [_Fork((1, size + 1)), *program]
        return made

    def _counts(self) -> tuple[int, int | None]:
        body, found, rest = self._text[self.at :].partition("}")
        least, comma, most = body.partition(",")
        numbers = [least, most] if most else [least]
        if not found or not all(one.isascii() and one.isdigit() for one in numbers):
            raise _UndecidedError
        if any(len(one) > 4 for one in numbers):  # noqa: PLR2004 - digits
            raise _UndecidedError
        if most and int(most) < int(least):
            raise _UndecidedError  # to one matcher nothing, to another a mistake
        self.at = len(self._text) - len(rest)
        return int(least), int(most) if most else None if comma else int(least)

    def _class(self) -> _Any:
        is_inverted, chars = self._take("^"), set[str]()
        if self._text[self.at] == "]":
            raise _UndecidedError
        while (char := self._next()) != "]":
            if char == "[":
                raise _UndecidedError  # named classes
            if char == "\\":
                escaped = self._escaped()
                if escaped.is_inverted or self._text[self.at] == "-":
                    raise _UndecidedError
                chars |= escaped.chars
                continue
            chars.add(char)
            if self._text[self.at] == "-" and self._text[self.at + 1] != "]":
                self.at += 1
                if self._text[self.at] in "\\[":
                    raise _UndecidedError
                codes = range(ord(char), ord(self._next()) + 1)
                if not 0 < len(codes) <= _WIDEST:
                    raise _UndecidedError
                chars |= set(map(chr, codes))
        return _Any(frozenset(chars), is_inverted)

    def _escaped(self) -> _Any:
        char = self._next()
        if char.lower() in _CLASSES:
            return _Any(_CLASSES[char.lower()], char.isupper())
        if char.isalnum():
            raise _UndecidedError
        return _Any(frozenset(char), is_inverted=False)

    def _next(self) -> str:
        self.at += 1
        return self._text[self.at - 1]

    def _take(self, char: str) -> bool:
        is_there = self._text.startswith(char, self.at)
        self.at += is_there
        return is_there
