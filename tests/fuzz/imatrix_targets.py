"""Importance matrices under fuzzing: what we accept is finite, and what llama.cpp reads."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from importer.formats.imatrix.read import read_matrix
from store.errors import IngotError
from store.text import is_printable


def imatrix(data: bytes) -> None:
    """A file of either format: names and numbers are those that a plain reader finds."""

    def read(start: int, end: int) -> bytes:
        assert 0 <= start <= end <= len(data)
        return data[start:end]

    try:
        found = read_matrix("x", len(data), read)
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    assert found.entries
    assert all(is_printable(name) for name in (*found.entries, *found.datasets))
    assert sum(map(len, {id(own): own for own in found.entries.values()}.values())) <= len(data)
    for own in found.entries.values():
        assert own
        assert np.isfinite(np.frombuffer(own, "<f4")).all()
    if not data.startswith(b"GGUF"):
        assert dict(_plainly(data)) == found.entries


def _plainly(data: bytes):
    """Entries of the older format, without a check."""
    (count,), at = struct.unpack_from("<i", data), 4
    for _ in range(count):
        (length,) = struct.unpack_from("<i", data, at)
        name = data[at + 4 : at + 4 + length].decode()
        at += 4 + length
        calls, length = struct.unpack_from("<ii", data, at)
        numbers = np.frombuffer(data, "<f4", length, at + 8)
        at += 8 + 4 * length
        with np.errstate(all="ignore"):
            yield name, (numbers / np.float32(calls) if calls > 0 else numbers).tobytes()


TARGETS: dict[str, Callable[[bytes], None]] = {"imatrix": imatrix}
