"""Progress: numbers that are true, a picture that fits and never wraps, lines and events."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.views.console import be_quiet, speak_json
from cli.views.progress import _NAMES, _how_far, listening
from cli.views.progress_line import Line, line_of
from cli.views.progress_state import (
    COLLECTING,
    COMPARING,
    MEASURING,
    READING,
    VERIFYING,
    WRITING,
    State,
)
from cli.views.progress_style import Style
from cli.views.table import width_of
from importer.events import (
    BlobDone,
    Compared,
    Compiling,
    Fetched,
    Fetching,
    Measured,
    Measuring,
    ModelBegun,
    Planned,
    Published,
    Received,
    Sampling,
    Scanned,
    Verified,
    Wrote,
)
from store import CommitOutcome, Digest
from tests.cli.runner import run, spawn, validator
from tests.cli.test_signals import ended, is_writing, large, start, wait_for
from tests.cli.views.test_terminal import on_terminal
from tests.importer.builders import MODELS, REPOSITORY

LLAMA = MODELS / "tiny-llama"
GB = 10**9
NARROW = "2/3 writing  ████░░░░░░░   81/205 blobs  1.1 GB/2.6 GB  550 MB/s     3 s left"
WIDE = (
    "2/3 writing  ████████░░░░░░░░░░░░   81/205 blobs  1.1 GB/2.6 GB  550 MB/s     3 s left  "
    "…yers.80.mlp.down_proj.weight"
)


@pytest.fixture(autouse=True)
def talkative():
    """The process may have served a call that wanted JSON."""
    speak_json(wanted=False)
    be_quiet(wanted=False)


class Clock:
    """A clock that goes when it is told."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def at_work(phases=(READING, WRITING, MEASURING)):
    """A state in the midst of writing: 81 of 205 blobs, 1.1 of 2.6 GB in 2 s."""
    clock = Clock()
    state = State(phases, clock)
    state.take(Planned(205, 2_600_000_000, 0))
    for number in range(81):
        clock.now = 2 * (number + 1) / 81
        state.take(Wrote(f"model.layers.{number}.mlp.down_proj.weight", 13_580_247))
        state.take(BlobDone("x", 13_580_247, CommitOutcome.NEW))
    return state, clock


def test_the_time_that_is_left_is_not_guessed_from_what_compiling_kept_waiting():
    now = 0.0
    state = State((WRITING,), lambda: now)
    state.take(Planned(100, 100_000, 0))
    state.take(Compiling())
    now = 20.0
    assert state.seconds_left is None
    state.take(Wrote("a", 500))
    now = 22.0
    assert state.seconds_left is None
    state.take(Wrote("b", 9500))
    now = 23.0

    assert state.seconds_left == pytest.approx(30, rel=0.2)


def test_a_line_has_the_rate_as_soon_as_there_is_one():
    now = 0.0
    state = State((WRITING,), lambda: now)
    state.take(Planned(2, 8_000_000, 0))
    state.take(Wrote("a", 4_000_000))
    assert _how_far(state) == "writing: 50%, 0 of 2 blobs, 4.0 MB of 8.0 MB"
    now = 1.0

    assert _how_far(state) == "writing: 50%, 0 of 2 blobs, 4.0 MB of 8.0 MB, 4.0 MB/s"


def test_there_is_no_rate_in_the_moment_in_which_kernels_are_ready():
    now = 0.0
    state = State((WRITING,), lambda: now)
    state.take(Planned(33, 570_000_000, 0))
    state.take(Compiling())
    now = 20.0
    state.take(Wrote("a", 4 << 20))
    now += 60e-6
    assert state.rate == 0
    now = 22.0

    assert state.rate == (4 << 20) / 2


def test_the_time_that_is_left_is_not_guessed_from_a_blob_that_keeps_all_waiting():
    now = 0.0
    state = State((WRITING,), lambda: now)
    state.take(Planned(116, 57_000_000, 0))
    now = 5.0
    state.take(Wrote("a", 49_000_000))
    now = 20.0
    state.take(Wrote("b", 100))  # of a blob with one large group after another

    assert state.seconds_left is None
    now = 21.0
    state.take(Wrote("c", 4_000_000))
    assert state.seconds_left == pytest.approx(5, rel=0.2)


def test_the_numbers_of_a_phase():
    state, _ = at_work()

    assert (state.phase, state.step, state.items, state.items_done) == (WRITING, 2, 205, 81)
    assert state.nbytes_done == 81 * 13_580_247
    assert state.rate == pytest.approx(550_000_000, rel=0.01)
    assert state.seconds_left == pytest.approx(1.5e9 / 550e6, rel=0.01)


