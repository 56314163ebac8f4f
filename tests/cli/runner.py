"""The command, in this process or in one of its own, and what is true of all that it says."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from unittest import mock

from cli.main import run as run_main
from tests.importer.builders import REPOSITORY

WATCHDOG_SECONDS = 60
"""Longer is a hang: 250 000 tensors take 6 s on one machine, and 25 s on another."""
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
COMMANDS = (
    "create",
    "show",
    "list",
    "df",
    "cp",
    "rm",
    "sync",
    "push",
    "pull",
    "save",
    "load",
    "export",
    "diff",
    "eval",
    "imatrix",
    "verify",
    "gc",
    "completion",
    "help",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended; `code` is negative after a signal."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def document(self):
        """The one JSON document of stdout, strictly read, and as its schema says."""
        found = _strict(self.stdout)
        validator(found["schema"]).validate(found)
        return found

    @property
    def error(self):
        """The one JSON object of stderr."""
        assert self.stderr.count("\n") == 1, self.stderr
        found = _strict(self.stderr)
        assert list(found) == ["schema", "code", "exit_code", "message", "hint"]
        validator("ingot.error/1").validate(found)
        assert found["exit_code"] == self.code
        return found

    def succeeded(self):
        """Demand success; give the outcome."""
        assert self.code == 0, (self.code, self.stdout, self.stderr)
        return self.clean()

    def failed(self, code):
        """Demand one clean error with an exit code; give its message and hint."""
        assert self.code == code, (self.code, self.stdout, self.stderr)
        self.clean()
        assert self.stdout == ""
        lines = self.stderr.splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        hints = [line for line in lines if line.startswith("hint: ")]
        assert len(errors) == 1, self.stderr
        assert len(hints) <= 1
        assert lines[-1 - len(hints) :] == [*errors, *hints]
        return "\n".join((*errors, *hints))

    def clean(self):
        """Demand that no output could drive a terminal or shows our insides."""
        for text in (self.stdout, self.stderr):
            assert CONTROL.search(text) is None, text
            assert "Traceback" not in text, text
            assert "E_BUG" not in text, text
            assert "This is a bug" not in text, text
        assert self.seconds < WATCHDOG_SECONDS
        return self


@cache
def validator(schema):
    """What checks a document against the schema that it names."""
    from jsonschema import Draft202012Validator

    name = schema.removeprefix("ingot.").removesuffix("/1")
    text = (REPOSITORY / "docs" / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


def _strict(text):
    return json.loads(
        text, parse_constant=_refuse, parse_float=_refuse, object_pairs_hook=_no_duplicates
    )


def _refuse(text):
    raise ValueError(text)


def _no_duplicates(pairs):
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def run(*words, store=None, **environment):
    """Run the command in this process: quick, and patches reach it."""
    if store is not None:
        environment["INGOT_STORE"] = str(store)
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n") for _ in range(2))
    started = time.perf_counter()
    with (
        _undisturbed(),
        mock.patch.object(sys, "argv", ["ingot", *map(str, words)]),
        mock.patch.object(sys, "stdin", io.StringIO()),
        mock.patch.dict(os.environ, environment),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            run_main()
        except SystemExit as exit_:
            code = exit_.code
    seconds = time.perf_counter() - started
    texts = [stream.buffer.getvalue().decode() for stream in (_flushed(out), _flushed(err))]
    return Outcome(code, *texts, seconds)


def _flushed(stream):
    stream.flush()
    return stream


@contextlib.contextmanager
def _undisturbed():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    mask = os.umask(0o022)
    os.umask(mask)
    inherited = {key: os.environ.pop(key) for key in list(os.environ) if _is_ours(key)}
    try:
        yield
    finally:
        os.environ.update(inherited)
        os.umask(mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _is_ours(key):
    """Whether a variable decides what the command does or how wide its lines are."""
    return key.startswith("INGOT_") or key == "COLUMNS"


def environment(store=None, **more):
    """The environment of a process of the command's own."""
    mine = {key: value for key, value in os.environ.items() if not _is_ours(key)}
    mine["PYTHONPATH"] = str(REPOSITORY)
    if store is not None:
        mine["INGOT_STORE"] = str(store)
    return {**mine, **more}


def argv(*words):
    """How to start the command."""
    return [sys.executable, "-m", "cli", *map(str, words)]


def spawn(*words, store=None, prefix=(), env=None, **options):
    """Run the command in a process of its own; `options` go to `subprocess.run`."""
    started = time.perf_counter()
    done = subprocess.run(
        [*prefix, *argv(*words)],
        env=environment(store, **(env or {})),
        stdin=options.pop("stdin", subprocess.DEVNULL),
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=options.pop("stderr", subprocess.PIPE),
        timeout=WATCHDOG_SECONDS,
        check=False,
        **options,
    )
    texts = [(text or b"").decode() for text in (done.stdout, done.stderr)]
    return Outcome(done.returncode, *texts, time.perf_counter() - started)
