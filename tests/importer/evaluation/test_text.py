"""A text as sequences of tokens, with a tokenizer of letters."""

from __future__ import annotations

import pytest

from importer.evaluation.text import lines, read_text, windows
from store import IngotError

BEGIN = 1


class Letters:
    """A token for each letter, and one that begins a text, if there is one."""

    def __init__(self, begin=None):
        self.bos_token_id = begin

    def __call__(self, text, *, add_special_tokens=True, truncation=False, max_length=0, **_):
        own = [self.bos_token_id] if add_special_tokens and self.bos_token_id else []
        ids = [*own, *map(ord, text)]
        return {"input_ids": ids[:max_length] if truncation else ids}


def text(tmp_path, content):
    path = tmp_path / "text"
    path.write_bytes(content)
    return read_text(path)


def decoded(sequences):
    return ["".join(map(chr, ids)) for ids in sequences.ids]


def test_windows_cover_the_text_and_do_not_overlap(tmp_path):
    found = windows(text(tmp_path, b"abcdefgh"), Letters(), 3, None)

    assert decoded(found) == ["abc", "def", "gh"]
    assert (found.tokens, found.context) == (8, 3)


def test_a_window_begins_as_a_text_does(tmp_path):
    found = windows(text(tmp_path, b"abcde"), Letters(BEGIN), 3, None)

    assert decoded(found) == ["\1ab", "\1cd", "\1e"]


def test_what_has_nothing_to_foresee_is_no_window(tmp_path):
    assert decoded(windows(text(tmp_path, b"abcd"), Letters(), 3, None)) == ["abc"]


def test_lines_are_texts_of_their_own_and_cut(tmp_path):
    found = lines(text(tmp_path, b"abcd\n\n  \nef\ng\n"), Letters(), 3, None)

    assert decoded(found) == ["abc", "ef"]


@pytest.mark.parametrize("cut", [windows, lines])
def test_no_more_than_were_asked_for(tmp_path, cut):
    assert len(cut(text(tmp_path, b"ab\ncd\nef\n"), Letters(), 2, 2).ids) == 2


def test_the_digest_is_of_the_bytes(tmp_path):
    found = text(tmp_path, "é\n".encode())

    assert (found.name, found.nbytes, found.digest[:8]) == ("text", 3, "edd3a863")


@pytest.mark.parametrize("content", [b"", b" \n\t", b"\xff\xfe", b"ab\xc3"])
def test_what_is_not_a_text_is_refused(tmp_path, content):
    with pytest.raises(IngotError) as error:
        text(tmp_path, content)

    assert error.value.code == "E_TEXT"


@pytest.mark.parametrize("cut", [windows, lines])
def test_a_single_token_is_nothing_to_read(tmp_path, cut):
    with pytest.raises(IngotError, match="no sequence of 2 tokens"):
        cut(text(tmp_path, b"a"), Letters(), 3, None)


def test_a_text_that_is_not_there_is_told(tmp_path):
    with pytest.raises(IngotError, match="there is no file"):
        read_text(tmp_path)
