"""Importance matrices are read as llama-quantize reads them, and malformed ones refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from importer.formats.imatrix.read import read_matrix
from store.errors import IngotError, InputError
from tests.importer.formats.gguf.builders import Writer, gguf, headed
from tests.importer.formats.imatrix.builders import (
    COUNTS,
    KEYS,
    SUMS,
    dat,
    ended,
    entry,
    imatrix,
)


def read(data):
    return read_matrix("x", len(data), lambda start, end: data[start:end])


def numbers(matrix, name):
    return np.frombuffer(matrix.entries[name], "<f4").tolist()


@pytest.mark.parametrize("order", ["<", ">"])
def test_sums_are_divided_by_the_count_of_each_expert(order):
    found = read(imatrix(SUMS, COUNTS, order=order))

    assert numbers(found, "a.weight") == [1, 2, 3, 0]
    # The second expert was never used.
    assert numbers(found, "b_exps.weight") == [0.25, 0.5, 1, 1, 1, np.float32(6) / 5]
    assert (found.datasets, found.chunks) == (("wiki.txt",), 7)


def test_one_count_is_for_all_experts():
    found = read(imatrix({"e": [[1.0, 2], [3, 4]]}, {"e": [2.0]}))

    assert numbers(found, "e") == [0.5, 1, 1.5, 2]


def test_counts_are_rounded_to_integers():
    found = read(imatrix({"e": [[1.0], [2], [3]]}, {"e": [1.5, 0.4, -3]}))

    assert numbers(found, "e") == [0.5, 1, 1]


def test_older_files_have_means_times_calls():
    found = read(
        dat(entry("a", 3, [1, 2]), entry("b", 0, [5]), entry("c", -2, [5]), end=ended())
    )

    assert numbers(found, "a") == [float(np.float32(1) / 3), float(np.float32(2) / 3)]
    assert numbers(found, "b") == numbers(found, "c") == [5]
    assert (found.datasets, found.chunks) == (("wiki.txt",), 7)


@pytest.mark.parametrize(
    ("end", "chunks"), [(b"", 0), (struct.pack("<i", 4), 4), (ended(5, b""), 5)]
)
def test_what_follows_the_entries_may_be_missing(end, chunks):
    found = read(dat(entry("a", 1, [1]), end=end))

    assert (found.datasets, found.chunks) == ((), chunks)


def test_tensors_of_the_same_input_share_memory():
    found = read(dat(*(entry(name, 1, [1, 2]) for name in ("q", "k", "v"))))

    assert found.entries["q"] is found.entries["k"] is found.entries["v"]


def test_experts_have_their_own_importance():
    found = read(imatrix(SUMS, COUNTS))

    first, second, third = found.of("b_exps.weight", 3, 2)
    assert np.frombuffer(second, "<f4").tolist() == [1, 1]
    assert first + second + third == found.entries["b_exps.weight"]
    assert found.of("c.weight", 1, 2) is None


@pytest.mark.parametrize("shape", [(1, 2), (1, 8), (2, 4), (0, 4)])
def test_another_models_matrix_is_refused(shape):
    with pytest.raises(InputError, match=r"4 numbers for `a.weight`, expected"):
        read(imatrix(SUMS, COUNTS)).of("a.weight", *shape)


W = Writer()
NAN, INFINITE = float("nan"), float("inf")
A = entry("a", 1, [1.0])
MALFORMED = {
    "empty": (b"", "it is an empty file"),
    "short": (b"\1\0", "expected an importance matrix"),
    "no entries": (dat(), "expected an importance matrix"),
    "negative entries": (dat(A, count=-1), "expected an importance matrix"),
    "many entries": (dat(A, count=2**31 - 1), "expected an importance matrix"),
    "another format": (b"PK\3\4" + bytes(99), "it is a zip archive, expected"),
    "missing entry": (dat(entry("a", 1, [1.0] * 20), count=2), "ends in the middle"),
    "no name": (dat(entry("", 1, [1.0, 2, 3])), "the name of entry 0 has 0 bytes"),
    "negative name": (dat(struct.pack("<i", -5) + bytes(20)), "has -5 bytes"),
    "long name": (dat(struct.pack("<i", 2**31 - 1) + bytes(20)), "bytes, 20 are left"),
    "name of 2 KiB": (dat(entry("x" * 2000, 1, [1.0])), "has 2000 bytes"),
    "name of any bytes": (dat(entry(b"\xff\xfe", 1, [1.0, 2])), "is not UTF-8"),
    "name for a terminal": (dat(entry("a\x1b[2J", 1, [1.0])), "is not printable"),
    "no numbers": (dat(entry("abcdefg", 1, [])), "has 0 numbers"),
    "negative numbers": (dat(b"\1\0\0\0a" + struct.pack("<ii", 1, -1) + bytes(8)), "has -1"),
    "many numbers": (
        dat(b"\1\0\0\0a" + struct.pack("<ii", 1, 2**31 - 1) + bytes(8)),
        "has 2147483647 numbers, 8 bytes are left",
    ),
    "twice": (dat(A, A), "`a` is there twice"),
    "NaN": (dat(entry("a", 1, [1.0, NAN])), "`a` has numbers that are not finite"),
    "infinite": (dat(entry("a", 1, [INFINITE])), "not finite"),
    "text that is longer": (dat(A, end=struct.pack("<ii", 1, 99) + b"x"), "of the text has 99"),
    "bytes at the end": (dat(A, end=ended() + b"x"), "1 bytes after its end"),
    "keys": (imatrix(SUMS, COUNTS, keys=KEYS[:-1]), "expected the keys"),
    "texts that are one": (
        imatrix(SUMS, COUNTS, keys=(("imatrix.datasets", "string", "x"), *KEYS[2:])),
        "expected the keys",
    ),
    "text for a terminal": (
        imatrix(
            SUMS,
            COUNTS,
            keys=(("imatrix.datasets", ("array", "string"), ["a\x1b[2J"]), *KEYS[2:]),
        ),
        "the name of a text, .*, is not printable",
    ),
    "no name but the suffix": (imatrix({"": [[1.0]]}, {"": [1.0]}), "sums without a name"),
    "nothing": (imatrix({}, {}), "there is no entry"),
    "other tensors": (gguf([("a.weight", "F32", (1, 2))], KEYS), "there is no entry"),
    "no counts": (imatrix(SUMS, {"a.weight": [1.0]}), "`b_exps.weight.in_sum2` without counts"),
    "no sums": (imatrix({}, COUNTS), "without sums"),
    "sums of halves": (imatrix(SUMS, COUNTS, kinds=("F16", "F32")), "is F16, expected F32"),
    "counts of halves": (imatrix(SUMS, COUNTS, kinds=("F32", "F16")), "is F16, expected F32"),
    "experts": (imatrix({"a": [[1.0, 2, 3]]}, {"a": [1.0, 2]}), "3 sums and 2 counts"),
    "no columns": (imatrix({"a": [[]]}, {"a": [1.0]}), "0 sums and 1 counts"),
    "nothing, behind the end": (
        headed(
            W.info("a.in_sum2", "F32", (1, 0), 1 << 20)
            + W.info("a.counts", "F32", (0, 1), 1 << 20),
            b"".join(W.key(*key) for key in KEYS),
            (2, len(KEYS)),
        ),
        "ends at byte",
    ),
    "counts of NaN": (imatrix({"a": [[1.0]]}, {"a": [NAN]}), "counts that are not finite"),
    "counts of any size": (imatrix({"a": [[1.0]]}, {"a": [1e30]}), "or too large"),
    "sums of NaN": (imatrix({"a": [[NAN]]}, {"a": [1.0]}), "`a` has numbers that are not"),
    "truncated": (imatrix(SUMS, COUNTS)[:-40], "ends at byte"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files_are_refused(name):
    data, message = MALFORMED[name]

    with pytest.raises(IngotError, match=message):
        read(data)


def test_every_shorter_file_is_refused_or_whole():
    data = dat(entry("a.weight", 2, [2, 4]), entry("b", 1, [1.0]), end=ended())
    whole = len(data) - len(ended())

    for length in range(len(data)):
        if length in (whole, whole + 4):
            assert read(data[:length]).entries.keys() == {"a.weight", "b"}
        else:
            with pytest.raises(IngotError):
                read(data[:length])
