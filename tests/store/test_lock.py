from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from store.errors import BusyError, UnsupportedError
from store.gc import GarbageCollector
from store.memo import Memo
from store.store import Store
from store.verify import verify
from tests.store.builders import create, make_manifest, name
from tests.store.judge import ROOT, tags, violations
from tests.store.sim_fs import SimFSWithoutLocks, home

HOLD = """
import os, sys, time
from pathlib import Path
from store.store import Store
store = Store(Path(sys.argv[2]))
with store.lock.shared() if sys.argv[1] == "shared" else store.lock.exclusive(0):
    if "fork" in sys.argv:
        if os.fork():
            print(flush=True)
            os._exit(0)
        time.sleep(0.3)
    else:
        print(flush=True)
        time.sleep(60)
"""


class Holder:
    """Another process that holds the lock of a store."""

    def __init__(self, kind, store, *more):
        argv = [sys.executable, "-c", HOLD, kind, str(store.layout.root), *more]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE)

    def __enter__(self):
        assert self.process.stdout.readline() == b"\n"
        return self.process

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def can_be_taken(store):
    try:
        with store.lock.exclusive(0):
            return True
    except BusyError:
        return False


def test_sharers_do_not_exclude_each_other(store):
    with store.lock.shared(), store.lock.shared():
        pass


def test_a_sharer_excludes_gc(store):
    with store.lock.shared():
        assert not can_be_taken(store)


def test_gc_excludes_another_gc(store):
    with store.lock.exclusive(0):
        assert not can_be_taken(store)


def test_gc_excludes_sharers(store, monkeypatch):
    monkeypatch.setattr("store.lock._SHARED_WAIT", 0)

    with store.lock.exclusive(0), pytest.raises(BusyError) as caught, store.lock.shared():
        pass
    assert caught.value.exit_code == 6


def test_the_lock_is_free_after_an_error(store):
    with pytest.raises(ZeroDivisionError), store.lock.exclusive(0):
        1 / 0  # noqa: B018

    assert can_be_taken(store)


def test_gc_waits_as_long_as_it_was_told(store):
    with store.lock.shared():
        before = time.monotonic()
        with pytest.raises(BusyError), store.lock.exclusive(0.1):
            pass

    assert 0.1 <= time.monotonic() - before < 5


def test_a_sharer_waits_until_gc_is_done(store):
    entered = threading.Event()

    def share():
        with store.lock.shared():
            entered.set()

    thread = threading.Thread(target=share)
    with store.lock.exclusive(0):
        thread.start()
        assert not entered.wait(0.05)
    assert entered.wait(10)
    thread.join()


def test_gc_that_waits_lets_no_newcomer_in(store, monkeypatch):
    """The turnstile: with one file, gc waited as long as writers kept coming."""
    monkeypatch.setattr("store.lock._SHARED_WAIT", 0)
    taken = threading.Event()

    def collect():
        with store.lock.exclusive(10):
            taken.set()

    thread = threading.Thread(target=collect)
    with store.lock.shared():
        thread.start()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                with store.lock.shared():
                    time.sleep(0.001)
            except BusyError:
                break
        assert not taken.is_set()
    assert taken.wait(10)
    thread.join()
    assert time.monotonic() < deadline


def test_gc_is_not_starved_by_writers(store):
    stop = threading.Event()

    def keep_sharing():
        while not stop.is_set():
            with store.lock.shared():
                time.sleep(0.002)

    threads = [threading.Thread(target=keep_sharing) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with store.lock.exclusive(10):
            pass
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_the_lock_of_a_killed_process_is_free(store):
    with Holder("exclusive", store) as holder:
        assert not can_be_taken(store)
        holder.kill()
        holder.wait()
        assert can_be_taken(store)


def test_a_stopped_process_keeps_its_lock(store):
    with Holder("shared", store) as holder:
        holder.send_signal(signal.SIGSTOP)
        assert not can_be_taken(store)


def test_a_forked_child_keeps_the_lock_of_its_parent(store):
    with Holder("shared", store, "fork") as parent:
        parent.wait()
        assert not can_be_taken(store)
        with store.lock.exclusive(10):  # until the child ends
            pass


def test_a_lock_that_works_is_effective(store):
    with store.lock.exclusive(0):
        assert store.lock.is_effective()


def test_a_lock_file_that_is_a_link_is_not_followed(store, tmp_path):
    (store.layout.locks / "gate").unlink(missing_ok=True)
    (store.layout.locks / "gate").symlink_to(tmp_path / "made")

    with pytest.raises(OSError, match="gate"), store.lock.shared():
        pass
    assert not (tmp_path / "made").exists()


# A file system whose locks do nothing.


@pytest.fixture
def lockless():
    return Store(ROOT, SimFSWithoutLocks(home().disk), Memo(None))


def test_a_lock_that_does_nothing_is_not_effective(lockless):
    lockless.prepare()

    with lockless.lock.exclusive(0):
        assert not lockless.lock.is_effective()


def test_gc_refuses_to_run_without_locks(lockless):
    create(lockless)
    lockless.remove([name()])
    before = lockless.fs.tree()

    with pytest.raises(UnsupportedError) as caught:
        GarbageCollector(lockless).run()

    assert caught.value.code == "E_LOCKS"
    assert lockless.fs.tree() == before


def test_writers_work_without_locks(lockless):
    create(lockless)

    assert lockless.catalog.get(name()).parse() == make_manifest()
    assert verify(lockless).findings == ()


def test_a_store_without_locks_is_as_good_after_a_power_cut(lockless):
    create(lockless)

    tree = lockless.fs.after_power_cut().tree()

    assert violations(tree) == []
    assert len(tags(tree)) == 1
