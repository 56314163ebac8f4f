"""A few seconds of each soak; `make soak` runs them for longer."""

from __future__ import annotations

import sys

import pytest

from tests.soak import concurrency, kills

ARGV = (sys.executable, "-m", "cli")


def test_everything_at_once_breaks_nothing():
    report = concurrency.run(seconds=6, argv=ARGV, seed=1)

    assert report.violations == []
    assert {"create", "cp", "rm", "gc", "verify"} <= set(report.seconds)


@pytest.mark.parametrize(("signal_name", "count"), [("KILL", 6), ("TERM", 3), ("INT", 3)])
def test_a_killed_command_loses_nothing(signal_name, count):
    report = kills.run(kills=count, signal_name=signal_name, argv=ARGV, seed=1)

    assert report.violations == []
    assert sum(report.ends.values()) == count
