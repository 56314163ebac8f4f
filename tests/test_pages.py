"""What README and docs show is what the commands print."""

from __future__ import annotations

import json
import re

import pytest

from store.fs import FileSystem
from tests.cli.runner import COMMANDS, run
from tests.importer.builders import MODELS, REPOSITORY
from tests.pages import examples, pages, replay


@pytest.mark.parametrize("name", pages())
def test_the_examples_of_a_page_print_what_it_shows(name, tmp_path):
    page = (REPOSITORY / name).read_text(encoding="utf-8")

    assert replay(page, tmp_path).split("\n") == page.split("\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_with_an_example(command):
    page = (REPOSITORY / "docs" / "commands" / f"{command}.md").read_text(encoding="utf-8")

    # What needs torch is shown as it was printed once.
    calls = [one.command for one in examples(page)]
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        calls += block.splitlines()
    assert [one for one in calls if one.startswith(f"ingot {command}")]


def test_the_page_of_a_command_names_every_field_of_its_json(tmp_path):
    damaged = tmp_path / "damaged"
    for name in ("whole", "damaged"):
        create = ("create", "m", MODELS / "tiny-moe", "-q", "int4", "--report", "--json")
        run(*create, store=tmp_path / name).succeeded()
    here, _ = FileSystem().machine()
    for host in ("elsewhere", here):
        (damaged / "tmp" / f"{host}.boot.1.x").mkdir()
    for blob in sorted((damaged / "blobs").iterdir())[:2]:
        blob.chmod(0o600)
        blob.write_bytes(b"rot")
    calls = [
        (tmp_path / "whole", *call)
        for call in (
            ("create", "n", MODELS / "tiny-moe"),
            ("create", "m", MODELS / "tiny-pipeline", "--dry-run"),
            ("show", "m"),
            ("show", "m", "--quality"),
            ("list",),
            ("cp", "m", "n"),
            ("verify", "m", "--source", MODELS / "tiny-moe"),
            ("rm", "m", "n"),
            ("gc", "--dry-run"),
        )
    ] + [(damaged, "verify", "--repair"), (damaged, "gc", "--dry-run")]

    missing = set()
    for store, command, *words in calls:
        page = (REPOSITORY / "docs" / "commands" / f"{command}.md").read_text(encoding="utf-8")
        found = run(command, *words, "--json", store=store)
        assert found.stdout, (command, words, found.stderr)
        fields = _fields(json.loads(found.stdout))
        missing |= {(command, field) for field in fields if f"`{field}`" not in page}

    assert missing == set()


def _fields(document):
    # What is stored documents of models has a page of its own: docs/formats/manifest.md
    stored = {"schema", "config", "layers", "recipe"}
    if isinstance(document, list):
        return {field for row in document for field in _fields(row)}
    if not isinstance(document, dict):
        return set()
    inner = [value for key, value in document.items() if key not in stored]
    return {*document, *(field for value in inner for field in _fields(value))} - {"schema"}


def test_an_example_that_shows_something_else_is_found(tmp_path):
    page = (
        "text\n```console\n$ echo here\nthere\n\n$ ingot --version\nno version\n```\n"
        "text\n\n```console\n$ false\n$ echo $?\n0\n```\n"
    )

    lines = replay(page, tmp_path).split("\n")

    assert lines[:4] == ["text", "```console", "$ echo here", "here"]
    assert lines[4:6] == ["", "$ ingot --version"]
    assert "no version" not in lines
    assert lines[7:] == [
        "```",
        "text",
        "",
        "```console",
        "$ false",
        "$ echo $?",
        "1",
        "```",
        "",
    ]


def test_what_is_cut_may_be_anything(tmp_path):
    shown = "```console\n$ seq 4; echo a b c\n1\n…\n4\na … c\n```\n"

    assert replay(shown, tmp_path) == shown


def test_what_was_cut_at_the_end_is_cut_there_again(tmp_path):
    page = "```console\n$ seq 9\n0\n…\n```\n"

    assert replay(page, tmp_path) == "```console\n$ seq 9\n1\n…\n```\n"


def test_what_was_cut_in_the_middle_is_found_by_the_lines_around_it(tmp_path):
    page = "```console\n$ printf 'a 7\\nb\\nc 1f\\n'\na 5\n…\nc 2e\n```\n"

    assert replay(page, tmp_path) == page.replace("a 5", "a 7").replace("c 2e", "c 1f")


def test_a_block_with_a_title_is_a_file(tmp_path):
    page = '```toml title="a.toml"\nx = 1\n```\n\n```console\n$ cat a.toml\nx = 1\n```\n'

    assert replay(page, tmp_path) == page


def test_a_table_does_not_depend_on_how_long_its_page_takes(tmp_path):
    page = (
        "```console\n$ ingot create m fixtures/models/tiny-llama --quiet\n…\n\n$ sleep 2.1\n\n"
        "$ ingot list\n…    MODIFIED    …\nm:latest    …    just now    …\n```\n"
    )

    assert replay(page, tmp_path) == page
