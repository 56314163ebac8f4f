"""Take the actions of a Go template apart into tokens, as `text/template/parse/lex.go` does."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

LEFT: Final = "{{"
_RIGHT: Final = "}}"
_BLANK: Final = " \t\r\n"


class TemplateError(ValueError):
    """A template is not one that Ollama reads.

    Attributes:
        line: of what is wrong, from 1 on.
        column: in characters, from 1 on.
        hint: a word that may have been meant, or None.
    """

    def __init__(self, what: str, text: str, at: int, hint: str | None = None) -> None:
        super().__init__(what)
        before = text[:at]
        self.line = before.count("\n") + 1
        self.column = at - before.rfind("\n")
        self.hint = hint


class Token(NamedTuple):
    """A piece of an action.

    Attributes:
        kind: `word`, `field`, `variable`, `number`, `string`, `char`, `space`, `dot`, or the
            sign itself; `end` at the end of the action.
        at: offset in the text.
    """

    kind: str
    text: str
    at: int


def next_action(text: str, at: int) -> tuple[tuple[Token, ...], int] | None:
    """Return the tokens of the first action from `at` on, and where it ends, or None.

    The last token is of the kind `end`. Comments are passed over.

    Raises:
        TemplateError: it cannot be taken apart.
    """
    while (start := text.find(LEFT, at)) >= 0:
        inside = start + len(LEFT)
        if text[inside : inside + 1] == "-" and text[inside + 1 : inside + 2] in set(_BLANK):
            inside += 2
        if not text.startswith("/*", inside):
            return _tokens(text, start, inside)
        end = text.find("*/", inside + 2)
        if end < 0:
            bad("this comment is not closed", text, start)
        found = _CLOSES.match(text, end + 2)
        if found is None:
            bad("a comment ends before the closing delimiter", text, start)
        at = found.end()
    return None


def _tokens(text: str, start: int, at: int) -> tuple[tuple[Token, ...], int]:
    tokens: list[Token] = []
    parentheses = 0
    while (closed := _CLOSES.match(text, at)) is None:
        if at >= len(text):
            bad("this action is not closed", text, start)
        token = _token(text, at)
        parentheses += (token.kind == "(") - (token.kind == ")")
        if parentheses < 0:
            bad("unexpected `)`", text, at)
        if token.kind != "space" or (tokens and tokens[-1].kind != "space"):
            tokens.append(token)
        at += len(token.text)
    if parentheses:
        bad("a parenthesis is not closed", text, start)
    return (*tokens, Token("end", _RIGHT, closed.start())), closed.end()


def _token(text: str, at: int) -> Token:
    found = _TOKENS.match(text, at)
    if found is None:
        what = "this text is not closed" if text[at] in "\"'`" else f"unexpected `{text[at]}`"
        bad(what, text, at)
    kind, value = str(found.lastgroup), found[0]
    after = text[found.end() : found.end() + 1]
    closes = not after or text.startswith(_RIGHT, found.end())
    if kind in _NAMED and not closes and after not in _TERMINATORS:
        bad(f"unexpected `{after}`", text, found.end())
    if kind == "number" and (after.isalnum() or after in {"_", "."}):
        bad(f"`{value}{after}` is not a number", text, at)
    if kind in _ESCAPED and not _ESCAPED[kind].fullmatch(value):
        bad(f"`{value}` has an escape that is not one, or too many characters", text, at)
    return Token(value if kind == "sign" else kind, value, at)


def bad(what: str, text: str, at: int, hint: str | None = None) -> NoReturn:
    """Raise TemplateError: something at an offset of the text is wrong."""
    raise TemplateError(what, text, at, hint)


_CLOSES: Final = re.compile(r"(?:[ \t\r\n]+-)?\}\}")
_NAMED: Final = frozenset({"word", "field", "variable", "dot"})
_TERMINATORS: Final = frozenset(f"{_BLANK}.,|:)(")
_ESCAPE: Final = (
    r"\\(?:[abfnrtv\\{quote}]|[0-3][0-7]{{2}}|x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}"
    r"|U00(?:0|10)[0-9a-fA-F]{{4,5}})"
)
_ESCAPED: Final = {
    "string": re.compile(rf'`[^`]*`|"(?:[^"\\]|{_ESCAPE.format(quote=chr(34))})*"'),
    "char": re.compile(rf"'(?:[^'\\]|{_ESCAPE.format(quote=chr(39))})'"),
}
_NUMBER: Final = (
    r"[+-]?(?:0[xX][0-9a-fA-F_]+(?:(?:\.[0-9a-fA-F_]*)?[pP][+-]?[0-9_]+)?|0[bB][01_]+|0[oO][0-7_]+"
    r"|(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?)i?"
)
_TOKENS: Final = re.compile(
    rf"""(?P<space>[ \t\r\n]+)
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*"|`[^`]*`)
    |(?P<char>'(?:[^'\\\n]|\\[^\n])+')
    |(?P<number>{_NUMBER})
    |(?P<field>\.[^\W\d]\w*)
    |(?P<dot>\.)
    |(?P<variable>\$\w*)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign>:=|[=|,()])""",
    re.VERBOSE,
)
