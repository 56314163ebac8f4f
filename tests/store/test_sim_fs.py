"""The double is judged: it does what the real file system does, and forgets what it should."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.fs import FileSystem
from tests.store.sim_fs import Crash, Fault, SimFS

HOME = Path("/")
NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/a")
names = st.sampled_from(NAMES)
operations = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "create",
                "open",
                "mkdir",
                "rmdir",
                "unlink",
                "entries",
                "status",
                "sync_directory",
            ]
        ),
        names,
    )
    | st.tuples(st.sampled_from(["rename", "link"]), names, names)
    | st.tuples(st.sampled_from(["lock", "share"]), names),
    max_size=25,
)


def perform(fs, root, operation):
    """Do one operation; give what it answers, as far as it must be the same everywhere."""
    name, *paths = operation
    paths = [root / path for path in paths]
    try:
        if name in {"lock", "share"}:
            file = fs.try_lock(*paths, exclusive=name == "lock")
            return file is not None
        answer = getattr(fs, name)(*paths)
    except OSError as error:
        return errno.errorcode[error.errno]
    if name in {"create", "open"}:
        content = fs.read(answer, 100, 0)
        if name == "create":
            fs.write(answer, paths[0].name.encode())
            fs.write_at(answer, b"end", 9)
            fs.write_at(answer, b"2", 1)
        seen = fs.status_of(answer)
        fs.close(answer)
        return content, seen.kind, seen.size
    if name == "status":
        return answer and (answer.kind, answer.kind == "directory" or answer.size)
    return answer


@given(operations)
def test_it_answers_as_the_real_file_system_does(tmp_path_factory, operations):
    real, root = FileSystem(), tmp_path_factory.mktemp("root")
    sim = SimFS()

    ours = [perform(sim, HOME, operation) for operation in operations]
    theirs = [perform(real, root, operation) for operation in operations]

    assert ours == theirs


def path(text):
    return HOME / text


def write(fs, text, content=b"content", *, sync=False):
    file = fs.create(path(text))
    fs.write(file, content)
    if sync:
        fs.sync(file)
    fs.close(file)


def states(fs):
    return [state.tree() for _, state in fs.crash_states()]


def test_what_was_not_synced_may_be_lost():
    fs = SimFS()
    write(fs, "a", sync=True)

    assert fs.after_power_cut().tree() == {"/": None}


def test_what_was_synced_with_its_directory_stays():
    fs = SimFS()
    write(fs, "a", sync=True)
    fs.sync_directory(HOME)

    assert all(state["/a"] == b"content" for state in states(fs))


def test_a_name_may_be_there_without_the_content():
    fs = SimFS()
    write(fs, "a", b"content!")
    fs.sync_directory(HOME)

    assert {state["/a"] for state in states(fs)} == {b"", b"content!", bytes(8), b"cont"}


def test_a_directory_may_be_lost_with_all_that_is_in_it():
    fs = SimFS()
    fs.mkdir(path("d"))
    write(fs, "d/a", sync=True)
    fs.sync_directory(path("d"))

    assert fs.after_power_cut().tree() == {"/": None}


def test_names_of_one_directory_may_be_lost_one_by_one():
    fs = SimFS()
    write(fs, "a", sync=True)
    write(fs, "b", sync=True)

    found = {frozenset(state) - {"/"} for state in states(fs)}

    assert found == {frozenset(), frozenset({"/a"}), frozenset({"/b"}), frozenset({"/a", "/b"})}


def test_a_rename_over_a_file_shows_the_old_or_the_new_one():
    fs = SimFS()
    write(fs, "a", b"old", sync=True)
    write(fs, "b", b"new", sync=True)
    fs.sync_directory(HOME)
    fs.rename(path("b"), path("a"))

    assert {state["/a"] for state in states(fs)} == {b"old", b"new"}


def test_an_unlinked_file_may_come_back():
    fs = SimFS()
    write(fs, "a", sync=True)
    fs.sync_directory(HOME)
    fs.unlink(path("a"))

    assert ["/a" in state for state in states(fs)] == [True, False]


def test_a_sync_that_failed_is_never_made_up_for():
    fs = SimFS()
    file = fs.create(path("a"))
    fs.sync_directory(HOME)
    fs.write(file, b"content")
    fs.fault = Fault(len(fs.log), errno.EIO)
    with pytest.raises(OSError, match="error"):
        fs.sync(file)

    fs.sync(file)

    assert fs.after_power_cut().tree()["/a"] == b""


@pytest.mark.parametrize(("lasting", "failures"), [(False, 1), (True, 3)])
def test_a_fault_hits_once_or_from_then_on(lasting, failures):
    fs = SimFS()
    fs.fault = Fault(1, errno.EIO, lasting)

    failed = 0
    for name in "abcd":
        try:
            fs.mkdir(path(name))
        except OSError:
            failed += 1

    assert failed == failures


def test_a_short_write_takes_half_before_it_fails():
    fs = SimFS()
    file = fs.create(path("a"))
    fs.fault = Fault(1, errno.ENOSPC, short=True)

    with pytest.raises(OSError, match="space"):
        fs.write(file, b"12345678")
    assert fs.read(file, 100, 0) == b"1234"


def test_a_short_write_somewhere_takes_half_before_it_fails():
    fs = SimFS()
    file = fs.create(path("a"))
    fs.fault = Fault(1, errno.ENOSPC, short=True)

    with pytest.raises(OSError, match="space"):
        fs.write_at(file, b"12345678", 2)
    assert fs.read(file, 100, 0) == b"\0\x001234"


def test_a_full_disk_has_nothing_to_reserve():
    fs = SimFS()
    file = fs.create(path("a"))
    fs.fault = Fault(1, errno.ENOSPC)

    with pytest.raises(OSError, match="space"):
        fs.reserve(file, 8)
    assert fs.read(file, 100, 0) == b""


def test_a_dead_process_does_nothing_any_more():
    fs = SimFS()
    fs.crash_at = 1
    file = fs.create(path("a"))

    for operation in (lambda: fs.write(file, b"x"), lambda: fs.unlink(path("a"))):
        with pytest.raises(Crash):
            operation()
    assert fs.tree() == {"/": None, "/a": b""}


def test_the_locks_of_a_dead_process_are_free():
    fs = SimFS()
    other = fs.another_process()
    assert other.try_lock(path("lock"), exclusive=True)
    assert fs.try_lock(path("lock"), exclusive=False) is None

    other.die()

    assert fs.try_lock(path("lock"), exclusive=True)


def test_equal_states_have_equal_fingerprints():
    first, second = SimFS(), SimFS()
    for fs, names in ((first, "ab"), (second, "ba")):
        for name in names:
            write(fs, name, sync=True)

    assert first.fingerprint() == second.fingerprint()


def test_what_a_crash_would_take_is_part_of_the_fingerprint():
    first, second = SimFS(), SimFS()
    write(first, "a", sync=True)
    write(second, "a", sync=True)

    second.sync_directory(HOME)

    assert first.fingerprint() != second.fingerprint()


def test_every_operation_of_the_real_file_system_is_overridden():
    public = {
        name
        for name, operation in vars(FileSystem).items()
        if callable(operation) and not name.startswith("_")
    }

    assert public <= set(vars(SimFS))
