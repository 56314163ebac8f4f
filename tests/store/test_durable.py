"""A file of the user's is what it was or what it becomes, whatever happens in between."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path

import pytest

from store.durable import replace_file
from tests.store.sim_fs import Crash, Fault, home

PLACE = Path("/home/user/simulated/report")
PARTS = [b"the ", memoryview(b"new"), b" one"]
NEW, OLD = b"the new one", b"the old one, which is longer"
FAILURES = [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE]


def world(before):
    fs = home()
    fs.mkdir(PLACE.parent)
    if before is not None:
        file = fs.create(PLACE)
        fs.write(file, before)
        fs.close(file)
    fs.disk.save_all()
    fs.log.clear()
    return fs


def files(fs):
    return {
        path: data for path, data in fs.tree().items() if path.startswith(f"{PLACE.parent}/")
    }


def steps(before):
    fs = world(before)
    replace_file(PLACE, PARTS, fs)
    assert files(fs) == {str(PLACE): NEW}
    return len(fs.log)


def failure_of(fs):
    try:
        replace_file(PLACE, PARTS, fs)
    except OSError as error:
        return error
    return None


@pytest.mark.parametrize("before", [OLD, None])
def test_a_crash_or_power_cut_at_any_call_leaves_the_old_or_the_new(before):
    found = set()
    for at in range(steps(before) + 1):  # the last comes after all of it
        fs = world(before)
        fs.crash_at = at
        with contextlib.suppress(Crash):
            replace_file(PLACE, PARTS, fs)
        for _, after in fs.crash_states():
            found.add(files(after).get(str(PLACE)))

    assert found == {before, NEW}


@pytest.mark.parametrize("before", [OLD, None])
@pytest.mark.parametrize("short", [True, False])
def test_a_failure_of_any_call_leaves_what_was_there_and_nothing_beside_it(before, short):
    failed = set()
    for at in range(steps(before)):
        for number in FAILURES:
            fs = world(before)
            fs.fault = Fault(at, number, short=short)
            error = failure_of(fs)
            if error is not None:
                failed.add(fs.log[at].name)
                assert error.filename == str(PLACE)
                assert files(fs) == ({str(PLACE): before} if before is not None else {})

    assert failed == {"create", "write", "sync", "status_of", "close", "rename"}


def test_an_interruption_leaves_nothing_beside_it(tmp_path):
    def parts():
        yield b"half"
        raise KeyboardInterrupt

    (tmp_path / "report").write_bytes(OLD)
    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "report", parts())

    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    assert (tmp_path / "report").read_bytes() == OLD


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "report").symlink_to("there/file")

    for _ in range(2):  # one that leads nowhere yet, too
        replace_file(tmp_path / "report", PARTS)

    assert (tmp_path / "report").readlink() == Path("there/file")
    assert (tmp_path / "there/file").read_bytes() == NEW


def test_a_fifo_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    taken = []
    reader = threading.Thread(target=lambda: taken.append(pipe.read_bytes()))
    reader.start()

    replace_file(pipe, PARTS)

    reader.join()
    assert taken == [NEW]
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_the_umask_decides_who_may_read_it(tmp_path):
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "report", PARTS)
    finally:
        os.umask(before)

    assert (tmp_path / "report").stat().st_mode & 0o777 == 0o640


def test_a_directory_is_not_replaced(tmp_path):
    (tmp_path / "report").mkdir()

    with pytest.raises(IsADirectoryError, match="report"):
        replace_file(tmp_path / "report", PARTS)

    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_the_longest_name_has_room(tmp_path):
    replace_file(tmp_path / ("n" * 255), PARTS)

    assert (tmp_path / ("n" * 255)).read_bytes() == NEW