def test_what_was_there_already_does_not_count_as_written():
    clock = Clock()
    state = State((READING, WRITING), clock)
    state.take(Planned(2, 2000, 1))
    state.take(Wrote("a", 1000, is_new=False))
    clock.now = 2.0
    state.take(Wrote("b", 100))

    assert (state.nbytes_done, state.rate) == (1100, 50.0)
    state.take(Received("c", 500, is_new=False))
    assert state.rate == 50.0


def test_the_rate_is_that_of_the_last_seconds():
    clock = Clock()
    state = State((WRITING,), clock)
    state.take(Planned(1, 10**6, 0))
    state.take(Wrote("a", 500_000))
    clock.now = 100.0
    state.take(Wrote("a", 100))

    assert state.rate == 20.0
    clock.now = 200.0
    assert (state.rate, state.seconds_left) == (0.0, None)


def test_each_phase_has_totals_of_its_own():
    state = State((VERIFYING, COMPARING), Clock())
    state.take(Verified(5, 10))
    state.take(Verified(5, 10))
    assert (state.step, state.share) == (1, 1.0)
    state.take(Compared(3, 30))
    assert (state.step, state.share) == (2, 0.1)


def test_measuring_moves():
    state = State((READING, WRITING, MEASURING), Clock())
    state.take(Measuring(2, 100))
    state.take(Measured("a", 60))

    assert (state.step, state.items_done, state.share) == (3, 1, 0.6)


def test_fetching_comes_before_reading():
    state = State(("fetching", READING, WRITING), Clock())
    state.take(Fetching("org/m", "c0ffee", 3, 100))
    state.take(Received("a", 40))
    assert (state.step, state.share, state.noun) == (1, 0.4, "file")
    state.take(Fetched(3, 100, 1.0))
    assert (state.phase, state.nbytes) == (READING, 0)


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (60, "2/3 writing  ██░░░░░   81/205  1.1 GB/2.6 GB     3 s left"),
        (80, NARROW),
        (120, WIDE),
    ],
)
def test_the_picture_fits_the_terminal(columns, shown):
    state, _ = at_work()

    text = line_of(state, columns - 3)

    assert text == shown
    assert len(text) <= columns - 3


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (60, "2/2 writing  ░░░░░░░░░   1/29  5.0 KB/169 KB  …roj.weight"),
        (80, "2/2 writing  ░░░░░░░░░░░░░   1/29 blobs  5.0 KB/169 KB  …0.mlp.up_proj.weight"),
    ],
)
def test_a_name_has_the_columns_of_what_is_not_known_yet_and_loses_its_beginning(
    columns, shown
):
    state = State((READING, WRITING), Clock())
    state.take(Planned(29, 169_000, 0))
    state.take(Wrote("model.layers.0.mlp.up_proj.weight", 5000))
    state.take(BlobDone("x", 1, CommitOutcome.NEW))

    assert line_of(state, columns - 3) == shown


def test_what_is_said_instead_of_a_name_loses_its_end():
    state = State((READING, WRITING), Clock())
    state.take(Planned(29, 169_000, 0))
    state.take(Compiling())

    assert line_of(state, 77).endswith("  compiling kernels, w…")


def test_a_phase_that_was_not_foreseen_has_its_place():
    state = State((READING, WRITING), Clock())
    state.take(ModelBegun("a", 1, 2))
    assert line_of(state, 40) == "model 1/2  1/2 reading"
    state.take(Fetching("org/m", "c0ffee", 3, 100))
    assert (state.step, state.phases) == (1, ("fetching", READING, WRITING))
    state.take(Fetched(3, 100, 1.0))
    state.take(Sampling(2, 30))
    assert (state.step, len(state.phases)) == (3, 4)
    state.take(ModelBegun("b", 2, 2))
    assert (state.step, state.phases) == (1, (READING, WRITING))


