"""Hostile and malformed GGUF files, a row each: refused, and it is said why."""

from __future__ import annotations

import struct
import time

import pytest

from importer.formats.gguf.header import read_header
from importer.formats.gguf.metadata import read_array
from store.errors import IngotError
from tests.importer.formats.gguf.builders import GOOD, Writer, gguf, headed

PADDING = 28
"""Of the last tensor, which a file need not have."""
W, B = Writer(), Writer(">")
F32 = ("t", "F32", (8,))


def infos(*rows, data=bytes(64), version=3):
    """A file of entries: (name, type, shape, offset)."""
    head = headed(b"".join(W.info(*row) for row in rows), b"", (len(rows), 0), "<", version)
    return head + bytes(-len(head) % 32) + data


def keys(*made, count=None):
    """A file of keys alone, as bytes."""
    return headed(b"", b"".join(made), (0, len(made) if count is None else count))


def array(kind, count, data=b""):
    return W.string("k") + W.number("I", 9) + W.number("I", kind) + W.number("Q", count) + data


def nested(levels):
    inner = W.number("I", 0) + W.number("Q", 1) + b"\7"
    for _ in range(levels - 1):
        inner = W.number("I", 9) + W.number("Q", 1) + inner
    return keys(W.string("k") + W.number("I", 9) + inner)


def texts(count, length):
    return keys(*(W.key(f"k{n}", "string", "x" * length) for n in range(count)))


