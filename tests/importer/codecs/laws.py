"""The laws of every codec (importer/codecs/base.py); later ones join `CODECS`."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

from hypothesis import strategies as st

from importer.codecs.base import Codec
from importer.codecs.plain import Plain
from importer.codecs.registry import codec_for
from importer.codecs.spec import QUANT_TYPES
from store.tensorfile import data_bytes, elements
from tests.importer.codecs import corpus


class Case(NamedTuple):
    """A codec under test, with what it takes.

    Attributes:
        dtype: of the source.
        last: what the last dimension must be a multiple of.
    """

    codec: Codec
    dtype: str
    last: int = 1


FEW = 8
"""Pieces that are encoded one by one."""


def quantized(spec, dtype):
    """A case of a type."""
    return Case(codec_for(spec, dtype), dtype, spec.group_size)


CODECS = [
    *(Case(Plain(dtype), dtype) for dtype in ("F32", "BF16", "F16", "F8_E4M3", "I64", "BOOL")),
    Case(codec_for(None, "BF16"), "BF16"),
    *(quantized(spec, "BF16") for spec in corpus.SPECS),
    *(
        quantized(QUANT_TYPES[name], dtype)
        for name in ("int4", "nvfp4", "mxfp8")
        for dtype in ("F16", "F32", "F64", "F8_E4M3", "F8_E5M2")
    ),
]


KERNELS = [
    quantized(QUANT_TYPES[name], dtype)
    for name in ("int3", "int4", "int8", "nvfp4", "mxfp4", "mxfp8")
    for dtype in corpus.DTYPES
]


def case_id(case):
    """What pytest calls a case."""
    name = corpus.spec_id(case.codec.spec) if hasattr(case.codec, "spec") else "plain"
    return f"{name}-{case.dtype}"


@st.composite
def tensors(draw, case):
    """A shape that the codec takes, and the bytes of such a tensor."""
    shape = draw(st.lists(st.integers(0, 6), max_size=3))
    shape = (*shape, case.last * draw(st.integers(1, 5))) if case.last > 1 or shape else ()
    nbytes = data_bytes(case.dtype, shape)
    return shape, draw(st.binary(min_size=nbytes, max_size=nbytes))


@st.composite
def splits(draw, count):
    """Places, between 0 and `count` rows, at which a tensor is cut."""
    cuts = draw(st.lists(st.integers(0, count), max_size=5)) if count else []
    return [0, *sorted(cuts), count]


def encoded(codec, shape, data, rows):
    """Encode a tensor piece by piece, cut at row numbers; give each part joined.

    Every piece is in the same buffer, as in an import.
    """
    row = codec.row_bytes(shape)
    buffer = bytearray(len(data))
    parts = [b"" for _ in codec.parts(shape)]
    for start, end in itertools.pairwise(rows):
        piece = memoryview(buffer)[: (end - start) * row]
        piece[:] = data[start * row : end * row]
        for number, made in enumerate(codec.encode(piece).parts):
            parts[number] += bytes(made)
    return parts


def check_parts(case, shape, data):
    """Law 1: `encode` gives what `parts` promised."""
    promised = case.codec.parts(shape)
    made = case.codec.encode(memoryview(data)).parts

    assert [memoryview(piece).nbytes for piece in made] == [part.nbytes for part in promised]
    assert [part.nbytes for part in promised] == [
        data_bytes(part.dtype, part.shape) for part in promised
    ]
    assert promised[0].suffix == ""
    assert len({part.suffix for part in promised}) == len(promised)


def check_rows_are_independent(case, shape, data, draw):
    """Law 2: however rows are split, the parts joined are the same bytes."""
    row = case.codec.row_bytes(shape)
    assert row > 0
    assert len(data) % row == 0
    count = len(data) // row

    whole = encoded(case.codec, shape, data, [0, count])
    assert encoded(case.codec, shape, data, draw(splits(count))) == whole
    assert encoded(case.codec, shape, data, [*range(min(count, FEW) + 1), count]) == whole


def check_decode(case, shape, data, draw):
    """What parts stand for has the shape that was encoded, and may be decoded in pieces."""
    codec = case.codec
    parts = [bytes(part) for part in codec.encode(memoryview(data)).parts]
    decoded = bytes(codec.decode(parts))
    assert len(decoded) == data_bytes(codec.value_dtype, shape)

    count = max(1, elements(shape) // case.last)
    cut = draw(st.integers(0, count))
    pieces = [
        [part[len(part) * start // count : len(part) * end // count] for part in parts]
        for start, end in ((0, cut), (cut, count))
    ]
    assert b"".join(bytes(codec.decode(piece)) for piece in pieces) == decoded


def check_is_a_value(case):
    """A codec is a frozen value: equal when made alike, and fit for a set."""
    assert case.codec == replace(case.codec)
    assert len({case.codec, replace(case.codec)}) == 1
