"""What a Modelfile asks for, checked as far as that is possible without a model."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from importer.modelfile.go_template import check_template
from importer.modelfile.grammar import Instruction, Place, parse
from importer.modelfile.parameters import IGNORED, Value, read_value
from importer.modelfile.template_tokens import TemplateError
from importer.request import Message, Use
from importer.sources.chat import PARSERS, RENDERERS
from store.text import meant, printable


class Named(NamedTuple):
    """A path or a name of a Modelfile, and where it stands."""

    text: str
    place: Place


class Modelfile(NamedTuple):
    """What a Modelfile asks for.

    Attributes:
        base: of FROM, or None.
        adapter: of ADAPTER, or None.
        draft: of DRAFT, or None.
        use: what everything else says.
        notes: what the user should know.
    """

    base: Named | None
    adapter: Named | None
    draft: Named | None
    use: Use
    notes: tuple[str, ...] = ()


def read_modelfile(data: bytes, name: str) -> Modelfile:
    """Read a Modelfile.

    Args:
        data: the whole file.
        name: of the file, for messages.

    Raises:
        InputError: it is not a Modelfile, or asks for what there is not; the message names line
            and column.
    """
    return _Collector().collect(parse(data, name))


class _Collector:
    def __init__(self) -> None:
        self._one: dict[str, Named] = {}
        self._texts: dict[str, str] = {}
        self._licenses: list[str] = []
        self._parameters: dict[str, Value] = {}
        self._messages: list[Message] = []
        self._notes: list[str] = []

    def collect(self, given: tuple[Instruction, ...]) -> Modelfile:
        for instruction in given:
            self._take(instruction)
        use = Use(
            self._texts.get("TEMPLATE", ""),
            self._texts.get("SYSTEM", ""),
            tuple(self._licenses),
            self._parameters,
            tuple(self._messages),
            self._texts.get("PARSER", ""),
            self._texts.get("RENDERER", ""),
            self._texts.get("REQUIRES", ""),
        )
        base, adapter, draft = (self._one.get(name) for name in _ONCE)
        return Modelfile(base, adapter, draft, use, tuple(self._notes))

    def _take(self, given: Instruction) -> None:
        if not given.value and given.name not in {"PARAMETER", "MESSAGE"}:
            if given.name in _ONCE:
                given.place.bad(f"{given.name} names nothing")
            self._note(given, "has no value, so it changes nothing, as for Ollama")
            return
        match given.name:
            case name if name in _ONCE:
                if given.name in self._one:
                    given.place.bad(f"a second {given.name}", "A model has one")
                self._one[given.name] = Named(given.value, given.value_place)
            case "LICENSE":
                self._licenses.append(given.value)
            case "PARAMETER":
                self._parameter(given)
            case "MESSAGE":
                self._messages.append(Message(given.key, given.value))
            case _:
                self._text(given)

    def _parameter(self, given: Instruction) -> None:
        if given.key in IGNORED:
            self._note(given, f"`{given.key}` is a parameter that Ollama does not use any more")
            return
        value, known = read_value(given), self._parameters.get(given.key)
        if isinstance(value, list) and isinstance(known, list):
            known += value
        else:
            self._parameters[given.key] = value

    def _text(self, given: Instruction) -> None:
        value = given.value
        if given.name == "TEMPLATE":
            _check_template(given)
        elif given.name == "REQUIRES":
            value = _version(given)
        elif given.name in _BUILT_IN and value not in (known := _BUILT_IN[given.name]):
            near = meant(value, known)
            question = f"; did you mean `{near}`?" if near else ""
            self._note(given, f"Ollama 0.33 has no `{printable(value)}`{question}")
        self._texts[given.name] = value

    def _note(self, given: Instruction, what: str) -> None:
        place = given.place
        self._notes.append(
            f"`{printable(place.name)}`, line {place.line}: {given.name}: {what}"
        )


_ONCE: Final = ("FROM", "ADAPTER", "DRAFT")
_BUILT_IN: Final = {"PARSER": tuple(PARSERS), "RENDERER": RENDERERS}
_VERSION: Final = re.compile(
    r"v?((0|[1-9][0-9]*)(?:\.(0|[1-9][0-9]*)(?:\.(0|[1-9][0-9]*)"
    r"(-(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
    r"(?:\.(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?(?:\+[0-9A-Za-z.-]+)?)?)?)",
    re.ASCII,
)


def _version(given: Instruction) -> str:
    found = _VERSION.fullmatch(given.value)
    if found is None:
        given.value_place.bad(
            f"`{printable(given.value)}` is not a version", "Such as REQUIRES 0.19.0"
        )
    return found[1]


_TEMPLATES: Final = (
    "It is one of Go's text/template, such as "
    "{{ if .System }}{{ .System }}{{ end }}{{ .Prompt }}"
)


def _check_template(given: Instruction) -> None:
    try:
        check_template(given.value)
    except TemplateError as error:
        place = given.value_place
        hint = f"Did you mean `{printable(error.hint)}`?" if error.hint else _TEMPLATES
        where = f"line {error.line}, column {error.column} of the template"
        place.bad(f"TEMPLATE: {printable(str(error), 200)} ({where})", hint)
