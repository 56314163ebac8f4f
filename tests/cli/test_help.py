"""Every command has help, an example, a place in the README, and a page of its own."""

from __future__ import annotations

import re
import shlex

import pytest
import typer.main

from cli.app import make_app
from cli.views.help import EXIT_CODES
from tests.cli.runner import COMMANDS, run
from tests.importer.builders import REPOSITORY

README = REPOSITORY / "README.md"
PAGES = REPOSITORY / "docs" / "commands"
each_command = pytest.mark.parametrize("command", COMMANDS)


def section(text, title):
    """The terms of a section of a page, and what is said of each."""
    body = re.search(rf"^{title}:\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)[1]
    rows = re.split(r"\n(?=  \S|      -)", f"{body}")
    return dict(re.split(r"\s{2,}", row.strip(), maxsplit=1) for row in rows)


def flags_of(text):
    """Each flag of a command, and the line that begins with it."""
    rows = re.findall(
        r"^(?:  -\w, |      )((?:--[a-z-]+, )*--[a-z-]+)(.*)$", text, re.MULTILINE
    )
    return {flag: rest for flags, rest in rows for flag in flags.split(", ")}


def test_the_commands_are_listed():
    text = run("--help").succeeded().stdout

    assert tuple(section(text, "Commands")) == COMMANDS
    assert run("-h").stdout == run().stdout == run("help").stdout == text


@each_command
def test_a_command_has_help_and_an_example(command):
    text = run(command, "--help").succeeded().stdout

    assert text.startswith(f"Usage: ingot {command}")
    assert f"Examples:\n  ingot {command}" in text
    assert run(command, "-h").stdout == run("help", command).stdout == text


@each_command
def test_help_is_as_wide_as_the_terminal_and_no_wider(command):
    for columns in (60, 80, 120):
        lines = run(command, "--help", COLUMNS=str(columns)).stdout.splitlines()
        words = [line for line in lines if not line.startswith("  ingot ")]
        assert max(map(len, words)) <= min(columns, 100)


@each_command
def test_every_flag_of_a_command_is_explained(command):
    parsed = typer.main.get_command(make_app([command])).commands[command]

    options = [one for one in parsed.params if one.param_type_name == "option"]
    shown = [one for one in options if not one.hidden]
    assert [one.name for one in shown if not re.fullmatch(r"[A-Z].*\.", one.help or "")] == []
    assert flags_of(run(command, "--help").stdout).keys() == {
        *(opt for one in shown for opt in one.opts if opt.startswith("--")),
        "--help",
    }


@each_command
def test_the_common_options_come_last_and_alike(command):
    if command in {"help", "completion"}:
        pytest.skip("it reads no store")
    text = run(command, "--help").stdout

    assert list(section(text, "Common options"))[-4:] == [
        "--store DIR",
        "--json",
        "--quiet",
        "-h, --help",
    ]
    assert "INGOT_STORE" in text


def test_the_exit_codes_of_the_help_are_those_of_the_page():
    page = (REPOSITORY / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE)
    told = {code.strip() for row in rows for code in row.split(",")}

    assert {code.strip() for row in EXIT_CODES for code in row.split(",")} == told
    assert tuple(section(run("help").stdout, "Exit codes")) == tuple(EXIT_CODES)


@each_command
def test_the_readme_names_every_command_and_links_to_its_page(command):
    text = README.read_text(encoding="utf-8")

    assert re.search(rf"\[`{command}[ `].*\]\(docs/commands/{command}\.md\)", text)


@each_command
def test_the_page_of_a_command_explains_every_flag(command):
    flags = flags_of(run(command, "--help").stdout)
    text = "".join((PAGES / page).read_text("utf-8") for page in (f"{command}.md", "index.md"))

    assert [
        flag for flag in flags if not re.search(rf"^\|.*{flag}(?![\w-])", text, re.MULTILINE)
    ] == []


@each_command
def test_the_examples_of_the_help_are_calls_that_parse(command, filled):
    text = run(command, "--help").stdout
    examples = re.search(r"^Examples:\n((?:  .*\n)+)", text, re.MULTILINE)[1].splitlines()

    for example in examples:
        words = shlex.split(example)[1:]
        more = () if command in {"help", "completion"} else ("--json",)
        outcome = run(*words, *more, store=filled)
        # Torch is an extra, which need not be there.
        parsed = outcome.code in {0, 9, 10} or "E_TORCH" in outcome.stderr
        assert parsed, outcome.stderr


def test_help_on_a_word_that_is_not_a_command_asks_what_was_meant(store):
    assert "Did you mean `create`?" in run("help", "craete", store=store).failed(2)


def test_the_version_is_printed():
    assert re.fullmatch(r"ingot (\d+\.\d+\.\d+|\(not installed\))\n", run("--version").stdout)
