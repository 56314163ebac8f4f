"""`--json` is what the parser takes for it, wherever it stands and whatever else is wrong."""

import pytest

from tests.cli.runner import run


@pytest.mark.parametrize(
    "words",
    [
        ("create", "--json", "--bogus"),
        ("create", "--bogus", "--json"),
        ("show", "--json"),
        ("list", "a", "b", "--json"),
        ("create", "x", "--jobs", "0", "--json"),
        ("nope", "--json"),
        ("--bogus", "--json"),
        ("gc", "--json", "--wait"),
    ],
)
def test_a_wrong_call_that_asks_for_json_gets_it(store, words):
    assert run(*words, store=store).clean().error["code"] == "E_USAGE"


@pytest.mark.parametrize(
    "words",
    [
        ("show", "--", "--json", "--", "--json"),
        ("create", "x", "--jobs", "--json"),
        ("create", "x", "--json=yes"),
        ("--", "nope", "--json"),
    ],
)
def test_what_only_looks_like_the_flag_is_not_the_flag(store, words):
    assert run(*words, store=store).failed(2)


def test_the_next_call_of_a_process_starts_anew(store):
    run("show", "m", "--json", store=store)

    assert "error: " in run("show", "m", store=store).failed(9)
