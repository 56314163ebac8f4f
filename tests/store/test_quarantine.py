"""Bad files leave `blobs/`; a good copy never does, whoever puts it there meanwhile."""

from __future__ import annotations

import contextlib
import errno

import pytest

from store.errors import BusyError, UnsupportedError
from store.fs import FileSystem
from store.lock import StoreLock
from store.quarantine import examine, quarantine
from store.store import Store
from tests.store.builders import TENSORS, create, ref_of, tensor_blob
from tests.store.exploration import Scenario, arranged
from tests.store.judge import violations
from tests.store.scenarios import DAMAGED, create_again, damage, set_aside

CONTENT = tensor_blob("a.weight", TENSORS["a.weight"])
DIGEST = ref_of(CONTENT).digest


@pytest.fixture
def store(store):
    create(store)
    return store


def overwrite(store, content):
    path = store.blobs.path(DIGEST)
    path.chmod(0o600)
    path.write_bytes(content)


def kept(store):
    return {path.name for path in store.layout.quarantine.iterdir()}


def test_a_good_blob_is_no_suspect(store):
    assert examine(store, DIGEST) is None


def test_a_missing_blob_is_a_suspect_of_which_nothing_is_bad(store):
    store.blobs.path(DIGEST).unlink()

    suspect = examine(store, DIGEST)

    assert (suspect.seen, suspect.is_bad) == (None, False)
    assert quarantine(store, [suspect]) == ()


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT[:-1] + b"x", CONTENT + b"x"])
def test_a_file_with_other_bytes_is_moved(store, content):
    overwrite(store, content)

    moved = quarantine(store, [examine(store, DIGEST)])

    assert moved == (DIGEST,)
    assert store.blobs.status(DIGEST) is None
    (name,) = kept(store)
    assert (store.layout.quarantine / name).read_bytes() == content


def test_what_is_no_file_is_moved_and_not_followed(store, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(CONTENT)
    path = store.blobs.path(DIGEST)
    path.unlink()
    path.symlink_to(target)
    quarantine(store, [examine(store, DIGEST)])
    path.mkdir()
    (path / "file").write_bytes(b"")

    quarantine(store, [examine(store, DIGEST)])

    assert kept(store) == {f"{path.name}.1", f"{path.name}.2"}
    assert (store.layout.quarantine / f"{path.name}.1").is_symlink()
    assert target.read_bytes() == CONTENT


def test_a_file_that_cannot_be_read_may_be_good_and_stays(store, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "read_into", broken)
        suspect = examine(store, DIGEST)

    assert not suspect.is_bad
    assert quarantine(store, [suspect]) == ()
    assert examine(store, DIGEST) is None


def test_a_file_that_was_healed_since_stays(store):
    overwrite(store, b"bad")
    suspect = examine(store, DIGEST)
    create(store)

    assert quarantine(store, [suspect]) == ()
    assert examine(store, DIGEST) is None


def test_a_bad_file_is_forgotten_by_the_memo(store):
    overwrite(store, CONTENT[:-1] + b"x")
    store.memo.note(DIGEST, store.blobs.status(DIGEST))

    examine(store, DIGEST)

    assert not store.memo.knows(DIGEST, store.blobs.status(DIGEST))


def test_nothing_is_moved_where_locks_exclude_nobody(store, monkeypatch):
    overwrite(store, b"bad")
    monkeypatch.setattr(StoreLock, "is_effective", lambda _: False)

    with pytest.raises(UnsupportedError) as caught:
        quarantine(store, [examine(store, DIGEST)])
    assert caught.value.code == "E_LOCKS"
    assert "quarantine" in str(caught.value)
    assert store.blobs.path(DIGEST).read_bytes() == b"bad"


def test_nothing_is_moved_while_a_writer_is_in(store):
    overwrite(store, b"bad")
    other = Store(store.layout.root)

    with other.lock.shared(), pytest.raises(BusyError):
        quarantine(store, [examine(store, DIGEST)], wait=0.01)
    assert store.blobs.path(DIGEST).read_bytes() == b"bad"


def meetings():
    """Let a create, which heals, come in before each operation; tell what it lost."""
    before = arranged(Scenario("rot", damage(bytes(len(DAMAGED))), set_aside))
    alone = before.copy()
    set_aside(alone.store)
    for point in range(len(alone.fs.log)):
        world, done = before.copy(), []

        def come_in(number, point=point, world=world, done=done):
            if number == point:
                with contextlib.suppress(BusyError):
                    create_again(world.another_process.store)
                    done.append(number)

        world.fs.before = come_in
        with contextlib.suppress(OSError):  # there was nothing to move any more
            set_aside(world.store)
        world.fs.before = None
        yield done, violations(world.fs.tree())


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("store.lock._SHARED_WAIT", 0)


@pytest.mark.usefixtures("impatient")
def test_what_a_create_heals_meanwhile_is_not_moved():
    met = list(meetings())

    assert [problems for done, problems in met if done and problems] == []
    assert sum(bool(done) for done, _ in met) >= 10
    assert any(not done for done, _ in met)


@contextlib.contextmanager
def nothing(*_):
    yield


def no_lock(patch):
    patch.setattr(StoreLock, "exclusive", nothing)
    patch.setattr(StoreLock, "is_effective", lambda _: True)


def no_second_look(patch):
    def hasty(store, suspects, wait):
        with store.lock.exclusive(wait):
            for suspect in suspects:
                if store.blobs.status(suspect.digest) is not None:
                    store.blobs.set_aside(suspect.digest)
        return suspects

    patch.setattr("tests.store.scenarios.quarantine", hasty)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("plant", [no_lock, no_second_look])
def test_the_meetings_see_a_careless_quarantine(monkeypatch, plant):
    plant(monkeypatch)

    assert any(done and problems for done, problems in meetings())
