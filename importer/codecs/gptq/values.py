"""Codes, zero points and scales of some rows that GPTQ or AWQ packed, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from importer.codecs.base import Encoded, Shape
from importer.codecs.gptq.form import GptqForm, Layout
from importer.codecs.reference import Bits, Codes, Floats, floats, packing
from importer.codecs.reference.gptq import Groups, Packing, dequantize, unpack, zero_points
from importer.codecs.spec import QuantSpec
from store.errors import InputError
from store.fs import Buffer

_PIECE: Final = 1 << 18
"""Values that numpy works on at a time, so that intermediate arrays take a few MiB."""
_BLOCK: Final = 32
"""Rows whose codes fill whole words."""
_WORD: Final = 32
_INTERLEAVED: Final = 4
"""Bits of the only codes that AWQ interleaves."""


class Scaling(NamedTuple):
    """What makes values of the codes of some rows.

    Attributes:
        zeros: of shape (rows, groups), as `scales`; integers.
        scales: widened, exactly.
        groups: of each column.
    """

    zeros: Floats
    scales: Floats
    groups: Groups


class Kernel(Protocol):
    """The arithmetic, compiled; a module implements it."""

    def decode(self, decoder: GptqForm, words: Bits, scaling: Scaling, values: Floats) -> None:
        """Fill `values` of shape (rows, columns) from words as they are stored."""
        ...


def decode(
    decoder: GptqForm,
    arrays: Sequence[Buffer],
    shape: Shape,
    elements: range,
    kernel: Kernel | None,
) -> Buffer:
    """Return the values of whole rows, F32.

    Args:
        arrays: the bytes of `decoder.spans(shape, elements)`.

    Raises:
        InputError: g_idx is no longer what it was.
    """
    columns = shape[1]
    rows = len(elements) // max(columns, 1)
    values = np.empty((rows, columns), np.float32)
    if values.size:
        scaling = unpack_scaling(decoder, arrays, rows, columns)
        words = _words(decoder, arrays[0], rows, columns)
        with np.errstate(all="ignore"):  # hostile scales
            if kernel is not None:
                kernel.decode(decoder, words, scaling, values)
            else:
                _decode(decoder, words, scaling, values)
        if not np.isfinite(scaling.scales).all():
            values[np.isnan(values)] = np.nan  # of which processors make several
    return values.reshape(-1).view(np.uint8).data


def repack(
    decoder: GptqForm, arrays: Sequence[Buffer], shape: Shape, elements: range, spec: QuantSpec
) -> Encoded:
    """Return whole rows as parts of an affine type, for values of F32.

    Args:
        arrays: the bytes of `decoder.spans(shape, elements)`.
        spec: of as many bits, in groups that are each in one group of these.
    """
    columns = shape[1]
    rows = len(elements) // max(columns, 1)
    if not rows:
        return Encoded((b"", b"", b""))
    zeros, scales, groups = unpack_scaling(decoder, arrays, rows, columns)
    packed = _moved(decoder, _words(decoder, arrays[0], rows, columns), rows, columns)
    own = groups[:: spec.group_size]
    scale = np.ascontiguousarray(scales[:, own])
    with np.errstate(all="ignore"):  # hostile scales
        bias = -(scale * zeros[:, own])
        last = scale * np.float32(1 << decoder.bits)
    lost = int(np.count_nonzero(~np.isfinite(last))) * spec.group_size
    return Encoded(
        tuple(part.reshape(-1).view(np.uint8).data for part in (packed, scale, bias)), lost
    )


def _moved(decoder: GptqForm, words: Bits, rows: int, columns: int) -> Bits:
    """Return the words of rows whose codes follow each other, as the store has them."""
    way = _packing(decoder)
    if way is Packing.STREAM and decoder.layout is not Layout.GEMM:
        own = words.T if decoder.layout is Layout.GPTQ else words
        return np.ascontiguousarray(own[:, : columns * decoder.bits // _WORD])
    made = np.empty((rows, columns * decoder.bits // _WORD), np.uint32)
    high = max(_BLOCK, _PIECE // columns // _BLOCK * _BLOCK)
    for row in range(0, rows, high):
        some = slice(row, min(row + high, rows))
        codes = np.ascontiguousarray(_codes(decoder, words, some)[:, :columns])
        made[some] = packing.pack(codes, decoder.bits)
    return made


def unpack_scaling(
    decoder: GptqForm, arrays: Sequence[Buffer], rows: int, columns: int
) -> Scaling:
    """Return the zero points and scales of some rows, in the order of their groups.

    Raises:
        InputError: g_idx is no longer what it was.
    """
    words = np.frombuffer(arrays[1], "<u4")
    scales = np.array(np.frombuffer(arrays[2], floats.STORED[decoder.scale_dtype]))
    if decoder.is_transposed:
        words = words.reshape(decoder.groups, -1)
        scales = scales.reshape(decoder.groups, rows).T
    else:
        words, scales = words.reshape(rows, -1), scales.reshape(rows, decoder.groups)
    zeros = zero_points(words, decoder.bits, _packing(decoder), less_one=decoder.less_one)
    zeros = zeros[:, :rows].T if decoder.is_transposed else zeros[:, : decoder.groups]
    return Scaling(
        np.ascontiguousarray(zeros, np.float32),
        floats.widen(np.ascontiguousarray(scales), decoder.scale_dtype),
        _groups(decoder, arrays, columns),
    )


def check(kernel: Kernel, *, along_rows: bool) -> None:
    """Compare a kernel with numpy on a matrix of each layout.

    Args:
        along_rows: of those whose codes are packed so, or of all others.

    Raises:
        ArithmeticError: they differ.
    """
    for decoder in _PROBES:
        if (decoder.layout is Layout.GEMM) != along_rows:
            continue  # a function is compiled for each
        rows, columns = 40, 160
        random = np.random.default_rng(7)  # any bits are codes
        blocks = 2 if decoder.layout is Layout.GEMM else 5
        lines = {Layout.GPTQ: rows, Layout.GEMM: columns, Layout.GEMV: rows}[decoder.layout]
        words = random.integers(0, 1 << 32, (blocks * decoder.bits, lines), np.uint32)
        if decoder.layout is not Layout.GPTQ:
            words = np.ascontiguousarray(words.T)
        zeros, scales = random.random((2, rows, decoder.groups), np.float32)
        groups = random.integers(0, decoder.groups, columns, np.uint32)
        if not decoder.is_reordered:
            groups = _places(columns, decoder.group_size)
        fast, slow = np.empty((2, rows, columns), np.float32)
        kernel.decode(decoder, words, Scaling(zeros, scales, groups), fast)
        _decode(decoder, words, Scaling(zeros, scales, groups), slow)
        if not np.array_equal(fast, slow):
            raise ArithmeticError(f"the kernel that decodes {decoder} differs from numpy")


_PROBES: Final = (
    GptqForm("gptq", Layout.GPTQ, 2, 48, 4, "F16"),
    GptqForm("gptq", Layout.GPTQ, 3, 32, 5, "F16"),
    GptqForm("gptq", Layout.GPTQ, 4, 64, 3, "F16"),
    GptqForm("gptq", Layout.GPTQ, 4, 32, 5, "F16", has_groups=True, is_reordered=True),
    GptqForm("gptq", Layout.GPTQ, 7, 32, 5, "F16", is_planar=True),
    GptqForm("gptq", Layout.GPTQ, 8, 160, 1, "F16"),
    GptqForm("awq", Layout.GEMM, 4, 32, 5, "F16"),
    GptqForm("awq", Layout.GEMM, 5, 32, 5, "F16"),
    GptqForm("awq", Layout.GEMV, 4, 32, 5, "F16"),
)


def _decode(decoder: GptqForm, words: Bits, scaling: Scaling, values: Floats) -> None:
    rows, columns = values.shape
    zeros, scales, groups = scaling
    high = max(_BLOCK, _PIECE // columns // _BLOCK * _BLOCK)
    for row in range(0, rows, high):
        some = slice(row, min(row + high, rows))
        codes = _codes(decoder, words, some)[:, :columns]
        values[some] = dequantize(codes, zeros[some], scales[some], groups)


def _codes(decoder: GptqForm, words: Bits, rows: slice) -> Codes:
    """Return the codes of some rows, from the first of a block on; more columns, maybe."""
    way, bits = _packing(decoder), decoder.bits
    match decoder.layout:
        case Layout.GEMM:
            first, last = rows.start * bits // _WORD, -(-rows.stop * bits // _WORD)
            return unpack(words[:, first:last], bits, way)[:, : rows.stop - rows.start].T
        case Layout.GPTQ:
            return unpack(np.ascontiguousarray(words[:, rows].T), bits, way)
        case Layout.GEMV:
            return unpack(words[rows], bits, way)


def _words(decoder: GptqForm, data: Buffer, rows: int, columns: int) -> Bits:
    words = floats.behaved(np.frombuffer(data, "<u4"))
    match decoder.layout:
        case Layout.GPTQ:
            return words.reshape(-1, rows)
        case Layout.GEMM:
            return words.reshape(columns, -1)
        case Layout.GEMV:
            return words.reshape(rows, -1)


def _packing(decoder: GptqForm) -> Packing:
    if decoder.is_planar:
        return Packing.PLANES
    is_interleaved = decoder.layout is Layout.GEMM and decoder.bits == _INTERLEAVED
    return Packing.INTERLEAVED if is_interleaved else Packing.STREAM


def _groups(decoder: GptqForm, arrays: Sequence[Any], columns: int) -> Groups:
    if not decoder.is_reordered:
        return _places(columns, decoder.group_size)
    groups = np.frombuffer(arrays[3], "<u4")
    # It was checked when the source was read. A kernel takes these for places in memory.
    if groups.max(initial=0) >= decoder.groups:
        raise InputError(
            "`g_idx` is no longer what it was: the source changed while it was imported",
            code="E_SOURCE_CHANGED",
        )
    return floats.behaved(groups)


def _places(columns: int, group_size: int) -> Groups:
    return (np.arange(columns, dtype=np.uint32) // np.uint32(group_size)).astype(np.uint32)
