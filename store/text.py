"""Text for people: sizes, counts, and what is untrusted made safe to print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LONGEST: Final = 120
UNITS: Final = {"T": 10**12, "B": 10**9, "M": 10**6, "K": 10**3}
"""What the letter behind a number of parameters stands for."""
_UNITS: Final = ("KB", "MB", "GB", "TB", "PB")
_WHOLE: Final = 10
_NO_DECIMAL: Final = 100

# Control, format (bidirectional overrides, zero width), surrogate, line and paragraph
# separators. Unassigned characters print as boxes and depend on Python's Unicode version:
# what one machine accepts, another must not refuse.
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def is_printable(text: str) -> bool:
    """Return whether `text` holds nothing that could drive a terminal or deceive a reader."""
    if text.isascii() and text.isprintable():
        return True
    return not any(_category(char) in _UNPRINTABLE for char in text)


def printable(text: str, longest: int = _LONGEST) -> str:
    r"""Escape what is not printable as `\xNN`, `\uNNNN`; cut to `longest` characters."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if is_printable(text):
        return text
    return "".join(map(_escaped, text))


def size(nbytes: int) -> str:
    """Decimal units as `ollama list`: whole from 10 on, else one decimal."""
    if nbytes < 1000:  # noqa: PLR2004 - decimal, as the field does
        return f"{nbytes} B"
    value = float(nbytes)
    for unit in _UNITS:
        value /= 1000
        if value < 999.5 or unit == _UNITS[-1]:  # noqa: PLR2004
            break
    return f"{value:.0f} {unit}" if round(value, 1) >= _WHOLE else f"{value:.1f} {unit}"


def in_bytes(nbytes: int) -> str:
    """`1.3 GB (1,310,000,000 bytes)`: what people read, and what programs compare."""
    return f"{size(nbytes)} ({nbytes:,} bytes)" if nbytes >= 1000 else size(nbytes)  # noqa: PLR2004 - as above


def parse_size(text: str) -> int | None:
    """Return the bytes of a size such as 512M, 1.5GiB or 800MB, or None for another text.

    512M and 512MiB are powers of 1024, 512MB is a power of 1000.
    """
    import re  # noqa: PLC0415 - few commands read a size

    found = re.fullmatch(_SIZE, text.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        return None
    number, unit, suffix = (part.upper() for part in found.groups(""))
    base = 1000 if suffix == "B" else 1024
    return int(float(number) * base ** " KMGT".index(unit or " "))


_SIZE: Final = r"(\d{1,12}(?:\.\d{1,9})?) *(?:([KMGT])(iB?|B)?|B)?"


def count(number: int, noun: str) -> str:
    """`1 blob`, `2 blobs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short_count(number: int) -> str:
    """`8.0B`, `137M`: a number of parameters, as Ollama writes it."""
    for letter, unit in UNITS.items():
        if number >= unit:
            whole, tenth = divmod((number * 10 + unit // 2) // unit, 10)
            return f"{whole}{letter}" if whole >= _NO_DECIMAL else f"{whole}.{tenth}{letter}"
    return str(number)


def meant(word: str, words: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the one of `words` that a misspelled word was probably meant to be, or None.

    Args:
        alike: the share of letters that it must have of it, as difflib counts.
    """
    import difflib  # noqa: PLC0415 - 3 ms that only a mistake costs

    by_case = {one.lower(): one for one in words}
    near = difflib.get_close_matches(word.lower(), by_case, 1, alike)
    return by_case[near[0]] if near else None


def did_you_mean(word: str, words: Iterable[str]) -> str | None:
    """Return the hint that asks for what a misspelled word was meant to be, or None."""
    near = meant(word, words)
    return f"Did you mean `{printable(near)}`?" if near is not None else None


def _escaped(char: str) -> str:
    if _category(char) not in _UNPRINTABLE:
        return char
    code = ord(char)
    if code <= 0xFF:  # noqa: PLR2004 - the widths of the three escapes
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004


def _category(char: str) -> str:
    import unicodedata  # noqa: PLC0415 - names are almost always ASCII

    return unicodedata.category(char)
