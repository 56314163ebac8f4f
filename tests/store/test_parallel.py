"""Threads give results in order, take items as they go, and give up together."""

import threading

import pytest

from store import parallel
from store.parallel import Stop, StoppedError, each


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_the_order_of_the_items(threads):
    assert list(each(lambda n: n * n, range(3000), threads, Stop())) == [
        n * n for n in range(3000)
    ]


def test_not_all_items_are_begun_at_once(monkeypatch):
    monkeypatch.setattr(parallel, "_AHEAD", 5)
    taken = []

    def items():
        for n in range(100):
            taken.append(n)
            yield n

    results = each(lambda n: n, items(), 2, Stop())

    assert next(results) == 0
    assert len(taken) <= 7
    assert list(results) == list(range(1, 100))


def test_a_failure_stops_the_others_and_what_waits_is_not_begun():
    begun, goes_on = [], threading.Event()
    release = threading.Timer(0.2, goes_on.set)

    class Releasing(Stop):
        def set(self):
            super().set()
            release.start()

    stop = Releasing()

    def work(n):
        begun.append(n)
        if n == 0:
            raise KeyError(n)
        goes_on.wait(60)
        stop.check()

    def fail():
        for _ in each(work, range(500), 2, stop):
            pytest.fail("there is no result before the failure")

    with pytest.raises(KeyError):
        fail()

    assert len(begun) <= 3
    with pytest.raises(StoppedError):
        stop.check()
