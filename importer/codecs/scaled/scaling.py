"""Multiply codes by the scales of their blocks: by a kernel, and in numpy what it leaves."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np

from importer.codecs.reference import Bits, Codes, Floats, floats, packing
from importer.codecs.reference import scaled as reference
from importer.codecs.reference.scaled import Places, ScaledCodes
from importer.codecs.scaled.blocks import Grid
from store.errors import InputError
from store.fs import Buffer

_PIECE: Final = 1 << 16
"""Values that numpy works on at a time, so that intermediate arrays take a few MiB at most."""
_LANE: Final = 8
_FAST_BITS: Final = (2, 3, 4, 5, 6)
_FAST_CODES: Final = 32
_STORED: Final = {"BF16": np.uint16, "F16": np.uint16, "F32": np.uint32}


class Needed(Protocol):
    """What this module needs to know about a kernel's spec."""

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    @property
    def bits(self) -> int: ...  # noqa: D102
    @property
    def has_zeros(self) -> bool: ...  # noqa: D102
    @property
    def is_line(self) -> bool: ...  # noqa: D102


class Kernel(Protocol):
    """The compiled form; a module implements it."""

    def decode(self, found: ScaledCodes, places: Places, dtype: str, values: Bits) -> Any:  # noqa: ANN401
        """Fill `values`; return a flag for each row that has a NaN and is void."""
        ...

    def unpack(self, words: Bits, bits: int) -> Codes:
        """Unpack words, a multiple of 32 codes."""
        ...


def decode(found: ScaledCodes, places: Places, dtype: str, kernel: Kernel | None) -> Buffer:
    """Return values as bytes of `dtype`.

    Args:
        places: the scale row of each row.
    """
    shape = found.codes.shape
    values = np.empty(shape, _STORED[dtype])
    if kernel is None:
        left = np.arange(len(values))
    else:
        zeros = None if found.zeros is None else floats.behaved(found.zeros)
        found = found._replace(
            codes=floats.behaved(found.codes), scales=floats.behaved(found.scales), zeros=zeros
        )
        left = np.flatnonzero(kernel.decode(found, places, dtype, values))
    step = max(_PIECE // max(shape[1], 1), 1)
    with np.errstate(all="ignore"):
        for start in range(0, len(left), step):
            rows = left[start : start + step]
            made = reference.decode(found._replace(codes=found.codes[rows]), places[rows])
            values[rows] = floats.narrow(made, dtype)
    return values.reshape(-1).view(np.uint8).data


def read_scales(data: Buffer, dtype: str, across: int) -> Floats:
    """Return stored scales as float32, of shape (scale rows, `across`)."""
    kind = _STORED.get(dtype, np.uint8)
    bits = np.frombuffer(data, kind)
    with np.errstate(over="ignore"):  # of E8M0, whose last byte is infinity
        scales = reference.widen_scales(bits, dtype)
    return np.ascontiguousarray(scales).reshape(-1, across)


def reciprocals(data: Buffer) -> bytes:
    """Return the reciprocals of F32, rounded to the nearest."""
    with np.errstate(all="ignore"):
        return (np.float32(1) / np.frombuffer(data, "<f4")).astype("<f4").tobytes()


def has_way_back(data: Buffer) -> bool:
    """Return whether F32 and their reciprocals are finite, and those of these are the same."""
    there = reciprocals(data)
    is_finite = all(np.isfinite(np.frombuffer(one, "<f4")).all() for one in (data, there))
    return is_finite and reciprocals(there) == bytes(data)


def places_of(grid: Grid, rows: range) -> Places:
    """Return the scale row of each row, counted from that of the first."""
    numbers = np.arange(rows.start, rows.stop, dtype=np.int64)
    matrix, inside = np.divmod(numbers, max(grid.rows, 1))
    found: Places = matrix * grid.down + inside // grid.height
    return found - found[:1] if len(found) else found


def groups_of(order: Buffer, grid: Grid) -> Codes | None:
    """Return the group of each column (act-order), or None where they are as usual.

    Args:
        order: the group of each column, I32; all -1 where none was chosen.

    Raises:
        InputError: the groups do not all have their number of columns.
    """
    found, usual = np.frombuffer(order, "<i4"), np.arange(grid.columns) // grid.width
    if np.array_equal(found, usual) or bool((found == -1).all()):
        return None
    if not np.array_equal(np.sort(found), usual):
        raise InputError(
            f"`weight_g_idx` puts {grid.columns} columns into groups other than "
            f"{grid.across} of {grid.width}",
            code="E_QUANT_PAIR",
        )
    return found


def unpack(words: Bits, bits: int, columns: int, kernel: Kernel | None) -> Codes:
    """Return codes of shape (rows, columns) of rows of words, lowest bits first.

    Args:
        words: of shape (rows, words of a row), at least as many as the codes need.
    """
    rows, count = words.shape
    if not words.size:
        return np.zeros((rows, columns), np.uint8)
    if bits == _LANE:
        return words.view(np.uint8)[:, :columns]
    if kernel is not None and bits in _FAST_BITS and not count * 32 // bits % _FAST_CODES:
        return kernel.unpack(floats.behaved(words), bits).reshape(rows, -1)[:, :columns]
    nbytes = -(-columns // _LANE) * bits
    stream = np.zeros((rows, nbytes), np.uint8)
    given = words.view(np.uint8)[:, :nbytes]
    stream[:, : given.shape[1]] = given
    codes = packing.unpack_stream(stream.reshape(-1, bits), bits)
    return codes.reshape(rows, -1)[:, :columns]


def unpack_padded(words: Bits, bits: int) -> Codes:
    """Return all codes of rows of words that hold as many codes as fit in whole."""
    shifts = np.arange(0, 32 - bits + 1, bits, dtype=np.uint32)
    codes = (words[:, :, None] >> shifts) & np.uint32((1 << bits) - 1)
    return codes.astype(np.uint8).reshape(len(words), -1)


def check(spec: Needed, kernel: Kernel) -> None:
    """Compare a kernel with numpy on some rows.

    Raises:
        ArithmeticError: they differ.
    """
    rng = np.random.default_rng(1)
    width = 1 if spec.is_line else 24
    words = rng.integers(0, 1 << 32, (8, 3 * max(spec.bits, _LANE)), np.uint32)
    if spec.bits:
        codes = unpack(words, spec.bits, 96, kernel)
        same = np.array_equal(codes, unpack(words, spec.bits, 96, None))
    else:
        codes, same = words.view(np.uint8).reshape(8, -1), True
    across = -(-codes.shape[1] // width)
    scales = rng.standard_normal((4, across), np.float32)
    zeros = rng.integers(0, 99, (4, across)).astype(np.float32) if spec.has_zeros else None
    places = np.arange(8, dtype=np.int64) // 2
    made = [
        decode(ScaledCodes(codes, spec.kind, scales, width, zeros), places, spec.dtype, way)
        for way in (kernel, None)
    ]
    if not same or bytes(made[0]) != bytes(made[1]):
        raise ArithmeticError(f"the kernel that decodes {spec.kind} differs from numpy")