@pytest.mark.parametrize(
    "words",
    [
        ("create", "m", LLAMA, "--target-bpw", "6"),
        ("create", "m", LLAMA, "--target-bpw", "6", "--dry-run"),
        ("create", "m", LLAMA, "-q", "int4", "--report"),
        ("create", "m", LLAMA, "--dry-run"),
        ("export", LLAMA, "{out}", "--to", "hf", "--dry-run"),
        ("sync", "{list}"),
        ("sync", "{list}", "--dry-run"),
    ],
)
def test_phases_come_in_order_and_are_those_of_what_is_done(store, tmp_path, words):
    listed = tmp_path / "list.toml"
    listed.write_text(f'[[model]]\nname = "m"\nsource = "{LLAMA}"\n', encoding="utf-8")
    given = [str(word).format(out=tmp_path / "out", list=listed) for word in words]

    told = run(*given, "--progress", "json", store=store).succeeded().stderr

    seen = [one for one in events_of(told) if one["event"] == "progress"]
    steps = [one["step"] for one in seen]
    assert steps == sorted(steps)
    assert (steps[0], seen[0]["phase"]) == (1, READING)
    assert (WRITING in {one["phase"] for one in seen}) == ("--dry-run" not in words)
    assert {one["steps"] for one in seen} == {steps[-1]}


@pytest.mark.parametrize("columns", range(16, 60))
def test_no_number_of_the_picture_is_cut(columns):
    state, _ = at_work()
    fields = ["2/3 writing", "81/205", "1.1 GB/2.6 GB", "3 s left", "model.layers.80.mlp"]

    line = re.sub("  [█░]+", "", line_of(state, columns))
    shown = re.split(r" {2,}", line)

    assert shown == fields[: len(shown)]


@pytest.mark.parametrize("columns", [20, 60, 120])
def test_an_echo_of_ctrl_c_leaves_no_picture_behind(monkeypatch, columns):
    state, _ = at_work()
    screen = Screen(columns)
    monkeypatch.setattr("cli.views.progress_line._write", screen.write)
    monkeypatch.setattr("cli.views.progress_line._columns", lambda: columns)

    Line(state).draw(now=True)

    # A line that is full would go on in the next one, of which alone the end is erased.
    assert len(screen.rows[screen.row]) + len("^C") < columns


