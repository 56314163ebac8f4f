"""Hints: every code is raised, every flag exists, and no flag is named below the cli."""

import re
from string import Formatter

import pytest
import typer.main

from cli.app import make_app
from cli.hints import HINTS, hint_for
from store.errors import InputError, UsageError
from tests.cli.runner import COMMANDS
from tests.importer.builders import REPOSITORY

BELOW = [
    path for room in ("importer", "store") for path in sorted((REPOSITORY / room).rglob("*.py"))
]
FLAG = re.compile(r"(?<![\w-])(?:--[a-z][a-z-]*|-q\b)")
COMMAND = re.compile(r"`ingot ([a-z]+)")


def flags():
    commands = typer.main.get_command(make_app(["help", *COMMANDS])).commands.values()
    return {word for command in commands for option in command.params for word in option.opts}


def test_every_code_with_a_hint_is_raised_somewhere():
    rooms = [path for path in REPOSITORY.glob("[cis]*/**/*.py") if path.name != "hints.py"]
    raised = set(re.findall(r'"(E_[A-Z_]+)"', "".join(path.read_text() for path in rooms)))

    assert HINTS.keys() - raised == set()


@pytest.mark.parametrize("code", HINTS)
def test_a_hint_names_flags_and_commands_that_exist(code):
    named = set(
        FLAG.findall(
            HINTS[code].format_map(Anything(role="vision", way="symmetric", word="allow"))
        )
    )

    assert named - flags() == set()
    assert set(COMMAND.findall(HINTS[code])) <= set(COMMANDS)


@pytest.mark.parametrize("path", BELOW, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_flag_and_no_command_is_named_below_the_cli(path):
    text = path.read_text()

    assert FLAG.findall(text) + COMMAND.findall(text) == []


def test_a_hint_names_the_facts_of_its_error():
    error = InputError("x", code="E_NAME_COLLISION", facts={"quantized": "a.weight"})

    assert hint_for(error) == "Keep the latter: --rule 'a.weight=keep'"


def test_an_error_without_the_facts_of_a_hint_has_none():
    assert hint_for(InputError("x", code="E_NAME_COLLISION")) is None


def test_the_hint_of_an_error_goes_before_the_table():
    assert hint_for(UsageError("x", code="E_STRICT", hint="Say please")) == "Say please"


@pytest.mark.parametrize("code", HINTS)
def test_facts_in_hints_are_names(code):
    assert all(
        name is None or name.isidentifier() for _, name, _, _ in Formatter().parse(HINTS[code])
    )


class Anything(dict):
    def __missing__(self, key):
        return key
