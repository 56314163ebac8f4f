"""On a terminal: a bar, colours, a question; tested on a pseudo terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time

import pytest

from tests.check_store import check_store
from tests.cli.runner import WATCHDOG_SECONDS, argv, environment, run
from tests.importer.builders import MODELS, model

LLAMA = MODELS / "tiny-llama"


def on_terminal(*words, store, answer=b"", env=None):
    """Run with stdin and stderr on a terminal, stdout to a pipe; give code and both texts."""
    master, slave = pty.openpty()
    more = {
        "TERM": "xterm-256color",
        "COLUMNS": "100",
        "LINES": "30",
        "NO_COLOR": "",
        **(env or {}),
    }
    process = subprocess.Popen(
        argv(*words),
        env=environment(store, **more),
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    if answer:
        os.write(master, answer)
    seen = _read(master, process)
    stdout = process.stdout.read()
    process.stdout.close()
    return process.wait(), stdout.decode(), seen.decode()


def _read(master, process):
    seen, deadline = b"", time.monotonic() + WATCHDOG_SECONDS
    while time.monotonic() < deadline:
        ready, _, _ = select.select([master], [], [], 0.05)
        try:
            piece = os.read(master, 65536) if ready else b""
        except OSError:  # the other end was closed
            break
        seen += piece
        if not piece and process.poll() is not None:
            break
    os.close(master)
    return seen


def test_an_import_shows_a_picture_that_goes_away(store):
    code, stdout, seen = on_terminal("create", "m", LLAMA, store=store)

    assert code == 0
    assert stdout.startswith("m:latest sha256:")
    assert "\x1b" not in stdout
    assert "2/2 writing" in seen
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen).replace("\r", "\n")
    assert "wrote 29 blobs (169 KB) and 1 document (900 B) in " in text
    assert text.strip().split("\n")[-1] == "next: ingot show m:latest"


def test_b8_the_picture_has_the_colours_of_the_terminal(store):
    _, _, seen = on_terminal("create", "m", LLAMA, "-q", "int4", "--report", store=store)

    # Carriage returns and erasing is all that drives the terminal: a red rate looks like an
    # error, and no colour of a bar goes with every background.
    assert "2/3 writing" in seen
    assert set(re.findall(r"\x1b\[[0-9;?]*[A-Za-z]", seen)) <= {"\x1b[J", "\x1b[K"}


@pytest.mark.parametrize("columns", [60, 80])
def test_b9_what_an_import_says_at_the_end_fits_the_terminal(store, columns):
    words = ("create", "a-model-with-a-name", LLAMA, "-q", "int4", "--report")

    _, _, seen = on_terminal(*words, store=store, env={"COLUMNS": str(columns)})

    # What was drawn over went away before: the last thing on each line is what stays.
    lines = [line.rpartition("\x1b[J")[2] for line in seen.split("\r\n")]
    told = [line for line in lines if not line.startswith("next: ")]
    assert any(line.startswith("left out 4 files (weights in another format,") for line in told)
    assert [line for line in told if len(line) > columns] == []
    assert any(line.startswith("next: ingot show a-model-with-a-name:latest") for line in lines)


def test_a_json_import_shows_nothing_on_a_terminal(store):
    code, stdout, seen = on_terminal("create", "m", LLAMA, "--json", store=store)

    assert (code, seen) == (0, "")
    assert stdout.startswith("{")


@pytest.mark.parametrize("words", [("verify",), ("verify", "kept", "--source", str(LLAMA))])
def test_verify_shows_a_bar(filled_store, words):
    code, stdout, seen = on_terminal(*words, store=filled_store)

    assert code == 0
    assert stdout.startswith("verified ")
    assert "verifying" in seen


def test_a_name_in_the_bar_is_no_markup_and_no_control(store, tmp_path):
    names = {f"[red]{n}[/red] \u2603.weight": ("U8", (n + 1,)) for n in range(30)}

    code, _, seen = on_terminal("create", "m", model(tmp_path / "m", names), store=store)

    assert code == 0
    assert "[red]" in seen or "wrote" in seen
    assert "MarkupError" not in seen


def test_an_error_is_coloured_on_a_terminal(filled_store):
    _, _, seen = on_terminal("show", "no", store=filled_store)

    assert "\x1b[31merror\x1b[0m: model `no:latest` not found" in seen
    assert "\x1b[36mhint\x1b[0m: " in seen


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_off_on_demand(filled_store, env):
    _, _, seen = on_terminal("show", "no", store=filled_store, env=env)

    assert "error: model `no:latest` not found" in seen
    assert "\x1b" not in seen


def test_an_error_cannot_drive_the_terminal(store):
    _, _, seen = on_terminal("show", "a\x1b[2Jb", store=store, env={"NO_COLOR": "1"})

    assert "\\x1b[2J" in seen
    assert "\x1b" not in seen


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"\x04"])
def test_gc_that_is_answered_no_removes_nothing_and_has_done_as_told(filled, answer):
    run("rm", "kept", store=filled).succeeded()
    blobs = sorted((filled / "blobs").iterdir())

    code, stdout, seen = on_terminal("gc", store=filled, answer=answer)

    assert code == 0
    assert stdout.startswith("would free ")
    assert "Remove all this? [y/N]" in seen
    assert "nothing was removed" in seen
    assert "error" not in seen
    assert sorted((filled / "blobs").iterdir()) == blobs


def test_gc_that_is_answered_yes_frees(filled):
    run("rm", "kept", store=filled).succeeded()

    code, stdout, _ = on_terminal("gc", store=filled, answer=b"y\n")

    assert code == 0
    assert "\nfreed " in f"\n{stdout}"
    assert check_store(filled, after_gc=True) == []


def test_gc_asks_nothing_when_there_is_nothing_to_free(filled_store):
    code, stdout, seen = on_terminal("gc", "--dry-run", store=filled_store)

    assert (code, stdout, seen) == (0, "nothing to free\n", "\rcollecting\r\x1b[J")


def test_gc_with_json_never_asks(filled):
    run("rm", "kept", store=filled).succeeded()

    code, stdout, seen = on_terminal("gc", "--json", store=filled)

    assert code == 2
    assert stdout == ""
    assert "E_USAGE" in seen


def test_rm_never_asks(filled):
    code, stdout, seen = on_terminal("rm", "kept", store=filled)

    assert (code, stdout) == (0, "deleted 'kept:latest'\n")
    assert seen.startswith("29 blobs (169 KB) ")
