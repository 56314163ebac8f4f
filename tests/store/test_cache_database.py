"""A database that may be lost: what it cannot do is not known, and never an error."""

from __future__ import annotations

import sqlite3

import pytest

from store.cache_database import CacheDatabase

SCHEMA = "CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value INTEGER);"
INSERT = "REPLACE INTO fact VALUES (?,?)"
QUERY = "SELECT value FROM fact WHERE name = ?"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache.sqlite"


@pytest.fixture
def database(path):
    database = CacheDatabase(path, SCHEMA, 1)
    yield database
    database.disconnect()


def test_a_row_is_found_by_whoever_opens_the_file(database, path):
    database.run(INSERT, [("a", 1)], create=True)
    other = CacheDatabase(path, SCHEMA, 1)

    assert other.one(QUERY, ("a",)) == (1,)
    assert other.one(QUERY, ("b",)) is None
    other.disconnect()


@pytest.mark.parametrize("count", [0, 1, 256, 600])
def test_many_questions_are_answered_in_their_order(database, count):
    database.run(INSERT, [(str(number), number) for number in range(0, 600, 2)], create=True)

    found = database.each(QUERY, [(str(number),) for number in range(count)])

    assert found == [None if number % 2 else (number,) for number in range(count)]


def test_who_asks_much_keeps_nobody_from_writing(database, path):
    database.run(INSERT, [("a", 1), ("b", 2)], create=True)
    database.each(QUERY, [("a",), ("b",)])
    other = CacheDatabase(path, SCHEMA, 1)

    other.run(INSERT, [("c", 3), ("d", 4)])

    assert database.each(QUERY, [("c",), ("d",)]) == [(3,), (4,)]
    other.disconnect()


def test_what_a_database_that_failed_was_asked_is_not_known(database, path):
    path.write_bytes(b"not a database, " * 1000)

    assert database.each(QUERY, [("a",), ("b",)]) == [None, None]


def test_asking_makes_no_file(database, path):
    assert database.one(QUERY, ("a",)) is None
    assert not path.exists()


def test_what_is_for_later_is_saved_together(database):
    assert not database.later(INSERT, ("a", 1))
    assert database.one(QUERY, ("a",)) is None

    database.save()

    assert database.one(QUERY, ("a",)) == (1,)


def test_much_that_is_for_later_is_saved_soon(database):
    saved = [database.later(INSERT, (str(number), number)) for number in range(300)]

    assert saved.count(True) >= 1
    assert database.one(QUERY, ("0",)) == (0,)


def test_a_file_of_another_version_is_made_anew(database, path):
    database.run(INSERT, [("a", 1)], create=True)
    database.disconnect()
    newer = CacheDatabase(path, SCHEMA, 2)

    assert newer.one(QUERY, ("a",)) is None
    newer.run(INSERT, [("b", 2)], create=True)
    assert newer.one(QUERY, ("b",)) == (2,)
    newer.disconnect()


def test_a_damaged_file_is_made_anew(database, path):
    path.write_bytes(b"not a database, " * 1000)

    assert database.one(QUERY, ("a",)) is None
    database.run(INSERT, [("a", 1)], create=True)
    assert database.one(QUERY, ("a",)) == (1,)


def test_a_link_is_not_followed(database, path, tmp_path):
    path.symlink_to(tmp_path / "elsewhere")

    database.run(INSERT, [("a", 1)], create=True)

    assert not path.is_symlink()
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_others_have_locked_is_not_waited_for_long(database, path, monkeypatch):
    monkeypatch.setattr("store.cache_database._BUSY_SECONDS", 0)
    database.run(INSERT, [("a", 1)], create=True)
    database.disconnect()
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")

    assert database.one(QUERY, ("a",)) is None
    other.close()
    assert database.one(QUERY, ("a",)) == (1,)
