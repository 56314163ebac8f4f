"""README, CONTRIBUTING and CHANGELOG: what they refer to exists, and they are easy to read."""

from __future__ import annotations

import importlib
import re
from functools import reduce

import pytest

from tests.importer.builders import REPOSITORY

ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
# A decision is not edited afterwards, so it may name what has gone.
PAGES = (
    *ROOT_PAGES[:2],
    *(
        str(path.relative_to(REPOSITORY))
        for path in sorted((REPOSITORY / "docs").rglob("*.md"))
        if path.parent.name != "adr"
    ),
)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
NAME = re.compile(r"(?:cli|importer|store)(?:\.\w+)+")
PATH = re.compile(r"(?:cli|importer|store|tests|docs|fixtures)/(?:[\w.-]+/?)*")
README_BYTES = 9_000
LINE = 100
"""Columns of prose: what a diff of two versions can show side by side."""
SCREEN = 120


@pytest.mark.parametrize("name", ROOT_PAGES)
def test_links_of_a_page_outside_of_the_site_lead_somewhere(name):
    text = CODE.sub("", FENCE.sub("", (REPOSITORY / name).read_text(encoding="utf-8")))

    broken = []
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        target = REPOSITORY / path
        if ":" not in link and (
            not target.exists() or (anchor and anchor not in _anchors(target))
        ):
            broken.append(link)

    assert broken == []


def _anchors(page):
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_the_readme_is_short():
    assert len((REPOSITORY / "README.md").read_bytes()) <= README_BYTES


@pytest.mark.parametrize("name", ROOT_PAGES[:2])
def test_lines_of_prose_fit_in_a_diff(name):
    text = FENCE.sub("", (REPOSITORY / name).read_text(encoding="utf-8"))

    lines = [line for line in text.splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > LINE] == []


RIDDLES = re.compile(
    r"left out says why|believes none|less what is|talk to stderr|Of the weights, such as|"
    r"(?<!here )\b(?:is|are) no (?:blob|file|index|model|name|store|tensor|type|weights)s?\b|"
    r"page of \S+, then"
)
"""English that stopped readers of the pages and of the help, and its like."""
SPELLED = (
    *PAGES,
    "CHANGELOG.md",
    *(
        str(path.relative_to(REPOSITORY))
        for kind in ("*.py", "*.html")
        for path in sorted((REPOSITORY / "cli").rglob(kind))
    ),
)


@pytest.mark.parametrize("name", SPELLED)
def test_e3_a_page_has_no_english_that_stops_the_reader(name):
    text = " ".join((REPOSITORY / name).read_text(encoding="utf-8").split())

    assert RIDDLES.findall(text) == []


@pytest.mark.parametrize("name", SPELLED)
def test_a_percentage_has_no_blank(name):
    text = (REPOSITORY / name).read_text(encoding="utf-8")

    # `100 % 32 != 0` is what a plan says of a row that blocks do not fill.
    assert re.findall(r"(?:[0-9]|\}\}?) %(?! \d+\s+!=\s)[^}\w]", text) == []


@pytest.mark.parametrize("name", PAGES)
def test_lines_of_prose_fit_a_screen(name):
    """What was read in a terminal had lines of 300 characters."""
    text = FENCE.sub("", (REPOSITORY / name).read_text(encoding="utf-8"))

    lines = [line for line in text.splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(CODE.sub("`", line)) > SCREEN] == []


@pytest.mark.parametrize("name", PAGES)
def test_the_code_that_a_page_names_exists(name):
    text = FENCE.sub("", (REPOSITORY / name).read_text(encoding="utf-8"))
    words = [word.strip("`") for word in CODE.findall(text)]

    names = [word for word in words if NAME.fullmatch(word)]
    paths = [word for word in words if PATH.fullmatch(word)]
    if name == "CONTRIBUTING.md":
        assert len(names) >= 10
        assert len(paths) >= 20
    assert [name for name in names if not _is_there(name)] == []
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


def _is_there(name):
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return (
            reduce(lambda part, word: getattr(part, word, None), parts[cut:], found) is not None
        )
    return False
