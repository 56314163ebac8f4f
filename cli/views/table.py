"""Tables that fit the terminal: where it is narrow, columns go and long cells are cut."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TextIO

from store.text import printable

_GAPS: Final = (4, 2)
"""Blanks between columns, and where the terminal is narrow."""
_NARROWEST: Final = 40
_LEAST: Final = 14
"""Characters that a cut cell keeps."""
_NAME: Final = 40
_TEXT: Final = 24
"""Characters that are enough of a name and of a text: no column goes to show more of them."""
_LONGEST: Final = 4096
_TYPED: Final = ("--", "next: ")
"""How a line begins that is to be typed."""
_HANG: Final = "  "
_GOES_ON: Final = " \\"
_FULL: Final = 20
"""Characters of a bar where there is room for everything."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal, or None where nothing limits a line.

    Args:
        stream: that is written to, by default stdout.

    `COLUMNS` decides where it is set, as for git and Python. What goes to a pipe or a file
    without it is not cut: a program reads it.
    """
    if (told := os.environ.get("COLUMNS", "")).isdecimal() and int(told[:6]):
        return max(int(told[:6]), _NARROWEST)
    try:
        columns = os.get_terminal_size((stream or sys.stdout).fileno()).columns
    except (AttributeError, ValueError, OSError):
        return None
    return max(columns, _NARROWEST) if columns else None


def table(
    rows: Iterable[Sequence[str]],
    indent: int = 0,
    right: Iterable[int] = (),
    spare: Sequence[int] = (),
    cut: Sequence[int] = (0,),
) -> list[str]:
    """Align rows in columns that fit the terminal, untrusted cells escaped.

    Args:
        rows: of cells, all of one length.
        indent: blanks before each line.
        right: the columns that are aligned to the right.
        spare: the columns that are left out where the terminal is narrow, the first one first.
        cut: the columns whose cells are cut where that is not enough, the first one first.
    """
    cells = [list(map(_safe, row)) for row in rows]
    if not cells:
        return []
    shown, gap, widths = _fitted(cells, indent, spare, cut)
    to_right = set(right)
    lines = []
    for row in cells:
        padded = []
        for column in shown:
            cell = row[column]
            if (taken := width_of(cell)) > widths[column]:
                cell = cut_to(cell, widths[column])
                taken = width_of(cell)
            blanks = " " * (widths[column] - taken)
            padded.append(blanks + cell if column in to_right else cell + blanks)
        lines.append(" " * indent + (" " * gap).join(padded).rstrip())
    return lines


def facts(rows: Iterable[tuple[str, str]], indent: int) -> list[str]:
    """Align names and values; a value that is too long goes on in the next line."""
    cells = [(printable(name), printable(value, _LONGEST)) for name, value in rows]
    names = max((width_of(name) for name, _ in cells), default=0)
    limit = terminal_width()
    gap = _GAPS[0] if limit is None or limit > 2 * _NARROWEST else _GAPS[1]
    start = indent + names + gap
    lines = []
    for name, value in cells:
        first, *rest = [value] if limit is None else wrapped(value, limit - start)
        lines.append(
            f"{' ' * indent}{name}{' ' * (names + gap - width_of(name))}{first}".rstrip()
        )
        lines += [" " * start + line for line in rest]
    return lines


def fitted(lines: Iterable[str], stream: TextIO | None = None) -> Iterator[str]:
    """Break lines of words where the terminal ends; what goes on is indented below them.

    What is to be typed (`--rule …`) stays whole: a terminal breaks it, and what is copied from
    there is one line again.

    Args:
        lines: of words, one a line.
        stream: that they are written to, by default stdout.
    """
    limit = terminal_width(stream)
    for line in lines:
        if limit is None or width_of(line) <= limit or line.lstrip().startswith(_TYPED):
            yield line
            continue
        start = " " * (len(line) - len(line.lstrip(" ")))
        first, *rest = wrapped(line[len(start) :], limit - len(start) - len(_HANG))
        yield start + first
        yield from (start + _HANG + one for one in rest)


def command_lines(words: Sequence[str], indent: int) -> Iterator[str]:
    """Yield a command as it is typed, its words in as many lines as the terminal needs."""
    import shlex  # few views have a command

    limit = terminal_width()
    line = ""
    for word in map(shlex.quote, words):
        joined = f"{line} {word}" if line else " " * indent + word
        if line and limit is not None and width_of(joined) > limit - len(_GOES_ON):
            yield line + _GOES_ON
            joined = " " * indent + _HANG + word
        line = joined
    yield line


def wrapped(text: str, room: int) -> list[str]:
    """Break a text into lines at blanks, and inside a word that is longer than a line."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if width_of(joined) <= room:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        rest = word
        while width_of(rest) > room:
            size = room
            while width_of(rest[:size]) > room:
                size -= 1
            # A path is broken behind a slash, where one is near enough, a name behind a dot.
            ends = (rest.rfind(mark, size // 2, size) + 1 for mark in "/.")
            size = next(filter(None, ends), size)
            lines[-1], rest = rest[:size], rest[size:]
            lines.append("")
        lines[-1] = rest
    return lines


def cut_to(text: str, room: int) -> str:
    """Return a text in at most `room` columns; of a name (no blanks) the end stays."""
    if width_of(text) <= room:
        return text
    is_name = " " not in text
    while width_of(text) > room - 1:
        text = text[1:] if is_name else text[:-1]
    return f"…{text}" if is_name else f"{text.rstrip()}…"


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return len(text) if text.isascii() else _width_of(text)


def _safe(cell: str) -> str:
    return printable(cell, _LONGEST) if cell.isascii() else _kept(cell)


_kept: Final = functools.lru_cache(256)(functools.partial(printable, longest=_LONGEST))
"""Most of what is not ASCII are bars, always the same ones."""


@functools.lru_cache(256)
def _width_of(text: str) -> int:
    from unicodedata import combining, east_asian_width  # names are almost always ASCII

    return sum(
        2 if east_asian_width(char) in "WF" else 0 if combining(char) else 1 for char in text
    )


def bar(share: float, width: int = _FULL) -> str:
    """Return a bar of which a share, from 0 to 1, is filled."""
    filled = round(8 * width * min(max(share, 0.0), 1.0))
    whole, rest = divmod(filled, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def _fitted(
    cells: Sequence[Sequence[str]], indent: int, spare: Sequence[int], cut: Sequence[int]
) -> tuple[list[int], int, list[int]]:
    """Return the columns that are shown, the blanks between them, and how wide each is."""
    widths = [max(map(width_of, column)) for column in zip(*cells, strict=True)]
    shown = list(range(len(widths)))
    gap, limit = _GAPS[0], terminal_width()

    def excess(widths: Sequence[int]) -> int:
        used = indent + sum(widths[column] for column in shown) + gap * (len(shown) - 1)
        return used - limit if limit is not None else 0

    if excess(widths) > 0:
        gap = _GAPS[1]
    enough = list(widths)
    for column in cut:
        enough[column] = min(enough[column], _NAME if column == cut[-1] else _TEXT)
    for column in spare:
        if excess(enough) > 0:
            shown.remove(column)
    for column in cut:
        if (over := excess(widths)) > 0 and column in shown:
            widths[column] = max(widths[column] - over, min(widths[column], _LEAST))
    return shown, gap, widths
