"""Committing beside making: what waits for room gives up when everything stops."""

import threading

import pytest

from importer.engine.committer import Committer
from store.parallel import Stop, StoppedError

MORE_THAN_ROOM = 100


def admit_and_submit_nothing(committer):
    for _ in range(MORE_THAN_ROOM):
        committer.admit()  # as for results that nobody takes


def commit_one(commit, stop):
    with Committer(commit, 1, stop) as committer:
        committer.admit()
        committer.submit(None, None)


def test_whoever_waits_for_room_gives_up_when_everything_stops():
    stop = Stop()
    threading.Timer(0.1, stop.set).start()

    with Committer(lambda _, __: None, 1, stop) as committer, pytest.raises(StoppedError):
        admit_and_submit_nothing(committer)


def test_a_failed_commit_is_raised_and_stops_everything():
    def fail(_, __):
        raise OSError("disk")

    stop = Stop()

    with pytest.raises(OSError, match="disk"):
        commit_one(fail, stop)
    with pytest.raises(StoppedError):
        stop.check()
