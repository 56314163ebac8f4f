"""Help as a manual page, in the language of man(7)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cli.views.help import COMMANDS, ENVIRONMENT, EXIT_CODES, Page, Section


def man_lines(page: Page, name: str, version: str) -> Iterator[str]:
    """Yield the manual page of a command.

    Args:
        page: what there is to say.
        name: of the page, such as `ingot-create`.
        version: of ingot.
    """
    yield f'.TH "{name.upper()}" "1" "" "ingot {version}" "ingot"'
    yield ".SH NAME"
    yield f"{_text(name)} \\- {_text(page.summary.rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield f".B {_text(page.usage)}"
    yield ".SH DESCRIPTION"
    yield _text(page.summary)
    for paragraph in page.text:
        yield ".PP"
        yield _text(paragraph)
    for section in page.sections:
        yield from _section(section)
    if page.examples:
        yield ".SH EXAMPLES"
        yield ".nf"
        yield from map(_text, page.examples)
        yield ".fi"
    yield from _section(Section("Exit status", tuple(EXIT_CODES.items())))
    yield from _section(Section("Environment", tuple(ENVIRONMENT.items())))
    yield ".SH SEE ALSO"
    rows = [row for one in page.sections if one.title == COMMANDS for row in one.rows]
    pages = [f"ingot-{command}" for command, _ in rows] or ["ingot"]
    yield ", ".join(f"\\fB{_text(one)}\\fR(1)" for one in pages)


def _section(section: Section) -> Iterator[str]:
    yield f".SH {section.title.upper()}"
    for term, meaning in section.rows:
        yield ".TP"
        yield f"\\fB{_text(term.strip())}\\fR"
        yield _text(meaning)


def _text(text: str) -> str:
    """Escape what roff would take for its own."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    # A line that begins so would be a command.
    return re.sub(r"^([.'])", r"\\&\1", escaped) or "\\&"
