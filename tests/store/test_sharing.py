"""What models have alone, and what they share with whom."""

from __future__ import annotations

import pytest

from store import MediaType, ModelName
from store.sharing import only_of, sharing_among, sharing_of
from tests.importer.builders import handmade

BIG, SMALL, COMMON, CONFIG = b"b" * 500, b"s" * 30, b"c" * 100, b"{}"


def put(store, name, *blobs):
    handmade(store, [(MediaType.FILE, blob, {"name": str(n)}) for n, blob in enumerate(blobs)],
             name, CONFIG)  # fmt: skip


@pytest.fixture
def models(store):
    """`a` and `b` share a blob, `c` has a configuration in common with both."""
    put(store, "a", BIG, COMMON, COMMON)
    put(store, "b", SMALL, COMMON)
    put(store, "c", b"x")
    return [
        (entry.name, store.catalog.get(entry.name).parse()) for entry in store.catalog.entries()
    ]


def test_own_and_shared_bytes_and_with_whom(models):
    found = sharing_among(models)

    assert [(one.own, one.shared) for one in found] == [(500, 102), (30, 102), (1, 2)]
    partners = [[(str(name), nbytes) for name, nbytes in one.partners] for one in found]
    assert partners[0] == [("b:latest", 102), ("c:latest", 2)]
    assert partners[2] == [("a:latest", 2), ("b:latest", 2)]


def test_one_model_is_told_as_all_of_them_are(store, models):
    for (name, manifest), told in zip(models, sharing_among(models), strict=True):
        assert sharing_of(store.catalog, name, manifest) == told


def test_what_some_names_alone_need_is_what_removing_them_frees(store, models):
    a, b, c = (name for name, _ in models)

    assert {ref.size for ref in only_of(store.catalog, [a]).values()} == {500}
    assert {ref.size for ref in only_of(store.catalog, [a, b]).values()} == {500, 30, 100}
    assert {ref.size for ref in only_of(store.catalog, [a, b, c]).values()} == {
        500, 30, 100, 1, 2,
    }  # fmt: skip


def test_a_second_name_needs_everything(store):
    put(store, "a", BIG)
    put(store, "b", BIG)

    assert only_of(store.catalog, [ModelName.parse("a")]) == {}
    assert sharing_among([]) == []


@pytest.mark.usefixtures("models")
def test_what_a_torn_manifest_mentions_is_not_free(store):
    path = store.catalog.path(ModelName.parse("b"))
    path.write_bytes(path.read_bytes()[:-5])

    free = only_of(store.catalog, [ModelName.parse("a")])

    assert {ref.size for ref in free.values()} == {500}
