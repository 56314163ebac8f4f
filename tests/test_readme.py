"""What README and docs show is what the commands print."""

from __future__ import annotations

import pytest

from tests.importer.builders import REPOSITORY, reference_model
from tests.readme import EXAMPLE, PAGES, needs_minilm, replay


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_of_a_page_print_what_it_shows(name, tmp_path):
    page = (REPOSITORY / name).read_text(encoding="utf-8")
    if needs_minilm(page) and reference_model() is None:
        pytest.skip("no MiniLM")

    assert EXAMPLE.search(page)
    assert replay(page, tmp_path).split("\n") == page.split("\n")


def test_an_example_that_shows_something_else_is_found(tmp_path):
    page = "text\n```\n$ ingot list\nNAME    ID\n\n$ ingot --version\nno version\n```\n"

    lines = replay(page, tmp_path).split("\n")

    assert lines[:3] == ["text", "```", "$ ingot list"]
    assert lines[4:6] == ["", "$ ingot --version"]
    assert "no version" not in lines
    assert lines[-2:] == ["```", ""]
