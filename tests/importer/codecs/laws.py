"""The laws of encoders, decoders and transcoders (importer/codecs/base.py).

A check gets a shape, stored arrays, places to cut at and a runtime: it draws nothing itself.
"""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from importer.codecs.base import Operation
from importer.codecs.plain import Plain
from importer.codecs.runtime import NUMPY
from store.tensorfile import data_bytes

FEW = 8
"""Units that are done one by one."""


# How pieces are cut and joined.


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
    return piece._replace(parts=tuple(bytes(part) for part in piece.parts))


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
    return nbytes * elements // (count or 1)


def check_unit(subject, shape):
    """A unit is at least one element, and fits into tensors that are not empty."""
    unit = subject.unit(shape)
    assert unit >= 1
    # A decoder may have a shorter one at the end.
    is_whole = math.prod(shape) % unit == 0
    assert is_whole or (hasattr(subject, "spans") and unit <= math.prod(shape))


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
