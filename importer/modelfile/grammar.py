"""The grammar of a Modelfile, as Ollama's parser reads it (`parser/parser.go`).

A file is UTF-8, or UTF-16 with a byte order mark. An instruction is a word of letters, a blank
or tab, and a value that ends with the line, unless it is within quotes, one or three of them,
where nothing is escaped. `#` begins a comment where an instruction may begin, and nowhere else.
Characters that do not print are dropped, but for blanks, tabs and the ends of lines within
quotes.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, NoReturn

from store.errors import InputError
from store.text import did_you_mean, printable

INSTRUCTIONS: Final = (
    "FROM", "ADAPTER", "DRAFT", "TEMPLATE", "SYSTEM", "PARAMETER", "MESSAGE", "LICENSE",
    "PARSER", "RENDERER", "REQUIRES",
)  # fmt: skip
ROLES: Final = ("system", "user", "assistant")
LARGEST: Final = 2 << 20
"""Bytes of a file; the longest licenses have 100 000. 2 MiB of the worst take 10 s."""


class Place(NamedTuple):
    """Where something begins in a file.

    Attributes:
        name: of the file.
        line: from 1 on.
        column: in characters, from 1 on.
    """

    name: str
    line: int
    column: int

    def bad(self, what: str, hint: str | None = None) -> NoReturn:
        """Raise InputError: the file is not a Modelfile, and here is why."""
        raise InputError(
            f"`{printable(self.name)}`, line {self.line}, column {self.column}: {what}",
            code="E_MODELFILE",
            hint=hint,
        )

    def unknown(self, what: str, word: str, known: Iterable[str]) -> NoReturn:
        """Raise InputError: a word is not one of those that are known there."""
        words = sorted(known)
        hint = did_you_mean(word, words) or f"Known are {', '.join(words)}"
        self.bad(f"{what} `{printable(word)}`", hint)


class Instruction(NamedTuple):
    """One instruction of a Modelfile.

    Attributes:
        name: in capital letters.
        value: without quotes and the blanks around them.
        place: of the name.
        value_place: of the value.
        key: the parameter or role, of PARAMETER and MESSAGE; else empty.
        key_place: where it begins.
    """

    name: str
    value: str
    place: Place
    value_place: Place
    key: str = ""
    key_place: Place = Place("", 0, 0)


def parse(data: bytes, name: str) -> tuple[Instruction, ...]:
    """Read the instructions of a Modelfile, in their order.

    Args:
        data: the whole file.
        name: of the file, for messages.

    Raises:
        InputError: it is not a Modelfile; the message names line and column.
    """
    if len(data) > LARGEST:
        Place(name, 1, 1).bad(f"{len(data)} bytes, the limit is {LARGEST}")
    return tuple(_Reader(_decode(data, name), name).instructions())


_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def _decode(data: bytes, name: str) -> str:
    mark, encoding = next((one for one in _MARKS if data.startswith(one[0])), (b"", "utf-8"))
    try:
        return data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        good = error.object[: error.start].decode(encoding, "replace")
        line = good.count("\n") + 1
        place = Place(name, line, len(good) - (good.rfind("\n") + 1) + 1)
        place.bad(f"the bytes here are not {encoding.upper()[:6].rstrip('-')}")


_SPACE: Final = " \t"
_ENDS: Final = "\r\n"
_BLANK: Final = _SPACE + _ENDS
_QUOTES: Final = ('"""', '"')
_END: Final = re.compile("[\r\n]")


