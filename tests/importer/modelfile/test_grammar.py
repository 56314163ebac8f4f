"""Places in a Modelfile, and what a large or hostile one costs."""

from __future__ import annotations

import time

import pytest

from importer.modelfile.grammar import LARGEST, parse
from importer.modelfile.instructions import read_modelfile
from store.errors import InputError


def test_places_count_lines_of_every_kind_and_characters():
    found = parse('FROM m\r\n\r# c\n  SYSTEM "é\na"  \n\tPARAMETER stop x'.encode(), "f")

    assert [one.place[1:] for one in found] == [(1, 1), (4, 3), (6, 2)]
    assert found[1].value_place[1:] == (4, 10)
    assert found[2].key_place[1:] == (6, 12)
    assert [one.value for one in found] == ["m", "é\na", "x"]


@pytest.mark.parametrize(
    "lines",
    [
        b'LICENSE """' + b"a line of text\n" * 9000 + b'"""',
        b'LICENSE """' + b"\n" * 100_000,
        b'SYSTEM """' + b'"x\n' * 30_000 + b'"""',
        b"PARAMETER stop x\n" * 6000,
        b'TEMPLATE """' + b"{{ $x := 1 }}" * 7000 + b'"""',
    ],
    ids=["a license", "open quotes", "many quotes", "a long list", "a long template"],
)
def test_a_hundred_kilobytes_are_read_at_once(lines):
    started = time.perf_counter()
    try:
        read_modelfile(b"FROM m\n" + lines, "f")
    except InputError as refused:
        assert "not closed" in str(refused)  # noqa: PT017 - one of them is
    assert time.perf_counter() - started < 5


def test_a_file_of_more_than_the_limit_is_refused():
    with pytest.raises(InputError, match="the limit is"):
        parse(b" " * (LARGEST + 1), "f")