HUGE = [2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
ROWS = {
    "empty": (b"", 3, "is an empty file"),
    "a magic alone": (b"GGUF", 3, "4 bytes expected"),
    "a version alone": (GOOD[:8], 3, "8 bytes expected"),
    "one count": (GOOD[:16], 3, "8 bytes expected"),
    "another magic": (b"GGML" + GOOD[4:], 3, "nothing in it says"),
    "a swapped magic": (b"FUGG" + GOOD[4:], 3, "nothing in it says"),
    "a Git LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\n",
        3,
        "Git LFS pointer",
    ),
    "an HTML page": (b"<!DOCTYPE html><html>", 3, "is an HTML page"),
    "a zip archive": (b"PK\3\4" + bytes(60), 3, "is a zip archive"),
    "safetensors": (struct.pack("<Q", 2) + b"{}", 3, "is a safetensors file"),
    "version 0": (gguf([F32], version=0), 4, "version 0"),
    "version 1": (gguf([F32], version=1), 4, "version 1"),
    "version 4": (gguf([F32], version=4), 4, "version 4"),
    "version 1, big-endian": (gguf([F32], version=1, order=">"), 4, "version 1,"),
    "counts in another byte order": (
        b"GGUF" + W.number("I", 3) + B.number("Q", 1) + B.number("Q", 0) + bytes(99),
        3,
        "72057594037927936 tensors",
    ),
    **{f"{n} tensors": (headed(b"", b"", (n, 0)), 3, f"{n} tensors, the limit") for n in HUGE},
    **{f"{n} keys": (headed(b"", b"", (0, n)), 3, f"{n} keys") for n in HUGE},
    "tensors that are not listed": (headed(b"", b"", (100_000, 0)), 3, "listed in 0 bytes"),
    "a key too few": (keys(W.key("a", "u8", 1), count=2), 3, "8 bytes expected"),
    "cut off in a key": (keys(W.key("abc", "u8", 1))[:-6], 3, "and 2 follow"),
    "cut off in a value": (keys(W.key("abc", "u64", 1))[:-1], 3, "8 bytes expected"),
    "cut off in a string": (keys(W.key("abc", "string", "xyz"))[:-1], 3, "`abc` has 3 bytes"),
    "cut off in an entry": (infos(("t", "F32", (8,), 0))[:40], 3, "listed in 16 bytes"),
    **{
        f"a key of {n} bytes": (keys(W.string("a", n)), 3, f"a key has {n} bytes") for n in HUGE
    },
    "a key of 65536 bytes": (keys(W.key("k" * 65536, "u8", 1)), 3, "the limit is 65535"),
    "an empty key": (keys(W.key("", "u8", 1)), 3, "is empty or not printable"),
    "a key that is not UTF-8": (keys(W.key(b"a\xff", "u8", 1)), 3, "a key is not UTF-8"),
    "a key with control codes": (keys(W.key("a\x1b[31m", "u8", 1)), 3, "not printable"),
    "a key twice": (keys(W.key("a", "u8", 1), W.key("a", "u8", 1)), 3, "`a` is there twice"),
    "a key twice, of two types": (
        keys(W.key("a", "u8", 1), W.key("a", "string", "1")),
        3,
        "`a` is there twice",
    ),
    **{
        f"a value of type {n}": (keys(W.string("k") + W.number("I", n)), 3, f"the type {n}")
        for n in (13, 255, 2**32 - 1)
    },
    "a boolean of 2": (keys(W.key("k", "bool", 2)), 3, "a boolean of 2"),
    "a string that is not UTF-8": (keys(W.key("k", "string", b"a\xc3")), 3, "`k` is not UTF-8"),
    **{
        f"a string of {n} bytes": (
            keys(W.string("k") + W.number("I", 8) + W.number("Q", n)),
            3,
            f"`k` has {n} bytes",
        )
        for n in HUGE
    },
    "a string of 17 MB": (texts(1, 17_000_000), 3, "the limit is 16777216"),
    "strings of 60 MB": (texts(4, 15_000_000), 3, "`k3` has 15000000 bytes"),
    **{
        f"an array of {n} numbers": (keys(array(6, n)), 3, f"an array of {n} elements")
        for n in HUGE
    },
    **{
        f"an array of {n} strings": (keys(array(8, n)), 3, f"an array of {n} elements")
        for n in HUGE
    },
    **{
        f"an array of {n} arrays": (keys(array(9, n)), 3, f"an array of {n} elements")
        for n in HUGE
    },
    "an array one element too long": (keys(array(1, 9, bytes(8))), 3, "array of 9 elements"),
    "an array of type 13": (keys(array(13, 0)), 3, "`k` has the type 13"),
    **{
        f"a string of {n} bytes in an array": (
            keys(array(8, 1, W.number("Q", n))),
            3,
            "expected at byte",
        )
        for n in HUGE
    },
    "strings past the end": (
        keys(array(8, 3, W.string("abc") + W.string("d", 30) + bytes(9))),
        3,
        "expected at byte",
    ),
    "arrays in 5 levels": (nested(5), 3, "arrays in more than 4 levels"),
    "arrays in 1000 levels": (nested(1000), 3, "arrays in more than 4 levels"),
    "an array in an array that ends": (
        keys(array(9, 1, W.number("I", 10) + W.number("Q", 2) + bytes(8))),
        3,
        "an array of 2 elements",
    ),
    "21 million strings": (keys(array(8, 21_000_000, bytes(168_000_000))), 3, "more than 20"),
    **{
        f"an alignment of {n}": (
            keys(W.key("general.alignment", "u32", n)),
            3,
            f"is {n} (u32), expected a power of two",
        )
        for n in (0, 3, 48, 2**32 - 1)
    },
    "an alignment of another type": (
        keys(W.key("general.alignment", "u64", 32)),
        3,
        "32 (u64)",
    ),
    "an alignment that is a word": (
        keys(W.key("general.alignment", "string", "32")),
        3,
        "32 (string)",
    ),
    "an alignment that is an array": (
        keys(W.key("general.alignment", ("array", "u32"), [32])),
        3,
        "is an array (u32)",
    ),
    "an empty name": (infos(("", "F32", (8,), 0)), 3, "name has 0 bytes"),
    "a name of 1025 bytes": (infos(("n" * 1025, "F32", (8,), 0)), 3, "name has 1025 bytes"),
    **{
        f"a name of {n} bytes": (
            headed(W.string("t", n) + bytes(64), b"", (1, 0)),
            3,
            f"name has {n} bytes",
        )
        for n in HUGE
    },
    "a name that is not UTF-8": (infos((b"\xff", "F32", (8,), 0)), 3, "is not UTF-8"),
    "a name that turns round": (infos(("a\u202eb", "F32", (8,), 0)), 3, "not printable"),
    "a name twice": (
        infos(("t", "F32", (8,), 0), ("t", "F32", (8,), 32)),
        3,
        "two tensors `t`",
    ),
    "5 dimensions": (infos(("t", "F32", (1, 1, 1, 1, 1), 0)), 4, "`t` has 5 dimensions"),
    "2^32 dimensions": (
        headed(W.string("t") + b"\xff" * 4 + bytes(99), b"", (1, 0)),
        4,
        "has 4294967295 dimensions",
    ),
    **{f"a side of {n}": (infos(("t", "F32", (n,), 0)), 3, "`t`") for n in HUGE},
    "sides whose product is 2^64": (infos(("t", "F32", (2**32, 2**32), 0)), 3, "any file"),
    "sides whose bytes are 2^64": (infos(("t", "F64", (2**31, 2**30), 0)), 3, "any file"),
    "no elements of a side of 2^64": (infos(("t", "F32", (0, 2**64 - 1), 0)), 3, "any file"),
    "half a block": (infos(("t", "Q4_0", (4, 16), 0)), 3, "Q4_0 needs a multiple of 32"),
    "a block over rows": (infos(("t", "Q4_K", (8, 32), 0)), 3, "Q4_K needs a multiple of 256"),
    "a scalar in blocks": (infos(("t", "Q8_0", (), 0)), 3, "rows of 1 elements"),
    **{
        f"the type {n}": (infos(("t", n, (32,), 0)), 4, f"the type {n}{was}")
        for n, was in (
            (4, ", which was Q4_2 once"),
            (5, ", which was Q4_3 once"),
            (31, ", which was Q4_0_4_4 once"),
            (38, ", which was IQ4_NL_8_8 once"),
            (43, ", which ingot does not know"),
            (2**32 - 1, ", which"),
        )
    },
    **{
        f"an offset of {n}": (infos(("t", "F32", (8,), n)), 3, "`t`")
        for n in (1, 16, 31, 33, 64, 2**32, 2**63, 2**64 - 32, 2**64 - 1)
    },
    "an offset that wraps round": (
        infos(("t", "F32", (8,), 2**64 - 64), data=bytes(256)),
        3,
        "ends at byte 18446744073709551",
    ),
    "one byte too few": (infos(("t", "F32", (16,), 0), data=bytes(63)), 3, "the file has"),
    "no data": (infos(("t", "F32", (8,), 0), data=b""), 3, "the file has 64"),
    "an empty tensor behind the end": (
        infos(("t", "F32", (0, 8), 96), data=bytes(64)),
        3,
        "`t` ends at byte",
    ),
    "two tensors at one place": (
        infos(("a", "F32", (8,), 0), ("b", "F32", (8,), 0)),
        3,
        "`b` begins before `a` ends",
    ),
    "tensors that overlap": (
        infos(("a", "F32", (9,), 0), ("b", "F32", (8,), 32), data=bytes(99)),
        3,
        "`b` begins before `a` ends",
    ),
    "tensors that overlap, listed backwards": (
        infos(("b", "F32", (8,), 32), ("a", "F32", (9,), 0), data=bytes(99)),
        3,
        "`b` begins before `a` ends",
    ),
    "a tensor in another": (
        infos(("a", "F32", (16,), 0), ("b", "F32", (1,), 32)),
        3,
        "`b` begins before `a` ends",
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_it_is_refused(row):
    data, status, message = row
    started = time.monotonic()

    with pytest.raises(IngotError) as caught:
        read_header("`x.gguf`", len(data), lambda start, end: data[start:end])

    assert message in str(caught.value)
    assert caught.value.exit_code == status
    assert str(caught.value).startswith("`x.gguf`: ")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("end", range(len(GOOD) - PADDING))
def test_every_cut_is_refused(end):
    data = GOOD[:end]

    with pytest.raises(IngotError):
        read_header("x", len(data), lambda start, stop: data[start:stop])


@pytest.mark.parametrize("value", [b"\xff\xfe", b"a\xc3"])
def test_a_token_that_is_not_utf8_is_an_error_when_it_is_read(value):
    data = gguf(keys=[("k", ("array", "string"), ["a", value])])
    read = lambda start, end: data[start:end]  # noqa: E731
    found = read_header("x", len(data), read).metadata["k"]

    with pytest.raises(IngotError, match="string 1 of an array is not UTF-8"):
        list(read_array(found, read, len(data), "x"))
