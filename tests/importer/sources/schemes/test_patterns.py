"""Patterns of configurations, beside Python's own, which may take for ever."""

from __future__ import annotations

import re
import time
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from importer.sources.schemes.patterns import Patterns

PIECES = [
    "a", "b", ".", r"\.", "[ab]", "[^a]", "[a-c]", "[-a]", "(a|b)", "(?:ab)", r"\d", r"\W",
    "a*", "(ab)+", "b?", "a{2}", "[a-c]{1,2}", "a{1,}", "^", "$", "(a|)", "(a*)*", ".*", "|",
    "a*?",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.text("abc.1-", max_size=8)
)
@example("ab|cd", "cd")
@example("^a|b", "b")
def test_they_match_what_pythons_do(pattern, name):
    found = Patterns().match(pattern, name)

    assert found == (re.match(pattern, name) is not None)


@given(st.text("ab*+?{}[]()|^$\\.,-:!<=1", max_size=10), st.text("ab1", max_size=6))
def test_any_text_is_a_pattern_of_pythons_or_not_decided(pattern, name):
    found = Patterns().match(pattern, name)

    if found is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sets that may mean another thing later
            assert found == (re.match(pattern, name) is not None)


@pytest.mark.parametrize(
    "pattern",
    [r"(?!lm_head).*", r"(?i)A", r"a\b", r"(a)\1", "a++", "a{99999}", "((((a", "[a", "\\",
     "a" * 1001, "(" * 30 + "a" + ")" * 30, "[z-a]", "[[:alpha:]]", "((a{60}){60}){60}",
     "*a", "[]a]", "a{2,1}"],
)  # fmt: skip
def test_what_is_not_a_regular_language_or_too_large_is_not_decided(pattern):
    assert Patterns().match(pattern, "a") is None


def test_no_pattern_takes_long():
    patterns = Patterns()
    start = time.process_time()

    assert patterns.match("(a+)+$", "a" * 3000 + "b") is False
    assert patterns.match(".*.*.*.*.*.*!", "x" * 3000) is False
    assert time.process_time() - start < 5


def test_many_patterns_end_undecided(monkeypatch):
    monkeypatch.setattr("importer.sources.schemes.patterns._FUEL", 1000)
    patterns = Patterns()

    found = [patterns.match("x|(a|b)*c", "a" * 100) for _ in range(9)]

    assert found[0] is False
    assert found[-1] is None
