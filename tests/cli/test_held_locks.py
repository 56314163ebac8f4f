"""Commands beside processes that hold the store's locks, died with them, or cannot have any."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from store import Store
from tests.check_store import check_store, manifest_path
from tests.cli.runner import argv, environment, run
from tests.importer.builders import MODELS, model

HOLD = """
import os, sys
from pathlib import Path
from store.store import Store

how, root = sys.argv[1:]
store = Store(Path(root))
if how == "store":
    with store.lock.shared():
        print("held", flush=True)
        sys.stdin.read()
else:
    with store.writing("unfinished") as writer:
        ref, _ = writer.put(b"still needed")
        if how == "child" and os.fork():
            os._exit(0)
        print(ref.digest.file_name, flush=True)
        sys.stdin.read()
        os._exit(0)
"""
WITHOUT_LOCKS = """
import fcntl
fcntl.flock = lambda *_: None
from cli.main import run
run()
"""


class Holder:
    """Another process; it lets go when its stdin ends, or with its life."""

    def __init__(self, how, store):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, how, str(store)],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()  # a child that survives ends with it
        self.process.stdout.close()


def collect(store, *words):
    return run("gc", "--yes", *words, store=store)


def collect_until_free(store):
    """The last holder ends a moment after it was told."""
    deadline = time.monotonic() + 20
    while "freed" not in (outcome := collect(store).succeeded()).stdout:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return outcome


def test_a_killed_holder_holds_nothing(filled):
    with Holder("store", filled) as holder:
        collect(filled, "--wait", "0").failed(6)
        holder.process.kill()
        holder.process.wait()

        collect(filled, "--wait", "0").succeeded()


def test_gc_waits_for_a_stopped_holder_as_long_as_it_was_told(filled):
    with Holder("store", filled) as holder:
        holder.process.send_signal(signal.SIGSTOP)

        outcome = collect(filled, "--wait", "2")

        assert "is locked by another process" in outcome.failed(6)
        assert outcome.seconds >= 2
        holder.process.send_signal(signal.SIGCONT)
        holder.process.stdin.close()
        collect(filled, "--wait", "10").succeeded()
    assert list((filled / "tmp").iterdir()) == []


@pytest.mark.parametrize("words", [["list"], ["show", "kept"], ["verify"]], ids=" ".join)
def test_readers_do_not_ask_for_locks(filled, words):
    with Store(filled).lock.exclusive(0):
        run(*words, store=filled).succeeded()


def test_writers_share_the_lock(filled):
    with Holder("store", filled):
        run("cp", "kept", "copy", store=filled).succeeded()
        run("create", "x", MODELS / "tiny-llama", store=filled).succeeded()
        run("rm", "copy", store=filled).succeeded()


@pytest.mark.parametrize("how", ["writer", "child"])
def test_what_a_living_writer_pinned_is_kept_until_it_dies(filled, how):
    with Holder(how, filled) as holder:
        pinned = filled / "blobs" / holder.said
        if how == "child":  # which outlives its parent and keeps the lock of its folder
            assert holder.process.wait() == 0
        holder_is_kept = collect(filled).succeeded()
        assert pinned.exists(), holder_is_kept

        if how == "writer":
            holder.process.kill()
            holder.process.wait()
        holder.process.stdin.close()

        assert "unfinished import of unfinished" in collect_until_free(filled).stdout
        assert not pinned.exists()
    assert check_store(filled, after_gc=True) == []


def test_a_stopped_writer_is_alive(filled):
    with Holder("writer", filled) as holder:
        holder.process.send_signal(signal.SIGSTOP)

        collect(filled, "--wait", "0").succeeded()

        assert (filled / "blobs" / holder.said).exists()


def lockless(store, *words):
    """Start a command for which every lock is free, as on some network file systems."""
    return subprocess.Popen(
        [sys.executable, "-c", WITHOUT_LOCKS, *map(str, words)],
        env=environment(store),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_without_locks_gc_refuses(filled):
    run("rm", "moe:v1", store=filled).succeeded()
    blobs = sorted((filled / "blobs").iterdir())

    refused = lockless(filled, "gc", "--yes")
    _, why = refused.communicate()

    assert (refused.returncode, "locks do nothing" in why) == (4, True)
    assert sorted((filled / "blobs").iterdir()) == blobs
    assert list((filled / "tmp").iterdir()) == []


def test_without_locks_writers_leave_a_whole_store(filled, tmp_path):
    sources = [model(tmp_path / str(n), {f"{n}.weight": ("F32", (64, 64))}) for n in range(2)]
    before = manifest_path(filled, "kept").read_bytes()

    started = [lockless(filled, "create", "same", source) for source in (*sources, *sources)]
    started.append(lockless(filled, "cp", "kept", "copy"))
    started.append(lockless(filled, "rm", "moe:v1"))
    ends = [(process.communicate(), process.returncode) for process in started]

    assert [code for _, code in ends] == [0] * len(started), ends
    assert check_store(filled) == []
    assert manifest_path(filled, "copy").read_bytes() == before
    assert list((filled / "tmp").iterdir()) == []
    run("verify", store=filled).succeeded()


def test_a_command_of_its_own_is_killed_as_it_holds_the_lock(filled):
    # All of it, with the real command: killed anywhere, its folder is nobody's.
    process = subprocess.Popen(
        argv("create", "x", MODELS / "tiny-moe"),
        env=environment(filled),
        stderr=subprocess.PIPE,
    )
    while not list((filled / "tmp").iterdir()) and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    process.communicate()

    collect(filled, "--wait", "0").succeeded()
    assert check_store(filled, after_gc=True) == []
