"""Results to stdout, talk to stderr, one shape for errors, also when nobody reads them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess

import pytest

import importer.models.description
from cli.views.text import digits
from tests.check_store import check_store, manifest_digest, snapshot
from tests.cli.runner import argv, environment, run, spawn
from tests.importer.builders import MODELS, model

LLAMA = MODELS / "tiny-llama"
READERS = {
    "list": ("list",),
    "show": ("show", "kept"),
    "json": ("show", "kept", "--json"),
    "verify": ("verify",),
    "gc": ("gc", "--dry-run"),
    "plan": ("create", "x", LLAMA, "--dry-run"),
    "version": ("--version",),
}
FULL = "/dev/full"

pytestmark = pytest.mark.skipif(not os.path.exists(FULL), reason="there is no /dev/full")


def gone():
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "wb")


@pytest.mark.parametrize("command", READERS)
def test_m21_a_result_that_cannot_be_written_is_a_failure(filled_store, command):
    before = snapshot(filled_store)

    with open(FULL, "wb") as full:
        outcome = spawn(*READERS[command], store=filled_store, stdout=full)
    assert (outcome.code, outcome.clean().stdout) == (8, "")
    assert "writing to stdout: No space left on device" in outcome.stderr
    outcome = spawn(*READERS[command], store=filled_store, preexec_fn=lambda: os.close(1))
    assert (outcome.code, outcome.clean().stdout) == (8, "")
    assert "stdout is closed" in outcome.stderr

    assert snapshot(filled_store) == before


@pytest.mark.parametrize("command", [*READERS, "help"])
def test_m21_a_reader_that_has_gone_ends_the_command_as_a_signal(filled_store, command):
    words = READERS.get(command, ("--help",))

    with gone() as pipe:
        outcome = spawn(*words, store=filled_store, stdout=pipe)

    assert outcome.code == -signal.SIGPIPE
    assert "Traceback" not in outcome.stderr


def test_m21_help_that_cannot_be_written_is_a_failure():
    with open(FULL, "wb") as full:
        outcome = spawn("--help", stdout=full)

    assert outcome.code in {7, 8}
    outcome.failed(outcome.code)


def test_m21_a_model_stays_when_its_digest_cannot_be_written(store):
    with open(FULL, "wb") as full:
        outcome = spawn("create", "m", LLAMA, store=store, stdout=full)
    assert outcome.code == 8
    with gone() as pipe:
        assert spawn("create", "n", LLAMA, store=store, stdout=pipe).code == -signal.SIGPIPE

    assert check_store(store) == []
    assert manifest_digest(store, "m") == manifest_digest(store, "n") is not None
    assert list((store / "tmp").iterdir()) == []


@pytest.mark.parametrize("what", ["full", "closed", "gone"])
def test_talk_that_nobody_hears_changes_nothing(store, what):
    words = {"create": ("create", "m", LLAMA), "missing": ("show", "no"), "usage": ("nope",)}
    codes = {"create": 0, "missing": 9, "usage": 2}
    for command, code in codes.items():
        if what == "closed":
            options = {"preexec_fn": lambda: os.close(2)}
        else:
            options = {"stderr": gone() if what == "gone" else open(FULL, "wb")}  # noqa: SIM115
        outcome = spawn(*words[command], store=store, **options)
        if "stderr" in options:
            options["stderr"].close()

        assert outcome.code == code, command
        if command == "create":
            assert outcome.stdout == f"m:latest {manifest_digest(store, 'm')}\n"


def test_nothing_is_coloured_off_a_terminal(store):
    forced = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color"}

    spawn("create", "m", LLAMA, store=store, env=forced).succeeded()
    spawn("show", "m", "-v", store=store, env=forced).succeeded()
    spawn("show", "no", store=store, env=forced).failed(9)
    spawn("--help", store=store, env=forced).succeeded()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16", "utf-8:strict"])
def test_a_terminal_of_another_encoding_gets_escapes(store, tmp_path, encoding):
    names = ("gr\u00f6\u00dfe.\u91cd\u307f", "\U0001f9ca")
    source = model(tmp_path / "m", dict.fromkeys(names, ("U8", (1,))))
    env = {"PYTHONIOENCODING": encoding}
    run("create", "m", source, store=store)

    done = subprocess.run(
        argv("show", "m", "--tensors"),
        env=environment(store, **env),
        capture_output=True,
        check=True,
    )

    text = done.stdout.decode(encoding.partition(":")[0])
    assert done.stderr == b""
    shown = names if encoding.startswith("utf") else (r"\u91cd\u307f", r"\U0001f9ca")
    assert all(name in text for name in shown)


def test_pictures_of_another_encoding_are_made_of_ascii(filled):
    env = environment(filled, PYTHONIOENCODING="ascii", COLUMNS="100")

    shown = [
        subprocess.run(argv(*words), env=env, capture_output=True, check=True).stdout.decode()
        for words in (("show", "kept", "--tree"), ("df",), ("show", "kept", "--tensor", "*q_*"))
    ]

    assert not any("\\u" in text for text in shown)
    assert "|- layer" in shown[0]
    assert "####" in shown[0]
    assert "# own: " in shown[1]


def test_the_document_is_ascii(store, tmp_path):
    run("create", "m", model(tmp_path / "m", {"\u91cd": ("U8", (1,))}), store=store)

    assert run("show", "m", "--json", store=store).succeeded().stdout.isascii()


@pytest.fixture
def broken(monkeypatch):
    """Make `show` fail with an error that nobody expected."""

    def fail(error):
        def describe(*_):
            raise error

        monkeypatch.setattr(importer.models.description, "describe", describe)

    return fail


def test_an_unexpected_error_is_a_bug_without_a_traceback(filled_store, broken):
    broken(ValueError("odd \x1b[2J"))

    told = run("show", "kept", "--json", store=filled_store)
    text = run("show", "kept", store=filled_store)

    assert (told.error["code"], told.code) == ("E_BUG", 1)
    assert text.stderr.startswith("error: unexpected ValueError: odd \\x1b[2J\nhint: ")
    assert "INGOT_DEBUG=1" in text.stderr
    with pytest.raises(ValueError, match="odd"):
        run("show", "kept", store=filled_store, INGOT_DEBUG="1")


def test_a_lack_of_memory_is_told(filled_store, broken):
    broken(MemoryError())

    assert "out of memory" in run("show", "kept", store=filled_store).failed(8)


def test_a_traceback_is_shown_on_demand(store):
    outcome = spawn("show", "no", store=store, env={"INGOT_DEBUG": "1"})

    assert outcome.code == 1
    assert "Traceback" in outcome.stderr


@pytest.mark.parametrize("place", ["~nosuchuser-ingot/x", "loop"])
def test_a_store_that_cannot_be_found_is_a_usage_error(tmp_path, place):
    (tmp_path / "loop").symlink_to("loop")
    path = place if place[0] == "~" else tmp_path / place

    for words in (("list",), ("create", "m", LLAMA), ("gc", "--yes")):
        text = run(*words, "--store", path).failed(2)
        assert "INGOT_STORE" in text


@pytest.mark.parametrize("place", ["file", "file/below", "file/far/below"])
@pytest.mark.parametrize("words", [("create", "m", LLAMA), ("list",), ("verify",), ("rm", "m")])
def test_a_store_that_is_or_is_in_a_file_is_refused(tmp_path, place, words):
    (tmp_path / "file").write_text("x")

    text = run(*words, store=tmp_path / place).failed(8)

    assert "is a file, expected a directory" in text
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("place", ["/proc/nothing/store", "/dev/null/store"])
def test_a_store_in_a_place_that_cannot_be_is_told(place):
    outcome = run("create", "m", LLAMA, store=place)

    assert place.rpartition("/")[0] in outcome.failed(outcome.code)
    assert outcome.code in {7, 8}  # /proc says that it has no space


@pytest.mark.parametrize("limit", [1000, 5000, 9000])
def test_a_limit_of_the_size_of_files_is_no_space(filled, limit):
    before = manifest_digest(filled, "kept")

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    words = ("create", "kept", MODELS / "tiny-moe", "--rehash")
    (filled / "blobs").rename(filled / "old")
    (filled / "blobs").mkdir()
    text = spawn(*words, store=filled, preexec_fn=limited).failed(7)

    assert "File too large" in text
    assert "hint: Free some space" in text
    assert manifest_digest(filled, "kept") == before
    assert list((filled / "tmp").iterdir()) == []


def test_a_message_of_any_length_is_cut(store, tmp_path):
    outcome = run("show", "x" * 100_000, store=store)

    assert len(outcome.failed(2)) < 5000
    assert len(run("create", "m", tmp_path / ("y" * 200), "--json", store=store).stderr) < 5000


@pytest.mark.parametrize("words", [("create", "--help"), ("show", "kept", "--json")])
def test_a_short_write_of_an_unbuffered_stdout_is_a_failure(filled_store, tmp_path, words):
    # The rest of what the disk did not take was lost, and the exit code was 0.
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))

    with (tmp_path / "out").open("wb") as file:
        outcome = spawn(
            *words,
            store=filled_store,
            stdout=file,
            env={"PYTHONUNBUFFERED": "1"},
            preexec_fn=limited,
        )

    assert outcome.code == 8
    assert "writing to stdout: File too large" in outcome.stderr


def test_a_reader_that_goes_ends_an_unbuffered_command_as_a_signal(filled_store):
    # More than a pipe holds, so that some of it is written after the reader has gone.
    words = ("create", "x", LLAMA, "--dry-run", "--json")
    process = subprocess.Popen(
        argv(*words),
        env=environment(filled_store, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pipesize=4096,
    )
    process.stdout.read(1)
    process.stdout.close()

    assert process.wait() == -signal.SIGPIPE


@pytest.mark.parametrize(
    ("value", "most", "said"),
    [
        (100, 2, "100"),
        (99.6, 2, "100"),
        (999.7, 3, "1,000"),
        (12.345, 3, "12.3"),
        (0.0, 2, "0"),
        (1e9, 3, "1e+09"),
        (0.00001, 2, "1e-05"),
    ],
)
def test_digits_that_matter(value, most, said):
    assert digits(value, most) == said