class _Reader:
    """A text, and how far it was read."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._at = 0
        self._line, self._counted, self._begin = 1, 0, 0

    def instructions(self) -> Iterator[Instruction]:
        while (found := self._instruction()) is not None:
            yield found

    def _instruction(self) -> Instruction | None:
        self._skip()
        if self._at == len(self._text):
            return None
        if not _kept(self._text[self._at]):
            self._at += 1  # as Ollama: one character that does not print is dropped here, too
        place = self._place(self._at)
        word = self._letters()
        if word.upper() not in INSTRUCTIONS:
            shown = word or self._text[self._at : self._at + 1]
            place.unknown("there is no instruction", shown.upper(), INSTRUCTIONS)
        name = word.upper()
        self._blank(place, f"{name} has no value")
        key, key_place = "", place
        if name == "PARAMETER":
            key, key_place = self._key("name of a parameter", "0123456789_")
        elif name == "MESSAGE":
            key, key_place = self._key("role", "")
            if key not in ROLES:
                key_place.unknown("there is no role", key, ROLES)
        value, value_place = self._value()
        return Instruction(name, value, place, value_place, key, key_place)

    def _skip(self) -> None:
        """Go to the next instruction, over blanks, ends of lines and comments."""
        text = self._text
        while self._at < len(text):
            if text[self._at] == "#":
                self._at = self._line_end(self._at)
            elif text[self._at] in _BLANK:
                self._at += 1
            else:
                return

    def _letters(self, more: str = "") -> str:
        start, text = self._at, self._text
        while self._at < len(text):
            char = text[self._at]
            if not (char.isascii() and (char.isalpha() or char in more)):
                break
            self._at += 1
        return text[start : self._at]

    def _key(self, what: str, more: str) -> tuple[str, Place]:
        # One blank is enough, and a second one would be an empty key to Ollama.
        place = self._place(self._at)
        key = self._letters(more)
        if not key:
            place.bad(f"expected the {what}")
        self._blank(place, f"`{printable(key)}` has no value")
        return key, place

    def _blank(self, place: Place, otherwise: str) -> None:
        if self._at == len(self._text) or self._text[self._at] in _ENDS:
            place.bad(otherwise)
        if self._text[self._at] not in _SPACE:
            here = self._place(self._at)
            here.bad(f"expected a blank, got `{printable(self._text[self._at])}`")
        self._at += 1

    def _value(self) -> tuple[str, Place]:
        """Read a value: to the end of the line at which what was read is a whole one."""
        text = self._text
        start = self._at
        while start < len(text) and text[start] in _SPACE:
            start += 1
        place = self._place(start)
        quoted = _Quoted()
        begin = self._at
        while True:
            end = self._line_end(start)
            quoted.add(_kept(text[begin:end]))
            if quoted.is_whole:
                break
            # Only a line with a quote can close it.
            begin, start = end, text.find('"', end)
            if start < 0:
                hint = f"End it with {quoted.quote} at the end of a line, as it begins"
                place.bad("the quotes of this value are not closed", hint)
        self._at = end
        return quoted.value, place

    def _line_end(self, start: int) -> int:
        found = _END.search(self._text, start)
        return len(self._text) if found is None else found.start()

    def _place(self, at: int) -> Place:
        # Counted from where it was counted last: files have many lines.
        passed = self._text[self._counted : at]
        self._line += passed.count("\n") + passed.count("\r") - passed.count("\r\n")
        last = max(passed.rfind("\n"), passed.rfind("\r"))
        if last >= 0:
            self._begin = self._counted + last + 1
        self._counted = at
        return Place(self._name, self._line, at - self._begin + 1)


class _Quoted:
    """A value that is read line by line, each once: a license has thousands."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._head = self._last = self._tail = ""
        self._total = self._length = 0

    def add(self, piece: str) -> None:
        """Take one more line, with the end of the one before it."""
        if not self._total:
            piece = piece.lstrip(_BLANK)
        self._pieces.append(piece)
        self._head = (self._head + piece[:_MARKS_LENGTH])[:_MARKS_LENGTH]
        if body := piece.rstrip(_BLANK):
            self._length = self._total + len(body)
            self._tail = (self._last + body)[-_MARKS_LENGTH:]
        self._total += len(piece)
        self._last = (self._last + piece)[-_MARKS_LENGTH:]

    @property
    def is_whole(self) -> bool:
        """Whether the quotes that it begins with are closed."""
        quote = self.quote
        return not quote or (self._length >= 2 * len(quote) and self._tail.endswith(quote))

    @property
    def value(self) -> str:
        """The text within the quotes."""
        text, around = "".join(self._pieces).strip(_BLANK), len(self.quote)
        return text[around : len(text) - around]

    @property
    def quote(self) -> str:
        """What it begins with, if that is a quote."""
        return next((quote for quote in _QUOTES if self._head.startswith(quote)), "")


_MARKS_LENGTH: Final = 3


def _kept(text: str) -> str:
    """Drop what Ollama drops: what does not print, but for blanks, tabs and ends of lines.

    Characters that this Python's Unicode does not know are kept: which these are changes from
    version to version, and bytes must not.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char
        for char in text
        if char in _BLANK or unicodedata.category(char) not in _UNPRINTABLE
    )


_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"})
