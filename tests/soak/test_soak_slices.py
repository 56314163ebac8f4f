"""A few seconds of each soak; `make soak` runs them for longer."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.soak import bit_rot, concurrency, disks, kills, power_cut
from tests.soak.bugs import BUGS
from tests.soak.forked import why_no_strace
from tests.soak.harness import REPOSITORY
from tests.soak.seeded_bugs import LAYERS

ARGV = (sys.executable, "-m", "cli")
no_mount = pytest.mark.skipif(
    disks.why_no_mount() is not None, reason=str(disks.why_no_mount())
)
no_loop = pytest.mark.skipif(disks.why_no_loop() is not None, reason=str(disks.why_no_loop()))
no_strace = pytest.mark.skipif(why_no_strace() is not None, reason=str(why_no_strace()))


def soak(name, *options):
    """Run a soak that forks, which a process of pytest's own may not: it has threads."""
    done = subprocess.run(
        [sys.executable, f"tests/soak/{name}.py", *options],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_everything_at_once_breaks_nothing():
    report = concurrency.run(seconds=5, argv=ARGV, seed=1)

    assert report.violations == []
    assert {"create", "cp", "rm", "gc", "verify"} <= set(report.seconds)


@pytest.mark.parametrize(("signal_name", "count"), [("KILL", 6), ("TERM", 3), ("INT", 3)])
def test_a_killed_command_loses_nothing(signal_name, count):
    report = kills.run(kills=count, signal_name=signal_name, argv=ARGV, seed=1)

    assert report.violations == []
    assert sum(report.ends.values()) == count


@no_strace
def test_a_system_call_that_fails_breaks_nothing():
    assert " 0 met no call" in soak("syscalls", "--scenario", "cp over", "--every", "1000")


def test_a_signal_at_any_moment_is_not_lost_and_leaves_nothing():
    assert ", 0 came nowhere" in soak("moments", "--scenario", "cp", "--every", "60")


@no_loop
def test_a_power_cut_loses_nothing():
    report = power_cut.run(cuts=2, argv=ARGV, seed=1)

    assert report.violations == []
    assert report.cuts == 2


@pytest.mark.parametrize(
    "bed",
    [
        pytest.param("tmpfs", marks=no_mount),
        pytest.param("ext4", marks=no_loop),
        pytest.param("ext3", marks=no_loop),
        pytest.param("inodes", marks=no_loop),
        "limit",
    ],
)
def test_a_full_disk_breaks_nothing(bed):
    text = soak("full_disk", "--bed", bed, "--sizes", "2")

    assert "1 x exit 7, seen late" in text
    assert "4 imports" in text


def test_whatever_rots_is_found_and_healed():
    text = soak("bit_rot", "--rounds", "1", "--seed", "1")

    for damage in bit_rot.DAMAGES:
        assert f" x {damage}: found as" in text


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_mistake_can_be_planted(bug, tmp_path):
    copy = tmp_path / f"{bug.file}.py"
    copy.parent.mkdir(parents=True)
    copy.write_text((REPOSITORY / f"{bug.file}.py").read_text("utf-8"), "utf-8")

    bug.plant(tmp_path)

    compile(copy.read_text("utf-8"), copy.name, "exec")
    assert set(bug.layers) <= set(LAYERS)
