from __future__ import annotations

import os

import pytest

from store.digest import Digest
from store.errors import IntegrityError, NotFoundError, UsageError
from store.text import is_printable
from tests.store.builders import OTHER, create, make_manifest, name


def put(store, path, content=b"{}"):
    """Put a file below manifests/ by hand."""
    target = store.layout.manifests / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


def partial(store, content=b"{}"):
    path = store.layout.tmp / "partial"
    path.write_bytes(content)
    return path


def test_the_path_of_a_name_is_that_of_ollama(store):
    path = store.layout.manifests / "registry.ollama.ai" / "library" / "m" / "latest"

    assert store.catalog.path(name("m")) == path


def test_a_name_gives_the_bytes_that_were_put(store):
    manifest = create(store)

    assert store.catalog.get(name()).data == manifest.to_bytes()


def test_a_model_is_known_by_the_digest_of_its_manifest(store):
    manifest = create(store)

    assert store.catalog.get(name()).digest == Digest.of(manifest.to_bytes())


def test_a_stored_manifest_parses_to_what_was_put(store):
    manifest = create(store)

    assert store.catalog.get(name()).parse() == manifest


def test_putting_again_replaces(store):
    create(store)
    create(store, tensors=OTHER)

    assert store.catalog.get(name()).parse() == make_manifest(OTHER)


def test_a_manifest_that_is_read_during_a_replacement_stays_whole(store):
    create(store)
    with open(store.catalog.path(name()), "rb") as held:
        create(store, tensors=OTHER)

        assert held.read() == make_manifest().to_bytes()


def test_a_name_that_is_not_there_is_not_found(store):
    with pytest.raises(NotFoundError) as caught:
        store.catalog.get(name("none"))

    assert caught.value.exit_code == 9


def test_a_name_that_is_not_there_is_none(store):
    assert store.catalog.find(name("none")) is None


def test_a_manifest_larger_than_the_limit_is_refused_and_not_read_whole(store):
    path = put(store, "registry.ollama.ai/library/m/latest")
    os.truncate(path, 1 << 40)

    with pytest.raises(IntegrityError) as caught:
        store.catalog.get(name()).parse()
    assert caught.value.code == "E_LIMIT"


@pytest.mark.parametrize("kind", ["directory", "link", "fifo"])
def test_a_manifest_that_is_no_file_is_refused(store, kind):
    create(store, "other")
    path = store.catalog.path(name())
    path.parent.mkdir()
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(store.catalog.path(name("other")))
    else:
        os.mkfifo(path)

    with pytest.raises(IntegrityError):
        store.catalog.get(name())


def test_removing_a_name_leaves_the_others(store):
    create(store)
    create(store, "other")

    store.remove([name()])

    assert [entry.name for entry in store.catalog.entries()] == [name("other")]


def test_an_unreadable_manifest_can_be_removed(store):
    path = put(store, "registry.ollama.ai/library/m/latest", b"")

    store.remove([name()])

    assert not path.exists()


def test_a_manifest_that_is_a_link_can_be_removed(store, tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(b"x")
    path = put(store, "registry.ollama.ai/library/m/other").with_name("latest")
    path.symlink_to(target)

    store.remove([name()])

    assert (path.is_symlink(), target.read_bytes()) == (False, b"x")


def test_removing_what_is_not_there_removes_nothing(store):
    create(store)

    with pytest.raises(NotFoundError):
        store.remove([name(), name("none")])
    assert store.catalog.find(name())


def test_a_name_that_goes_while_it_is_removed_is_not_found(store):
    with pytest.raises(NotFoundError):
        store.catalog.remove(name("none"))


def test_removing_a_name_that_is_given_twice_removes_it_once(store):
    create(store)

    store.remove([name(), name()])

    assert store.catalog.find(name()) is None


def test_entries_are_in_the_order_of_their_names(store):
    for model in ("b", "a:2", "a:1", "me/c"):
        create(store, model)

    assert [str(entry.name) for entry in store.catalog.entries()] == [
        "a:1",
        "a:2",
        "b:latest",
        "me/c:latest",
    ]


def test_a_store_that_is_not_there_has_no_entries(tmp_path, store):
    assert list(type(store)(tmp_path / "none").catalog.entries()) == []


@pytest.mark.parametrize(
    "path",
    [
        "file",
        "host/file",
        "host/namespace/file",
        "registry.ollama.ai/library/m/latest/file",
        "registry.ollama.ai/library/m/-x",
        "registry.ollama.ai/library/con/latest",
        "registry.ollama.ai/li.brary/m/latest",
        "registry.ollama.ai/library/m/\x1b[2J",
    ],
)
def test_a_file_at_no_models_path_is_given_with_a_reason(store, path):
    put(store, path)

    (entry,) = store.catalog.entries()

    assert (entry.name, is_printable(entry.why), bool(entry.why)) == (None, True, True)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_link_below_manifests_is_not_followed(store, tmp_path, depth):
    outside = tmp_path / "outside" / "library" / "m"
    outside.mkdir(parents=True)
    (outside / "latest").write_bytes(b"{}")
    link = store.layout.manifests.joinpath(*["part"] * depth)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "outside")

    (entry,) = store.catalog.entries()

    assert (entry.path, entry.name) == (link, None)


def test_what_the_finder_leaves_is_ignored(store):
    create(store)
    for directory in store.catalog.directories():
        (directory / ".DS_Store").write_bytes(b"")

    assert [entry.name for entry in store.catalog.entries()] == [name()]


def test_directories_are_given_the_deepest_first(store):
    create(store)

    depths = [len(path.parts) for path in store.catalog.directories()]

    assert depths == sorted(depths, reverse=True)
    assert len(depths) == 4


# N07 of reliability.md.
@pytest.mark.parametrize(
    "other", ["M", "m:Latest", "LIBRARY/m", "Registry.ollama.ai/library/m"]
)
def test_a_name_that_differs_only_in_case_is_refused(store, other):
    create(store)

    with pytest.raises(UsageError) as caught:
        create(store, other)
    assert caught.value.code == "E_NAME_COLLISION"


def test_another_tag_of_the_same_spelling_is_no_collision(store):
    create(store)
    create(store, "m:other")

    assert len(list(store.catalog.entries())) == 2


def test_putting_makes_the_directories_that_it_needs(store):
    store.catalog.put(name("host.example/me/m"), partial(store))

    assert store.catalog.get(name("host.example/me/m")).data == b"{}"


def test_a_model_is_found_where_another_program_wrote_the_default_host_otherwise(store):
    manifest = make_manifest()
    put(store, "Registry.Ollama.AI/library/m/latest", manifest.to_bytes())

    found = store.catalog.get(name("m"))

    assert found.data == manifest.to_bytes()
    assert store.catalog.path(found.name).is_file()
