"""Importance matrices written by hand, in both formats."""

from __future__ import annotations

import struct

import numpy as np

from tests.importer.formats.gguf.builders import gguf

KEYS = (
    ("general.type", "string", "imatrix"),
    ("imatrix.datasets", ("array", "string"), ["wiki.txt"]),
    ("imatrix.chunk_count", "u32", 7),
    ("imatrix.chunk_size", "u32", 512),
)


def floats(numbers, order="<"):
    return np.asarray(numbers, f"{order}f4").tobytes()


def entry(name, calls, numbers):
    """An entry of the older format."""
    data = name.encode() if isinstance(name, str) else name
    return (
        struct.pack("<i", len(data))
        + data
        + struct.pack("<ii", calls, len(numbers))
        + floats(numbers)
    )


def dat(*entries, count=None, end=b""):
    """A file of the older format."""
    return struct.pack("<i", len(entries) if count is None else count) + b"".join(entries) + end


def ended(chunks=7, text=b"wiki.txt"):
    """What follows the entries."""
    return struct.pack("<ii", chunks, len(text)) + text


def imatrix(sums, counts, *, keys=KEYS, order="<", kinds=("F32", "F32")):
    """A file of GGUF: sums, of shape (experts, columns), and counts by the tensor's name."""
    data = {f"{name}.in_sum2": np.asarray(numbers) for name, numbers in sums.items()}
    data |= {f"{name}.counts": np.asarray(numbers)[:, None] for name, numbers in counts.items()}
    kind = {".in_sum2": kinds[0], ".counts": kinds[1]}
    tensors = [
        (name, kind[name[name.rindex(".") :]], numbers.shape)
        for name, numbers in sorted(data.items())
    ]
    content = {name: floats(numbers, order) for name, numbers in data.items()}
    return gguf(tensors, keys, order=order, data=content)


SUMS = {"a.weight": [[2.0, 4, 6, 0]], "b_exps.weight": [[1.0, 2], [3, 4], [5, 6]]}
COUNTS = {"a.weight": [2.0], "b_exps.weight": [4.0, 0, 5]}
SEEDS = [
    dat(entry("a.weight", 2, [2, 4]), entry("b", 0, [1]), end=ended()),
    dat(entry("a", 3, [1.5])),
    imatrix(SUMS, COUNTS),
    imatrix(SUMS, COUNTS, order=">"),
]
