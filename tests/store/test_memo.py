from __future__ import annotations

import contextlib
import functools
import sqlite3
import threading
from pathlib import Path

import pytest

from store.memo import Memo, SourceIdentity
from store.status import Kind, Status
from tests.store.builders import digest_of

DIGEST = digest_of(b"x")
SEEN = Status(Kind.FILE, size=1, inode=2, mtime_ns=3, ctime_ns=4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memo.sqlite"


@pytest.fixture
def memo(path):
    memo = Memo(path)
    yield memo
    memo.close()


def change(path, statement):
    database = sqlite3.connect(path)
    database.execute(statement)
    database.commit()
    database.close()


def test_a_blob_that_was_noted_is_known(memo):
    memo.note(DIGEST, SEEN)

    assert memo.knows(DIGEST, SEEN)


def test_a_blob_that_was_noted_is_known_to_the_next_process(memo, path):
    memo.note(DIGEST, SEEN)
    memo.close()

    later = Memo(path)
    assert later.knows(DIGEST, SEEN)
    later.close()


@pytest.mark.parametrize("change", ["size", "inode", "mtime_ns", "ctime_ns"])
@pytest.mark.parametrize("saved", [False, True])
def test_a_file_that_changed_is_not_known(memo, change, saved):
    memo.note(DIGEST, SEEN)
    if saved:
        memo.close()

    assert not memo.knows(DIGEST, SEEN._replace(**{change: 9}))


@pytest.mark.parametrize("change", ["mode", "owner"])
def test_a_file_whose_permissions_changed_is_known(memo, change):
    memo.note(DIGEST, SEEN)

    assert memo.knows(DIGEST, SEEN._replace(**{change: 9}))


def test_another_blob_is_not_known(memo):
    memo.note(DIGEST, SEEN)

    assert not memo.knows(digest_of(b"other"), SEEN)


@pytest.mark.parametrize("saved", [False, True])
def test_the_last_note_counts(memo, saved):
    memo.note(DIGEST, SEEN)
    if saved:
        memo.close()
    memo.note(DIGEST, SEEN._replace(inode=9))

    assert memo.knows(DIGEST, SEEN._replace(inode=9))
    assert not memo.knows(DIGEST, SEEN)


@pytest.mark.parametrize("saved", [False, True])
def test_what_is_forgotten_is_not_known(memo, saved):
    memo.note(DIGEST, SEEN)
    if saved:
        memo.close()
    memo.forget(DIGEST)

    assert not memo.knows(DIGEST, SEEN)


def test_many_notes_are_saved_on_the_way(memo, path):
    digests = [digest_of(number.to_bytes(2, "big")) for number in range(600)]
    for digest in digests:
        memo.note(digest, SEEN)

    other = Memo(path)
    assert sum(other.knows(digest, SEEN) for digest in digests) >= 512
    other.close()


def test_many_are_asked_at_once_in_any_order(memo):
    noted = [digest_of(number.to_bytes(2, "big")) for number in range(600)]
    for digest in noted[::2]:  # of which some are saved, and some wait
        memo.note(digest, SEEN)
        memo.note_product(digest.hex.encode(), b"header", digest, 5)
    asked = [*reversed(noted), noted[0]]

    known = memo.knows_each([(digest, SEEN) for digest in asked])
    memo.save()
    products = memo.products([digest.hex.encode() for digest in asked])

    assert known == [digest in noted[::2] for digest in asked]
    assert products == [(digest, 5) if digest in noted[::2] else None for digest in asked]


@pytest.mark.parametrize("inode", [2**63 - 1, 2**63, 2**64 - 1])
def test_a_file_with_a_large_inode_is_known(memo, inode):
    # Some network and user-space file systems use all 64 bits.
    memo.note(DIGEST, SEEN._replace(inode=inode))
    memo.close()

    assert memo.knows(DIGEST, SEEN._replace(inode=inode))


@pytest.mark.parametrize(
    "content", [b"", b"no database", bytes(5000), b"SQLite format 3\x00" * 99]
)
def test_a_damaged_memo_is_made_anew(path, content):
    path.write_bytes(content)

    for expected in (False, True):
        memo = Memo(path)
        assert memo.knows(DIGEST, SEEN) is expected
        memo.note(DIGEST, SEEN)
        memo.close()


def test_a_memo_whose_tables_have_no_readable_names_is_made_anew(path):
    memo = Memo(path)
    memo.note(DIGEST, SEEN)
    memo.close()
    # SQLite quotes the statement in its message, and Python cannot decode that.
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE blob", b"CREATE T\xffBLE blob"))

    for expected in (False, True):
        memo = Memo(path)
        assert memo.knows(DIGEST, SEEN) is expected
        memo.note(DIGEST, SEEN)
        memo.close()


def test_a_memo_with_a_length_that_no_memory_holds_is_made_anew(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        for statement in ("PRAGMA page_size = 512", "VACUUM"):
            database.execute(statement)
    memo = Memo(path)
    memo.note(DIGEST, SEEN)
    memo.close()
    data = bytearray(path.read_bytes())
    row = data.index(b"tablesecretsecret")
    data[row - 9 : row] = b"\xff" * 8 + b"d"
    path.write_bytes(data)

    for expected in (False, True):
        memo = Memo(path)
        assert memo.knows(DIGEST, SEEN) is expected
        memo.note(DIGEST, SEEN)
        memo.close()


def test_a_read_that_failed_once_forgets_nothing(memo, monkeypatch):
    memo.note(DIGEST, SEEN)
    memo.close()

    class FailingOnce(sqlite3.Connection):
        failures = 1

        def execute(self, *words):
            if self.failures:
                FailingOnce.failures -= 1
                # What SQLite says of EIO.
                raise sqlite3.DatabaseError("database disk image is malformed")
            return super().execute(*words)

    connect = functools.partial(sqlite3.connect, factory=FailingOnce)
    monkeypatch.setattr(sqlite3, "connect", connect)

    assert memo.knows(DIGEST, SEEN)
    assert FailingOnce.failures == 0


def test_a_memo_that_is_cut_short_is_made_anew(path):
    memo = Memo(path)
    for number in range(200):
        memo.note(digest_of(bytes([number])), SEEN)
    memo.close()
    path.write_bytes(path.read_bytes()[:4096])

    for _ in range(2):
        memo = Memo(path)
        memo.knows(DIGEST, SEEN)
        memo.note(DIGEST, SEEN)
        memo.close()
    memo = Memo(path)
    assert memo.knows(DIGEST, SEEN)
    memo.close()


def test_a_memo_in_no_directory_knows_nothing(tmp_path):
    memo = Memo(tmp_path / "none" / "memo.sqlite")
    memo.note(DIGEST, SEEN)
    memo.close()

    assert not memo.knows(DIGEST, SEEN)


def test_a_memo_that_is_a_directory_knows_nothing(path):
    path.mkdir()
    memo = Memo(path)
    memo.note(DIGEST, SEEN)
    memo.close()

    assert not memo.knows(DIGEST, SEEN)


def test_asking_makes_no_file(memo, path):
    memo.knows(DIGEST, SEEN)
    memo.forget(DIGEST)

    assert not path.exists()


def test_a_memo_that_is_locked_knows_nothing(memo, path, monkeypatch):
    monkeypatch.setattr("store.cache_database._BUSY_SECONDS", 0)
    memo.note(DIGEST, SEEN)
    memo.close()
    holder = sqlite3.connect(path)
    holder.execute("BEGIN EXCLUSIVE")

    assert not memo.knows(DIGEST, SEEN)
    holder.close()


def test_a_memo_in_memory_forgets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memo = Memo(None)
    memo.note(DIGEST, SEEN)

    assert memo.knows(DIGEST, SEEN)
    memo.close()
    assert not memo.knows(DIGEST, SEEN)
    memo.close()
    assert list(tmp_path.iterdir()) == []


def test_threads_may_share_a_memo(memo):
    digests = [digest_of(bytes([number])) for number in range(64)]

    def work(part):
        for digest in part:
            memo.note(digest, SEEN)
            memo.knows(digest, SEEN)
            memo.forget(digest)
            memo.note(digest, SEEN)

    threads = [threading.Thread(target=work, args=(digests[k::4],)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(memo.knows(digest, SEEN) for digest in digests)


# Fingerprints of the parts of source files.

SOURCE = Path("/models/source/model.safetensors")
OLD, NEW = SourceIdentity(1, 2, 3, 10**18), SourceIdentity(1, 2, 3, 2 * 10**18)
LATER = 4 * 10**18


def look(memo, identity=OLD, now_ns=LATER):
    memo.look_at(SOURCE, identity, now_ns)


def test_a_piece_that_was_noted_is_known_to_the_next_process(memo):
    look(memo)
    memo.note_piece(SOURCE, 8, 16, b"print")
    memo.close()

    assert memo.has_pieces(SOURCE, OLD)
    assert memo.pieces(SOURCE, OLD) == {(8, 16): b"print"}


@pytest.mark.parametrize("damage", ["NULL", "7", "'text'"])
def test_a_damaged_piece_is_not_known(memo, path, damage):
    look(memo)
    for offset in (8, 24):
        memo.note_piece(SOURCE, offset, 16, b"print")
    memo.close()
    change(path, f"UPDATE piece SET fingerprint = {damage} WHERE offset = 8")

    assert memo.pieces(SOURCE, OLD) == {(24, 16): b"print"}


@pytest.mark.parametrize("place", range(4))
def test_the_pieces_of_a_file_that_changed_are_not_known(memo, place):
    look(memo)
    memo.note_piece(SOURCE, 8, 16, b"print")
    memo.close()

    identity = SourceIdentity(*(value + (at == place) for at, value in enumerate(OLD)))
    assert memo.pieces(SOURCE, identity) == {}
    assert not memo.has_pieces(SOURCE, identity)


def test_a_file_that_was_written_a_moment_before_the_look_is_not_believed(memo):
    look(memo, now_ns=OLD.changed_ns + 10**9)
    memo.note_piece(SOURCE, 8, 16, b"print")
    memo.close()

    assert memo.pieces(SOURCE, OLD) == {}
    assert not memo.has_pieces(SOURCE, OLD)


def test_another_look_forgets_the_pieces(memo):
    look(memo)
    memo.note_piece(SOURCE, 8, 16, b"print")
    memo.close()
    look(memo, NEW)
    memo.close()

    assert memo.pieces(SOURCE, NEW) == {}
    assert not memo.has_pieces(SOURCE, NEW)


def test_another_process_adds_pieces_to_what_is_known(memo, path):
    look(memo)
    memo.note_piece(SOURCE, 0, 8, b"first")
    memo.close()
    later = Memo(path)
    look(later, now_ns=LATER + 1)
    later.note_piece(SOURCE, 8, 16, b"second")
    later.close()

    assert memo.pieces(SOURCE, OLD) == {(0, 8): b"first", (8, 16): b"second"}


@pytest.mark.parametrize("slow_one_ends_last", [True, False])
def test_who_read_the_old_file_notes_nothing_of_the_new_one(path, slow_one_ends_last):
    """Two imports at once of a source that is replaced between their looks."""
    slow, quick = Memo(path), Memo(path)
    look(slow, OLD, LATER)
    look(quick, NEW, LATER + 1)
    slow.note_piece(SOURCE, 0, 8, b"old")
    slow.note_piece(SOURCE, 8, 8, b"old")
    quick.note_piece(SOURCE, 0, 8, b"new")
    for memo in (quick, slow) if slow_one_ends_last else (slow, quick):
        memo.close()

    later = Memo(path)
    assert set(later.pieces(SOURCE, NEW).values()) <= {b"new"}
    later.close()


def test_what_was_never_looked_at_is_not_noted(memo):
    memo.note_piece(SOURCE, 0, 8, b"print")
    memo.close()

    assert memo.pieces(SOURCE, OLD) == {}
    assert not memo.has_pieces(SOURCE, OLD)


# What fingerprints gave.


def test_the_seed_stays_the_same(memo):
    seed = memo.seed(create=True)
    memo.close()

    assert memo.seed(create=True) == memo.seed(create=False) == seed


def test_each_store_has_a_seed_of_its_own(tmp_path):
    memos = [Memo(tmp_path / "1"), Memo(tmp_path / "2")]

    assert len({memo.seed(create=True) for memo in memos}) == 2
    for memo in memos:
        memo.close()


def test_asking_for_a_seed_makes_none(memo, path):
    assert memo.seed(create=False) is None
    assert not path.exists()


def test_a_product_is_known_to_the_next_process(memo):
    memo.note_product(b"key", b"header", DIGEST, 9)
    memo.close()

    assert memo.product(b"key") == (DIGEST, 9)
    assert memo.have_products([b"header", b"other"]) == [True, False]


def test_other_products_are_not_known(memo):
    memo.note_product(b"key", b"header", DIGEST, 9)
    memo.close()

    assert memo.product(b"other") is None
    assert memo.have_products([b"other"]) == [False]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE product SET digest = 'x'",
        "UPDATE product SET digest = NULL",
        "UPDATE product SET size = 'x'",
        "DROP TABLE product",
    ],
)
def test_a_damaged_product_is_not_known(memo, path, damage):
    memo.note_product(b"key", b"header", DIGEST, 9)
    memo.close()
    change(path, damage)

    assert memo.product(b"key") is None


def test_what_is_saved_is_known_to_others_at_once(memo, path):
    memo.note(DIGEST, SEEN)
    memo.save()

    other = Memo(path)
    assert other.knows(DIGEST, SEEN)
    other.close()


def test_a_memo_of_a_version_that_held_origins_is_still_believed(memo, path):
    memo.note(DIGEST, SEEN)
    memo.close()
    change(path, "CREATE TABLE origin (manifest TEXT PRIMARY KEY, source BLOB)")

    assert memo.knows(DIGEST, SEEN)
