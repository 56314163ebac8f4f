"""The laws of encoders, decoders and transcoders (importer/codecs/base.py); later ones join.

A case says what a tensor looks like in storage; a check draws nothing itself: it gets a shape,
stored arrays, places to cut at and a runtime, and says what is wrong by failing.
"""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from importer.codecs.base import Decoder, Encoder, Operation, Shape, Transcoder
from importer.codecs.cast import Cast
from importer.codecs.plain import Plain
from importer.codecs.registry import codec_for, transcoder_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES, Downcast, with_group_size
from store.tensorfile import data_bytes
from tests.importer.codecs import corpus

FEW = 8
"""Units that are done one by one."""


class Case(NamedTuple):
    """What is tested, and what it takes.

    Attributes:
        stored: makes the arrays of a tensor of a shape: of an encoder, its values.
        multiple: of what the last dimension must be one.
    """

    name: str
    subject: Encoder | Decoder | Transcoder
    stored: Callable[[Shape, np.random.Generator], list[bytes]]
    multiple: int = 1


def case_id(case):
    """What pytest calls a case."""
    return case.name


# What is stored.


def plain(dtype):
    """Values of `dtype`: as models have them up to some place, and any bytes from there."""

    def stored(shape, rng):
        nbytes = data_bytes(dtype, shape)
        if dtype not in corpus.DTYPES:
            return [rng.bytes(nbytes)]
        rows = -(-math.prod(shape) // corpus.ROW)
        return [_spoilt(corpus.ordinary(dtype, rows, rng).tobytes()[:nbytes], rng)]

    return stored


def quantized(spec, dtype):
    """Parts of a type: as we make them up to some place, and any bytes from there."""
    codec = codec_for(spec, dtype)

    def stored(shape, rng):
        (values,) = plain(codec.dtype)(shape, rng)
        parts = codec.encode(memoryview(values), NUMPY).parts
        return [_spoilt(bytes(part), rng) for part in parts]

    return stored


def _spoilt(content, rng):
    kept = min(len(content), int(rng.integers(0, 2 * len(content) + 1)))
    return content[:kept] + rng.bytes(len(content) - kept)


# Cases.


def encoder(spec, dtype):
    """A type, for values of a dtype."""
    name = f"{corpus.spec_id(spec)}-{dtype}"
    return Case(name, codec_for(spec, dtype), plain(dtype), spec.group_size)


def decoder(spec, dtype):
    """A type, as it is stored."""
    name = f"{corpus.spec_id(spec)}-{dtype}"
    return Case(name, codec_for(spec, dtype), quantized(spec, dtype), spec.group_size)


def from_plain(target, dtype):
    """From values of a dtype to a type."""
    multiple = getattr(target, "group_size", 1)
    name = f"{dtype}-to-{target}"
    return Case(name, transcoder_for(target, Plain(dtype)), plain(dtype), multiple)


def from_type(source, target, dtype="BF16"):
    """From one type to another."""
    codec = codec_for(source, dtype)
    multiple = math.lcm(source.group_size, getattr(target, "group_size", 1))
    subject = transcoder_for(target, codec)
    return Case(f"{source}-to-{target}-{dtype}", subject, quantized(source, dtype), multiple)


INT4, INT8 = QUANT_TYPES["int4"], QUANT_TYPES["int8"]
_PLAIN = {"F32": 1, "BF16": 1, "F16": 1, "F8_E4M3": 1, "I64": 1, "BOOL": 1} | {
    "F4": 2,
    "F6_E2M3": 4,
}
"""Dtypes, and how many elements are whole bytes."""

ENCODERS = [
    *(
        Case(f"{dtype}-cast-to-{to}", Cast(dtype, to), plain(dtype))
        for to in ("BF16", "F16")
        for dtype in ("F64", "F32", "BF16", "F16")
        if dtype != to
    ),
    *(encoder(spec, "BF16") for spec in corpus.SPECS),
    *(
        encoder(QUANT_TYPES[name], dtype)
        for name in ("int4", "nvfp4", "mxfp8")
        for dtype in ("F16", "F32", *corpus.CONVERTED)
    ),
]

DECODERS = [
    *(
        Case(f"plain-{dtype}", Plain(dtype), plain(dtype), multiple)
        for dtype, multiple in _PLAIN.items()
    ),
    *(decoder(spec, "BF16") for spec in corpus.SPECS),
    *(
        decoder(QUANT_TYPES[name], dtype)
        for name in ("int3", "int8", "nvfp4", "mxfp4")
        for dtype in ("F16", "F32")
    ),
]

TRANSCODERS = [
    *(
        Case(f"copy-{dtype}", transcoder_for(None, Plain(dtype)), plain(dtype), multiple)
        for dtype, multiple in _PLAIN.items()
    ),
    from_plain(Downcast("BF16"), "F32"),
    from_plain(Downcast("F16"), "BF16"),
    from_plain(Downcast("F16"), "F64"),
    *(from_plain(spec, "BF16") for spec in QUANT_TYPES.values()),
    from_plain(INT4, "F64"),
    from_plain(QUANT_TYPES["nvfp4"], "F8_E4M3"),
    from_type(INT8, INT4),
    from_type(with_group_size(INT8, 128), INT4, "F16"),
    from_type(INT4, INT8, "F32"),
    from_type(QUANT_TYPES["mxfp8"], QUANT_TYPES["nvfp4"]),
    from_type(QUANT_TYPES["nvfp4"], with_group_size(INT4, 128)),
    from_type(QUANT_TYPES["int3"], Downcast("F16"), "F32"),
    from_type(INT4, INT4),
    from_type(QUANT_TYPES["nvfp4"], None),
]


# How pieces are cut and joined.


@st.composite
def tensors(draw, case):
    """A shape that a case takes, and the stored arrays of such a tensor."""
    outer = draw(st.lists(st.integers(0, 6), max_size=3))
    last = case.multiple * draw(st.integers(0, 5))
    shape = (*outer, last) if outer or case.multiple > 1 or last else ()
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    return shape, case.stored(shape, rng)


@st.composite
def cuts(draw, case, shape):
    """Where a tensor is cut: elements, at multiples of the unit, with both ends."""
    unit, count = case.subject.unit(shape), math.prod(shape)
    places = draw(st.lists(st.integers(0, count // unit), max_size=5))
    return [0, *sorted(place * unit for place in places), count]


def fine_cuts(case, shape):
    """The first units one by one, and then the rest."""
    unit, count = case.subject.unit(shape), math.prod(shape)
    return [*range(0, min(count, FEW * unit) + 1, unit), count]


def ranges(places):
    """Ranges of elements between places."""
    return [range(*pair) for pair in itertools.pairwise(places)]


def cut_out(array, span):
    """The bytes of a span without the gaps between its runs, as a reader hands them over."""
    starts = [span.begin + run * span.stride for run in range(span.runs)]
    return b"".join(array[start : start + span.run] for start in starts)


class Reader:
    """Hands over pieces of stored arrays, always in the same memory, as the engine does."""

    def __init__(self, subject, shape, stored):
        self._subject, self._shape, self._stored = subject, shape, stored
        self._memory = [bytearray(len(array)) for array in stored]

    def read(self, elements):
        spans = self._subject.spans(self._shape, elements)
        views = []
        for array, memory, span in zip(self._stored, self._memory, spans, strict=True):
            view = memoryview(memory)[: span.nbytes]
            view[:] = cut_out(array, span)
            views.append(view)
        return views


class Made(NamedTuple):
    """What pieces became: of each part its bytes, joined."""

    parts: list[bytes]
    nonfinite: int


def join(pieces):
    """Join what was made piece by piece."""
    made = [([bytes(part) for part in piece.parts], piece.nonfinite) for piece in pieces]
    parts = [b"".join(column) for column in zip(*(parts for parts, _ in made), strict=True)]
    return Made(parts, sum(count for _, count in made))


def encoded(subject, shape, values, places, runtime):
    """Encode values, cut at places; every piece is in the same buffer, as in an import."""
    reader = Reader(Plain(subject.dtype), shape, [values])
    return join(
        # Before the next one is read: the parts may be views.
        _kept(subject.encode(*reader.read(piece), runtime))
        for piece in ranges(places)
    )


def decoded(subject, shape, stored, places, runtime):
    """Decode stored arrays, cut at places."""
    reader = Reader(subject, shape, stored)
    return b"".join(
        bytes(subject.decode(reader.read(piece), shape, piece, runtime))
        for piece in ranges(places)
    )


def converted(subject, shape, stored, places, runtime):
    """Convert stored arrays, cut at places."""
    reader = Reader(subject, shape, stored)
    return join(
        _kept(subject.convert(reader.read(piece), shape, piece, runtime))
        for piece in ranges(places)
    )


def _kept(piece):
    return replace(piece, parts=tuple(bytes(part) for part in piece.parts))


# Laws.


def check_parts(subject, shape, pieces):
    """Law 1: pieces are what `parts` promised, each in proportion to its elements.

    Args:
        pieces: each a range of elements, and what became of it.
    """
    promised, count = subject.parts(shape), math.prod(shape)
    assert promised[0].suffix == ""
    assert len({part.suffix for part in promised}) == len(promised)
    assert [part.nbytes for part in promised] == [
        data_bytes(part.dtype, part.shape) for part in promised
    ]
    for piece, made in pieces:
        assert [memoryview(part).nbytes for part in made.parts] == [
            place(part.nbytes, piece.stop, count) - place(part.nbytes, piece.start, count)
            for part in promised
        ]


def place(nbytes, elements, count):
    """Where elements begin in a part of so many bytes, by the rule of base.py."""
    exact, rest = divmod(nbytes * elements, count or 1)
    assert rest == 0
    return exact


def check_unit(subject, shape):
    """A unit is at least one element, and fits into tensors that are not empty."""
    unit = subject.unit(shape)
    assert unit >= 1
    assert math.prod(shape) % unit == 0


def check_spans(subject, shape, stored, places):
    """Spans lie within the stored arrays, and all together cover them."""
    sizes = [len(array) for array in stored]
    seen = [np.zeros(size, bool) for size in sizes]
    for piece in ranges(places):
        spans = subject.spans(shape, piece)
        assert len(spans) == len(sizes)
        for span, size, mark in zip(spans, sizes, seen, strict=True):
            assert min(span) >= 0
            assert span.runs == 1 or span.stride >= span.run
            assert span.nbytes == span.run * span.runs
            assert span.begin + (span.runs - 1) * span.stride + span.run <= size
            for run in range(span.runs):
                start = span.begin + run * span.stride
                mark[start : start + span.run] = True
    assert all(mark.all() for mark in seen)


def check_encoder(case, shape, stored, places, runtime):
    """All laws of an encoder, on one tensor; `stored` is its values."""
    subject, (values,) = case.subject, stored
    check_unit(subject, shape)
    whole = [0, math.prod(shape)]
    reader = Reader(Plain(subject.dtype), shape, stored)
    pieces = ((piece, subject.encode(*reader.read(piece), runtime)) for piece in ranges(places))
    check_parts(subject, shape, pieces)

    made = encoded(subject, shape, values, whole, runtime)
    assert encoded(subject, shape, values, places, runtime) == made
    assert encoded(subject, shape, values, fine_cuts(case, shape), runtime) == made
    assert encoded(subject, shape, values, whole, NUMPY) == made
    assert _kept(subject.encode(values, runtime)).parts == tuple(made.parts)


def check_decoder(case, shape, stored, places, runtime):
    """All laws of a decoder, on one tensor."""
    subject = case.subject
    check_unit(subject, shape)
    fine = fine_cuts(case, shape)
    for some in (places, fine):
        check_spans(subject, shape, stored, some)
    whole = [0, math.prod(shape)]
    values = decoded(subject, shape, stored, whole, runtime)
    assert len(values) == data_bytes(subject.value_dtype, shape)

    assert decoded(subject, shape, stored, places, runtime) == values
    assert decoded(subject, shape, stored, fine, runtime) == values
    assert decoded(subject, shape, stored, whole, NUMPY) == values


def check_transcoder(case, shape, stored, places, runtime):
    """All laws of a transcoder, on one tensor."""
    subject = case.subject
    check_unit(subject, shape)
    fine = fine_cuts(case, shape)
    for some in (places, fine):
        check_spans(subject, shape, stored, some)
    reader = Reader(subject, shape, stored)
    pieces = (
        (piece, subject.convert(reader.read(piece), shape, piece, runtime))
        for piece in ranges(places)
    )
    check_parts(subject, shape, pieces)

    whole = [0, math.prod(shape)]
    made = converted(subject, shape, stored, whole, runtime)
    assert converted(subject, shape, stored, places, runtime) == made
    assert converted(subject, shape, stored, fine, runtime) == made
    assert converted(subject, shape, stored, whole, NUMPY) == made


def check_codec(codec, shape, values, runtime):
    """`decode` undoes the layout of `encode`, and both forms of both agree."""
    whole = range(math.prod(shape))
    parts = [[bytes(p) for p in codec.encode(values, way).parts] for way in (runtime, NUMPY)]
    assert parts[0] == parts[1]
    assert [len(part) for part in parts[0]] == [
        span.nbytes for span in codec.spans(shape, whole)
    ]
    fast, slow = (
        bytes(codec.decode(own, shape, whole, way))
        for own, way in zip(parts, (runtime, NUMPY), strict=True)
    )
    assert len(fast) == data_bytes(codec.value_dtype, shape)
    assert fast == slow


def check_is_a_value(subject):
    """A frozen value: equal when made alike, fit for a set, and sent to other processes."""
    again = pickle.loads(pickle.dumps(subject))
    assert subject == replace(subject) == again
    assert len({subject, replace(subject), again}) == 1


def check_kernels(subject, runtime):
    """Kernels are values, of which all that are asked for can be made ready."""
    ways = [()] if hasattr(subject, "convert") else [(operation,) for operation in Operation]
    for way in ways:
        found = subject.kernels(*way)
        assert found == replace(subject).kernels(*way)
        assert pickle.loads(pickle.dumps(found)) == found
        assert all(runtime.kernel(spec) is not None for spec in found)
