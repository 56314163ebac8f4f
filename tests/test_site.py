"""The site of the documentation: whole, and content with itself."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib

import pytest

from tests.importer.builders import REPOSITORY

DOCS = REPOSITORY / "docs"
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"((?:https?:)?//[^\"]*)")


@pytest.fixture
def clone(tmp_path):
    """A copy of what the site is made of."""
    shutil.copytree(DOCS, tmp_path / "docs")
    for name in ("zensical.toml", "CHANGELOG.md"):
        shutil.copy(REPOSITORY / name, tmp_path)
    return tmp_path


def test_every_page_is_in_the_navigation_once():
    config = tomllib.loads((REPOSITORY / "zensical.toml").read_text(encoding="utf-8"))

    pages = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))

    assert sorted(_pages(config["project"]["nav"])) == pages


def test_pages_load_nothing_from_another_host(clone):
    assert _build(clone) == 0

    pages = list((clone / "site").rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    assert {link for page in pages for link in LOADED.findall(page.read_text("utf-8"))} == set()
    assert (clone / "site" / "search.js").stat().st_size > 100_000


@pytest.mark.parametrize("link", ["nowhere.md", "errors.md#nowhere"])
def test_a_broken_link_fails_the_build(clone, link):
    with (clone / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write(f"\n[here]({link})\n")

    assert _build(clone) != 0


def _pages(nav):
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages(part)]


def _build(clone):
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    return subprocess.run(command, cwd=clone, capture_output=True, check=False).returncode
