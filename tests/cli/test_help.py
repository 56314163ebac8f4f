"""Every command has help, an example, a place in the README, and a page of its own."""

from __future__ import annotations

import re

import pytest

from tests.cli.runner import COMMANDS, run
from tests.importer.builders import REPOSITORY

README = REPOSITORY / "README.md"
PAGES = REPOSITORY / "docs" / "commands"
each_command = pytest.mark.parametrize("command", COMMANDS)


def test_the_commands_are_listed():
    text = run("--help").succeeded().stdout

    listed = text.partition("Commands:\n")[2]
    assert tuple(re.findall(r"^  (\w+) ", listed, re.MULTILINE)) == COMMANDS
    assert run("-h").stdout == run().stdout == text


@each_command
def test_a_command_has_help_and_an_example(command):
    text = run(command, "--help").succeeded().stdout

    assert text.startswith(f"Usage: ingot {command} ")
    assert f"Example: ingot {command}" in " ".join(text.split())
    assert run(command, "-h").stdout == text


@each_command
def test_every_flag_of_a_command_is_explained(command):
    options = run(command, "--help").stdout.partition("Options:\n")[2]

    rows = re.findall(r"^  (-\S.*)$", options, re.MULTILINE)
    assert len(rows) >= 3
    assert all(re.search(r"\S  +[A-Z]", row) or row.endswith("  ") for row in rows), rows


@each_command
def test_every_command_knows_store_and_json(command):
    text = run(command, "--help").stdout

    assert "--store DIR" in text
    assert "--json" in text
    assert "INGOT_STORE" in text


@each_command
def test_the_readme_names_every_command_and_links_to_its_page(command):
    text = README.read_text(encoding="utf-8")

    assert re.search(rf"\[`{command}[ `].*\]\(docs/commands/{command}\.md\)", text)


@each_command
def test_the_page_of_a_command_explains_every_flag(command):
    options = run(command, "--help").stdout.partition("Options:\n")[2]
    text = "".join((PAGES / page).read_text("utf-8") for page in (f"{command}.md", "index.md"))

    flags = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", options, re.MULTILINE)
    assert len(flags) >= 3
    assert [
        flag for flag in flags if not re.search(rf"^\|.*{flag}(?![\w-])", text, re.MULTILINE)
    ] == []


@each_command
def test_the_example_of_the_help_is_a_call_that_parses(command, store):
    text = " ".join(run(command, "--help").stdout.split())
    words = re.search(rf"Example: (ingot {command} ?.*?) ?(?:Arguments|Options):", text)[1]

    outcome = run(*[word.strip("'") for word in words.split()[1:]], "--json", store=store)

    assert outcome.code in {0, 9}, outcome.stderr


def test_the_version_is_printed():
    assert re.fullmatch(r"ingot (\d+\.\d+\.\d+|\(not installed\))\n", run("--version").stdout)
