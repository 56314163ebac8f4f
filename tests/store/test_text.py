from __future__ import annotations

import pytest
from hypothesis import given

from store.text import did_you_mean, is_printable, meant, printable
from tests.strategies import NASTY, texts


@given(texts)
def test_what_was_made_printable_is_printable(text):
    assert is_printable(printable(text))


@given(texts)
def test_what_was_made_printable_can_be_encoded(text):
    printable(text).encode("utf-8")


@given(texts)
def test_printable_text_stays_as_it_is(text):
    if is_printable(text):
        assert printable(text, longest=len(text)) == text


@given(texts)
def test_making_printable_twice_is_making_printable_once(text):
    once = printable(text)

    assert printable(once, longest=len(once)) == once


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\nb", r"a\x0ab"),
        ("\x9b", r"\x9b"),
        ("\u202e", r"\u202e"),
        ("\u200b", r"\u200b"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("naïve 🦙 [red]", "naïve 🦙 [red]"),
    ],
)
def test_what_drives_a_terminal_is_escaped(text, shown):
    assert printable(text) == shown


def test_long_text_is_cut():
    assert printable("a" * 500) == "a" * 119 + "…"


@pytest.mark.parametrize(
    "text", [nasty for nasty in NASTY if nasty and not nasty.isprintable()]
)
def test_nasty_text_is_not_printable(text):
    assert not is_printable(text)


@pytest.mark.parametrize(
    ("word", "near"),
    [("crate", "create"), ("CREATE", "create"), ("vfy", "verify"), ("zzz", None), ("", None)],
)
def test_a_misspelled_word_is_the_nearest_that_is_near(word, near):
    assert meant(word, ["create", "show", "verify"]) == near


def test_the_question_after_a_misspelled_word_is_printable():
    assert did_you_mean("\x1bab", ["\x1babc"]) == r"Did you mean `\x1babc`?"
    assert did_you_mean("x", ["abc"]) is None