@given(st.integers(1, 300), st.text(max_size=300), st.integers(0, 10**15))
def test_the_picture_is_never_too_wide_and_drives_no_terminal(width, name, nbytes):
    state = State((READING, WRITING), Clock())
    state.take(Planned(10**6, nbytes, 0))
    state.take(Wrote(name, nbytes // 2))

    text = line_of(state, width)

    assert width_of(text) <= width
    assert "\x1b" not in text
    assert "\n" not in text


def test_the_fields_stand_still_while_the_numbers_change():
    state, clock = at_work()
    first = line_of(state, 79)
    clock.now += 1
    state.take(Wrote("model.layers.81.self_attn.q_proj.weight", 900_000_000))
    second = line_of(state, 79)

    assert [m.start() for m in re.finditer("blobs|/2.6|/s|left", first)] == [
        m.start() for m in re.finditer("blobs|/2.6|/s|left", second)
    ]


def test_a_terminal_without_blocks_gets_letters():
    state, _ = at_work()

    assert "########............" in line_of(state, 119, has_blocks=False)


class Screen:
    """A terminal that breaks its lines anew when it becomes narrower, as most do."""

    def __init__(self, columns):
        self.columns, self.rows, self.row = columns, [""], 0

    def resize(self, columns):
        text = self.rows
        self.columns, self.rows = columns, []
        for number, line in enumerate(text):
            parts = [line[at : at + columns] for at in range(0, max(len(line), 1), columns)]
            self.rows += parts
            if number == self.row:
                row = len(self.rows) - 1
        self.row = row

    def write(self, text):
        for part in re.split(r"(\r|\n|\x1b\[\d*[AJ])", text):
            if part == "\r":
                self.column = 0
            elif part == "\n":
                self.row += 1
                self.rows.append("")
            elif part.endswith("A") and part.startswith("\x1b"):
                self.row -= int(part[2:-1])
            elif part == "\x1b[J":
                del self.rows[self.row + 1 :]
                self.rows[self.row] = ""
            elif part:
                assert len(part) <= self.columns, "it would wrap"
                self.rows[self.row] = part


@pytest.mark.parametrize("columns", [(120, 60), (120, 30), (60, 120), (80, 79), (120, 20, 90)])
def test_a_resize_leaves_nothing_behind(monkeypatch, columns):
    state, _ = at_work()
    screen, line = Screen(columns[0]), Line(state)
    screen.write("scanned\n")
    monkeypatch.setattr("cli.views.progress_line._write", screen.write)
    monkeypatch.setattr("cli.views.progress_line._columns", lambda: screen.columns)

    for width in columns:
        screen.resize(width)
        line.draw(now=True)
        assert screen.rows[1:] == [line_of(state, width - 3)]
    with line.hidden():
        pass

    assert screen.rows == ["scanned", ""]


def test_lines_that_stay_are_not_mixed_with_the_picture(store):
    _, _, seen = on_terminal("create", "m", LLAMA, store=store)

    for line in re.split(r"\r?\n", seen):
        stays = re.split(r"\r(?:\x1b\[\d+A)?(?:\x1b\[J)?", line)[-1]
        assert not (stays.startswith("scanned") and "reading" in stays)
    assert re.search(r"\r\x1b\[Jscanned 21 tensors in 3 files \(167 KB\)\r\n", seen)


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": ""}])
def test_a_dumb_terminal_gets_lines(store, env):
    _, _, seen = on_terminal("create", "m", LLAMA, store=store, env=env)

    assert "\x1b" not in seen
    assert seen.startswith("scanned 21 tensors")


def test_plain_is_lines_on_a_terminal_and_none_is_nothing_but_the_summary(store):
    _, _, plain = on_terminal("create", "m", LLAMA, "--progress", "plain", store=store)
    _, _, none = on_terminal("create", "n", LLAMA, "--progress", "none", store=store)

    assert "\x1b" not in plain + none
    assert "making 29 blobs" in plain
    assert "making" not in none
    assert "next: ingot show n:latest" in none


def test_away_from_a_terminal_a_line_comes_now_and_then(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr("cli.views.progress.time.monotonic", clock)
    with listening(Style.PLAIN) as listen:
        listen(Planned(1000, 1000 * GB, 0))
        for number in range(1000):
            clock.now += 0.5
            listen(Wrote(f"t{number}", GB))
            listen(BlobDone(f"t{number}", GB, CommitOutcome.NEW))

    told = capsys.readouterr().err.splitlines()
    # 500 s: every 10 s.
    assert told[0] == "making 1,000 blobs (1.0 TB)"
    assert 45 <= len(told) <= 65
    assert re.fullmatch(
        r"writing: 2%, \d+ of 1,000 blobs, 2\d GB of 1.0 TB(, \S+ .B/s)?(, \d+ s left)?",
        told[1],
    )


def test_away_from_a_terminal_a_tenth_is_worth_a_line(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr("cli.views.progress.time.monotonic", clock)
    with listening(Style.PLAIN) as listen:
        listen(Planned(100, 100 * GB, 0))
        for _ in range(100):
            clock.now += 0.4
            listen(Wrote("t", GB))

    shares = re.findall(r"writing: (\d+)%", capsys.readouterr().err)
    assert shares == ["10", "20", "30", "40", "50", "60", "70", "80", "90"]


@pytest.fixture
def ticking(monkeypatch):
    """A command whose work takes a while and reports nothing."""
    monkeypatch.setattr("cli.views.ticking._TICK", 0.01)
    monkeypatch.setattr("cli.views.progress._SECONDS", 0.1)
    monkeypatch.setattr("cli.views.progress._EVENTS", 0.1)


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("style", ["plain", "json"])
def test_a_phase_that_reports_nothing_is_not_silent(capsys, style):
    text, deadline = "", time.monotonic() + 20
    with listening(Style(style), (COLLECTING,)):
        while text.count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
            text += capsys.readouterr().err

    told = text.splitlines()
    assert len(told) >= 2
    if style == "plain":
        assert told[0] == "collecting: 0 s"
    else:
        validator("ingot.event/1").validate(json.loads(told[0]))


@pytest.mark.usefixtures("ticking")
def test_the_picture_counts_the_seconds_of_a_phase_that_reports_nothing(monkeypatch):
    clock, drawn = Clock(), []
    monkeypatch.setattr("cli.views.progress._is_capable", lambda: True)
    monkeypatch.setattr("cli.views.progress.State", lambda phases: State(phases, clock))
    monkeypatch.setattr("cli.views.progress_line._write", drawn.append)
    monkeypatch.setattr("cli.views.progress_line._columns", lambda: 80)
    monkeypatch.setattr("cli.views.progress_line._REDRAWN", 0.0)

    with listening(Style.AUTO, (COLLECTING,)):
        clock.now += 7
        deadline = time.monotonic() + 20
        while not any("collecting  7 s" in text for text in drawn):
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize(
    "words",
    [
        ("gc", "--yes"),
        ("diff", "m", "m"),
        ("verify",),
        ("verify", "m", "--source", LLAMA),
        ("export", "m", "{out}", "--to", "hf"),
        ("create", "n", LLAMA),
        ("sync", "{list}"),
        ("cp", "m", "--to", "{out}"),
    ],
)
def test_what_may_take_long_has_progress(store, tmp_path, words):
    run("create", "m", LLAMA, store=store).succeeded()
    listed = tmp_path / "list.toml"
    listed.write_text(f'[[model]]\nname = "m"\nsource = "{LLAMA}"\n', encoding="utf-8")
    given = [str(word).format(out=tmp_path / "out", list=listed) for word in words]

    told = run(*given, "--progress", "json", store=store)

    assert told.code == 0
    for event in events_of(told.stderr):
        validator("ingot.event/1").validate(event)


def test_a_quick_import_says_nothing_in_between(store):
    assert "%" not in run("create", "m", LLAMA, store=store).succeeded().stderr


def events_of(text):
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert all(one["schema"] == "ingot.event/1" for one in found)
    return found


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_events_are_json_a_line_each(store, more):
    done = run("create", "m", LLAMA, "-q", "int4", "--progress", "json", *more, store=store)

    found = events_of(done.succeeded().stderr)
    facts = [one["event"] for one in found if one["event"] != "progress"]
    assert facts[:2] == ["scanned", "planned"]
    assert facts[-1] == "published"
    assert found[-1]["event"] == "published"
    assert found[0] | {"tensors": 21, "files": 3} == found[0]
    steps = [(one["step"], one["phase"]) for one in found if one["event"] == "progress"]
    assert steps == sorted(steps)
    assert len(done.stderr.splitlines()) == len(found) or not more


def test_the_page_on_scripts_names_every_event():
    page = (REPOSITORY / "docs" / "scripts.md").read_text(encoding="utf-8")

    assert [name for name in _NAMES.values() if f"`{name}`" not in page] == []


def test_an_event_says_how_far_it_is(capsys):
    with listening(Style.JSON) as listen:
        listen(Scanned(3, 1, 30))
        listen(Planned(2, 30, 0))
        listen(Published(Digest.of(b"x")))

    found = events_of(capsys.readouterr().err)
    far = [one for one in found if one["event"] == "progress"]
    assert far[0].keys() == {
        "schema",
        "event",
        "model",
        "phase",
        "step",
        "steps",
        "items",
        "items_done",
        "bytes",
        "bytes_done",
        "bytes_per_second",
        "seconds_left",
        "name",
    }
    assert found[-1] == {
        "schema": "ingot.event/1",
        "event": "published",
        "manifest": str(Digest.of(b"x")),
    }


def test_nothing_comes_behind_the_last_event_however_long_it_takes(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr("cli.views.progress.time.monotonic", clock)
    with listening(Style.JSON) as listen:
        for event in (Scanned(3, 1, 30), Planned(2, 30, 0), Published(Digest.of(b"x"))):
            clock.now += 60
            listen(event)
        clock.now += 60
        listen.tick()
        told = events_of(capsys.readouterr().err)
        assert told[-1]["event"] == "published"
        listen(Scanned(3, 1, 30))

    assert events_of(capsys.readouterr().err)[-1]["event"] == "progress"


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(store, tmp_path):
    process = start("create", "m", large(tmp_path / "m", 2 << 30), store=store)
    wait_for(lambda: is_writing(store))

    process.send_signal(2)
    _, stderr = ended(process)

    assert stderr.endswith("interrupted: kept 0 of 1 blob; run the same command to go on\n")


def test_ctrl_c_says_nothing_where_nothing_is_wanted(store, tmp_path):
    process = start("create", "m", large(tmp_path / "m", 2 << 30), "--quiet", store=store)
    wait_for(lambda: is_writing(store))

    process.send_signal(2)

    assert ended(process) == ("", "")


def test_progress_needs_no_library_of_pictures():
    code = "import sys, cli.views.progress; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert done.stdout == b"False\n"


def test_a_wrong_kind_of_progress_is_refused(store):
    text = run("create", "m", LLAMA, "--progress", "fancy", store=store).failed(2)

    assert "`--progress fancy`: expected one of auto, plain, json, none" in text


def test_the_width_is_that_of_stderr(store):
    # stdout is a pipe, and COLUMNS is what a shell exported long ago.
    import fcntl
    import pty
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 61, 0, 0))
    done = spawn("create", "m", LLAMA, store=store, stderr=slave, env={"TERM": "xterm"})
    os.close(slave)
    seen = os.read(master, 1 << 16).decode()
    os.close(master)

    assert done.code == 0
    pictures = [part for part in re.split(r"\r|\n|\x1b\[J", seen) if "/" in part[:2]]
    assert all(len(part) <= 60 for part in pictures)
