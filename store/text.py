"""Untrusted text made safe to print."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 120

# Control, format (bidirectional overrides, zero width), surrogate, line and paragraph
# separators. Unassigned characters print as boxes and depend on Python's Unicode version:
# what one machine accepts, another must not refuse.
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def is_printable(text: str) -> bool:
    """Whether `text` holds nothing that could drive a terminal or deceive a reader."""
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
