"""Which model a text means: a name, an ID, a glob, or something near."""

from __future__ import annotations

import pytest

from store import ModelName
from store.errors import NotFoundError, UsageError
from store.lookup import find_name, get_name, is_glob, matches, names_to_remove
from tests.importer.builders import handmade


@pytest.fixture
def catalog(store):
    """Three manifests, one of which has two names."""
    handmade(store, [], "llama", b'{"a":1}')
    handmade(store, [], "llama:copy", b'{"a":1}')
    handmade(store, [], "qwen:v1", b'{"a":2}')
    handmade(store, [], "team/other", b'{"a":3}')
    return store.catalog


def digest(catalog, name):
    return catalog.get(ModelName.parse(name)).digest.hex


def test_an_exact_name_wins_over_an_id(store, catalog):
    prefix = digest(catalog, "qwen:v1")[:6]
    assert str(get_name(catalog, prefix)) == "qwen:v1"

    handmade(store, [], prefix, b'{"a":4}')

    assert str(get_name(catalog, prefix)) == f"{prefix}:latest"


@pytest.mark.parametrize("spelled", ["{}", "sha256:{}", "sha256-{}"])
@pytest.mark.parametrize("digits", [4, 12, 64])
def test_an_id_is_four_digits_or_more(catalog, spelled, digits):
    text = spelled.format(digest(catalog, "team/other")[:digits])

    assert str(get_name(catalog, text)) == "team/other:latest"


def test_three_digits_are_not_an_id(catalog):
    assert find_name(catalog, digest(catalog, "qwen:v1")[:3]) is None


def test_two_names_of_a_manifest_are_not_ambiguous(catalog):
    found = get_name(catalog, digest(catalog, "llama")[:8])

    assert str(found) in {"llama:latest", "llama:copy"}


def test_an_ambiguous_id_names_the_candidates(store):
    seen: dict[str, str] = {}
    for number in range(2000):
        name = f"m{number}"
        handmade(store, [], name, b'{"a":%d}' % number)
        prefix = digest(store.catalog, name)[:4]
        if prefix in seen:
            break
        seen[prefix] = name

    with pytest.raises(UsageError) as told:
        get_name(store.catalog, prefix)

    assert told.value.code == "E_ID_AMBIGUOUS"
    assert f"`{seen[prefix]}:latest`" in str(told.value)
    assert f"`{name}:latest`" in str(told.value)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("lama", "llama:latest"),
        ("qwen", "qwen:v1"),
        ("qwen:v2", "qwen:v1"),
        ("other", "team/other:latest"),
        ("nothing-alike", None),
        ("12", None),
    ],
)
def test_a_name_that_may_have_been_meant(catalog, text, near):
    with pytest.raises(NotFoundError) as told:
        get_name(catalog, text)

    assert told.value.hint == (None if near is None else f"Did you mean `{near}`?")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("many:q5", "Did you mean `many:q4`?"),
        ("many:nothing", "There are `many:bin`, `many:latest`, `many:q4`"),
    ],
)
def test_the_nearest_tag_was_meant_or_there_are_several(store, text, hint):
    for tag in ("bin", "latest", "q4"):
        handmade(store, [], f"many:{tag}")

    with pytest.raises(NotFoundError) as told:
        get_name(store.catalog, text)

    assert told.value.hint == hint


def test_what_is_neither_name_nor_id_is_told_as_such(catalog):
    with pytest.raises(UsageError, match="invalid model name"):
        get_name(catalog, "a b")
    assert find_name(catalog, "a b") is None


def test_names_to_remove_are_globs_and_names_but_no_ids(catalog):
    found = names_to_remove(catalog, ["llama*", "qwen:v1", "LLAMA:c?py"])

    assert sorted(map(str, found)) == ["llama:copy", "llama:latest", "qwen:v1"]
    with pytest.raises(NotFoundError) as told:
        names_to_remove(catalog, [digest(catalog, "qwen:v1")[:12]])
    assert told.value.hint == "Did you mean `qwen:v1`?"


def test_all_that_is_unknown_is_named(catalog):
    with pytest.raises(NotFoundError) as told:
        names_to_remove(catalog, ["a", "llama", "b:x", "zz*"])

    assert str(told.value) == "models `a:latest`, `b:x`, `zz*` not found"


def test_a_glob_has_what_no_name_has():
    assert [is_glob(text) for text in ("a*", "a?", "a[bc]", "a\x1b[2Jb", "a")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert matches(ModelName.parse("Llama"), "*AMA")
    assert matches(ModelName.parse("llama:v1"), "*:v?")
    assert not matches(ModelName.parse("llama:v1"), "llama")
