"""What `--help` says of a command: its call, examples, options in groups, exit codes."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cli.panels import COMMON, OPTIONS

if TYPE_CHECKING:
    import typer
    from typer.core import TyperCommand, TyperGroup

COMMANDS: Final = "Commands"
_WIDEST: Final = 100
_TERM: Final = 30
"""Columns of a table's first column, at most; a longer term has a line of its own."""

EXIT_CODES: Final = MappingProxyType(
    {
        "0": "done",
        "1": "a bug in ingot",
        "2": "wrong call",
        "3": "bad source",
        "4": "unsupported source",
        "5": "damaged store",
        "6": "store busy",
        "7": "no space",
        "8": "I/O error or permissions",
        "9": "not found",
        "10": "network",
        "11": "authorization",
        "12": "differs",
        "130, 141, 143": "ended by a signal",
    }
)
ENVIRONMENT: Final = MappingProxyType(
    {
        "INGOT_STORE": "the store, where `--store` is not given; ~/.models without either",
        "INGOT_DEBUG": "1: the traceback of an error",
        "INGOT_ALLOW_UNSAFE_STORE": "1: write to a store that others can write to, too",
        "NO_COLOR": "not empty: no colours",
        "XDG_CACHE_HOME": "where compiled kernels are kept; ~/.cache",
        "COLUMNS": "how wide tables may be; the terminal's width",
        "HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE": "of the Hugging "
        "Face Hub",
    }
)


class Section(NamedTuple):
    """A part of a page: a title, and terms with what they mean."""

    title: str
    rows: tuple[tuple[str, str], ...]


class Page(NamedTuple):
    """What there is to say of a command.

    Attributes:
        usage: how it is called.
        summary: what it does, in a sentence.
        text: the paragraphs after that.
        examples: calls of it.
        sections: arguments, commands, and options in groups.
    """

    usage: str
    summary: str
    text: tuple[str, ...]
    examples: tuple[str, ...]
    sections: tuple[Section, ...]


def page_of(command: TyperCommand | TyperGroup, ctx: typer.Context) -> Page:
    """Return what there is to say of a command, from its docstring and parameters."""
    paragraphs, examples = _parts(command.help or "")
    params: list[Any] = list(command.params)
    arguments = [one for one in params if one.param_type_name == "argument"]
    commands: dict[str, Any] = getattr(command, "commands", {})
    words = ["COMMAND"] if commands else [_metavar(one) for one in arguments]
    sections = []
    if arguments:
        rows = tuple((_metavar(one), str(one.help or "")) for one in arguments)
        sections.append(Section("Arguments", rows))
    if commands:
        visible = ((name, one) for name, one in commands.items() if not one.hidden)
        summaries = ((name, _parts(one.help or "")[0][0]) for name, one in visible)
        sections.append(Section(COMMANDS, tuple(summaries)))
    sections += _options(command, ctx)
    usage = " ".join((ctx.command_path, *words, "[OPTIONS]"))
    return Page(usage, paragraphs[0], tuple(paragraphs[1:]), tuple(examples), tuple(sections))


def summary_of(docstring: str) -> str:
    """Return the first sentence of what is said of a command."""
    return _parts(docstring)[0][0]


def help_lines(command: TyperCommand | TyperGroup, ctx: typer.Context) -> Iterator[str]:
    """Yield what `--help` prints, as wide as the terminal."""
    width = max(40, min(shutil.get_terminal_size((80, 24)).columns, _WIDEST))
    page = page_of(command, ctx)
    yield from textwrap.wrap(f"Usage: {page.usage}", width, subsequent_indent=" " * 7)
    for paragraph in (page.summary, *page.text):
        yield ""
        yield from textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")
    if page.examples:
        yield from ("", "Examples:", *(f"  {one}" for one in page.examples))
    for section in page.sections:
        yield from ("", f"{section.title}:", *_table(section.rows, width))
    is_whole = bool(getattr(command, "commands", None))
    if is_whole:
        yield from ("", "Exit codes:", *_table(tuple(EXIT_CODES.items()), width))
        yield from ("", "Environment:", *_table(tuple(ENVIRONMENT.items()), width))
        return
    shown = [f"{code} {meaning}" for code, meaning in EXIT_CODES.items() if code.isdigit()]
    codes = f"Exit codes: {', '.join(shown)}. `ingot --help` lists environment variables."
    yield ""
    yield from textwrap.wrap(codes, width, subsequent_indent="  ")


def _parts(docstring: str) -> tuple[list[str], list[str]]:
    """Part a docstring into paragraphs and the calls of its `Example: ` lines."""
    paragraphs, examples = [""], []
    for line in inspect.cleandoc(docstring).split("\n"):
        if line.startswith("Example: "):
            examples.append(line.removeprefix("Example: "))
        elif line:
            paragraphs[-1] = f"{paragraphs[-1]} {line}".strip()
        elif paragraphs[-1]:
            paragraphs.append("")
    return [one for one in paragraphs if one] or [""], examples


def _options(command: TyperCommand | TyperGroup, ctx: typer.Context) -> list[Section]:
    groups: dict[str, list[tuple[str, str]]] = {}
    params: list[Any] = list(command.get_params(ctx))
    for one in params:
        if one.param_type_name == "option" and not getattr(one, "hidden", False):
            title = getattr(one, "rich_help_panel", None) or OPTIONS
            groups.setdefault(title, []).append((_flags(one), str(one.help or "")))
    # What every command has comes last, wherever the command has it.
    order = sorted(groups, key=lambda title: title == COMMON)
    return [Section(title, tuple(groups[title])) for title in order]


def _flags(option: Any) -> str:  # noqa: ANN401 - typer's, which has no public type
    short = [word for word in option.opts if not word.startswith("--")]
    long = [word for word in option.opts if word.startswith("--")]
    flags = ", ".join((*short, *long)) if short else f"    {', '.join(long)}"
    return flags if option.is_flag else f"{flags} {_metavar(option)}"


def _metavar(param: Any) -> str:  # noqa: ANN401 - as above
    if param.metavar:
        return str(param.metavar)
    choices = getattr(param.type, "choices", ())
    return "|".join(map(str, choices)) or (param.name or "").upper()


def _table(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    longest = max((len(term) for term, _ in rows if len(term) <= _TERM), default=0)
    margin = " " * (longest + 4)
    for term, meaning in rows:
        wrapped = textwrap.wrap(meaning, max(width - len(margin), 20)) or [""]
        if len(term) > longest:
            yield f"  {term}"
            yield from (f"{margin}{line}" for line in wrapped)
        else:
            yield f"  {term.ljust(longest)}  {wrapped[0]}".rstrip()
            yield from (f"{margin}{line}" for line in wrapped[1:])
