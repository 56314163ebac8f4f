"""Check a TEMPLATE as Ollama's parser of templates does: actions, names and structure.

The grammar is that of Go's text/template (`text/template/parse/parse.go`), with the functions
that Ollama adds (`template/template.go`). Nothing is executed: what a template makes of a
conversation only Ollama knows.
"""

from __future__ import annotations

from typing import Final, NoReturn

from importer.modelfile.template_tokens import Token, bad, next_action
from store.text import meant

FUNCTIONS: Final = frozenset((
    "and", "call", "html", "index", "js", "len", "not", "or", "print", "printf", "println",
    "slice", "urlquery", "eq", "ge", "gt", "le", "lt", "ne",
    "currentDate", "json", "toTypeScriptType", "yesterdayDate",
))  # fmt: skip
"""The last four are Ollama's own."""

_DEEPEST: Final = 200
"""Levels of blocks and parentheses; a person writes ten."""
_LITERALS: Final = frozenset({"number", "string", "char", "dot"})
_CONSTANTS: Final = frozenset({"true", "false", "nil"})
_OPERANDS: Final = frozenset({*_LITERALS, "word", "field", "variable", "("})


def check_template(text: str) -> None:
    """Make sure that a template is one that Ollama reads.

    Raises:
        TemplateError: it is not.
    """
    _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._tokens: tuple[Token, ...] = ()
        self._next = 0
        self._variables = ["$"]
        self._loops = 0
        self._depth = 0
        self._defined: set[str] = set()

    def parse(self) -> None:
        if (ending := self._list(top=True)) is not None:
            self._bad(f"unexpected `{ending.text}`", ending)

    # Blocks.

    def _list(self, *, top: bool = False) -> Token | None:
        """Read to the `end` or `else` of this list, or to the end of the text."""
        self._deeper()
        while (found := next_action(self._text, self._at)) is not None:
            self._tokens, self._at = found
            self._next = 0
            first = self._peek()
            if first.kind == "word" and first.text in {"end", "else"}:
                self._depth -= 1
                return self._take()
            self._statement(first, top=top)
        self._depth -= 1
        return None

    def _statement(self, first: Token, *, top: bool) -> None:
        word = first.text if first.kind == "word" else ""
        if word in {"if", "with", "range"}:
            self._block(self._take())
        elif word in {"define", "block"}:
            if word == "define" and not top:
                self._bad("`define` is inside a block", first)
            self._named(self._take())
        elif word == "template":
            self._take()
            self._name(word)
            if self._peek().kind == "end":
                self._bad("`template` gives its template nothing", first)
            self._pipeline(word)
        elif word in {"break", "continue"}:
            if not self._loops:
                self._bad(f"`{word}` outside of `range`", first)
            self._take()
            self._end(word)
        else:
            self._pipeline("action")

    def _block(self, keyword: Token) -> None:
        mark, word = len(self._variables), keyword.text
        self._pipeline(word)
        is_loop = word == "range"
        self._loops += is_loop
        ending = self._list()
        self._loops -= is_loop
        if ending is not None and ending.text == "else":
            more = self._peek()
            if more.kind == "word" and more.text == word and not is_loop:
                self._deeper()
                self._block(self._take())
                self._depth -= 1
                del self._variables[mark:]
                return
            self._end("else")
            ending = self._list()
            if ending is not None and ending.text == "else":
                self._bad("`else` follows `else`", ending)
        if ending is None:
            self._bad(f"`{word}` has no `end`", keyword)
        self._end("end")
        del self._variables[mark:]

    def _named(self, keyword: Token) -> None:
        """Read a template that is defined within this one."""
        name = self._name(keyword.text)
        if keyword.text == "block":
            self._pipeline("block")
        else:
            self._end("define")
        variables, loops, start = self._variables, self._loops, self._at
        self._variables, self._loops = ["$"], 0
        ending = self._list()
        if ending is None or ending.text == "else":
            self._bad(f"`{keyword.text}` has no `end`", keyword)
        between = self._text[start : self._text.rfind("{{", 0, ending.at + 1)]
        if between.strip():
            if name in self._defined:
                self._bad(f"the template `{name}` is defined twice", keyword)
            self._defined.add(name)
        self._end("end")
        self._variables, self._loops = variables, loops

    def _name(self, keyword: str) -> str:
        token = self._take()
        if token.kind != "string":
            self._bad(f"`{keyword}` expects a name in quotes", token)
        return token.text[1:-1]

    # Pipelines.

    def _pipeline(self, keyword: str, end: str = "end") -> None:
        self._deeper()
        self._declarations(keyword)
        commands = 0
        while (token := self._peek()).kind != end:
            if token.kind not in _OPERANDS:
                self._bad(f"unexpected `{token.text}` in {keyword}", token)
            is_value = token.kind in _LITERALS or token.text in _CONSTANTS
            if commands and is_value:
                self._bad(f"`{token.text}` cannot follow `|`: it is not a function", token)
            self._command(keyword)
            commands += 1
        if not commands:
            self._bad(f"missing value for {keyword}", self._peek())
        self._take()
        self._depth -= 1

    def _declarations(self, keyword: str) -> None:
        declared = 0
        while (token := self._peek()).kind == "variable":
            ahead = self._next + 1
            ahead += self._tokens[ahead].kind == "space"
            sign = self._tokens[ahead]
            if sign.kind not in {":=", "=", ","}:
                return
            if sign.kind == "," and (keyword != "range" or declared):
                self._bad("too many variables" if declared else "unexpected `,`", sign)
            self._variables.append(token.text)
            self._next = ahead + 1
            declared += 1
            if sign.kind != ",":
                return
            if self._peek().kind != "variable":
                self._bad("`range` declares one or two variables", self._peek())

    def _command(self, keyword: str) -> None:
        self._peek()
        while True:
            self._operand()
            token = self._tokens[self._next]
            if token.kind == "|":
                self._next += 1
                return
            if token.kind in {"end", ")"}:
                return
            if token.kind != "space":
                self._bad(f"unexpected `{token.text}` in operand", token)
            after = self._peek()
            if after.kind == "|":
                self._take()
                return
            if after.kind in {"end", ")"}:
                return
            if after.kind not in _OPERANDS:
                self._bad(f"unexpected `{after.text}` in {keyword}", after)

    def _operand(self) -> None:
        token = self._take()
        if token.kind == "(":
            self._pipeline("parenthesis", ")")
        elif token.kind == "variable":
            self._known(token)
        elif token.kind == "word" and token.text not in _CONSTANTS | FUNCTIONS:
            what = f"there is no function `{token.text}`"
            bad(what, self._text, token.at, meant(token.text, sorted(FUNCTIONS)))
        is_value = token.kind in _LITERALS or token.text in _CONSTANTS
        if is_value and self._tokens[self._next].kind == "field":
            self._bad(f"unexpected `.` after `{token.text}`", self._tokens[self._next])
        while self._tokens[self._next].kind == "field":
            self._next += 1

    # Tokens.

    def _known(self, variable: Token) -> None:
        if variable.text not in self._variables:
            self._bad(f"there is no variable `{variable.text}`", variable)

    def _peek(self) -> Token:
        """Return the next token that is not a blank."""
        if self._tokens[self._next].kind == "space":
            self._next += 1
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._peek()
        if token.kind != "end":
            self._next += 1
        return token

    def _end(self, keyword: str) -> None:
        if (token := self._peek()).kind != "end":
            self._bad(f"unexpected `{token.text}` in {keyword}", token)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            bad("it is nested too deeply", self._text, self._at)

    def _bad(self, what: str, token: Token) -> NoReturn:
        bad(what, self._text, token.at)
