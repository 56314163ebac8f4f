"""Values to GGML's blocks by compiled code, where they are finite and of usual sizes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Array, Flag, Memory, flag
from importer.codecs.kernels.logarithms import rounded_up
from importer.codecs.reference import Bits, Floats
from importer.codecs.reference.ggml import four_bits
from importer.codecs.reference.ggml.blocks import LAYOUTS

_PIECE: Final = 1 << 15
"""Values that are widened at a time, so that they stay in the second-level cache."""
_BLOCK: Final = 256
_SMALL: Final = 32

_widen: Final = Function("ggml.tiles", "widen_all")
_with_minima: Final = Function("ggml.to_minima", "encode")
_q3_k: Final = Function("ggml.to_signed", "q3_k")
_q6_k: Final = Function("ggml.to_signed", "q6_k")
_q8_0: Final = Function("ggml.to_integers", "q8_0")
_q4_0_to_q5_1: Final = Function("ggml.to_integers", "q4_0_to_q5_1")
_weighted: Final = Function("ggml.to_integers", "weighted")
_tq1_0: Final = Function("ggml.to_integers", "tq1_0")
_tq2_0: Final = Function("ggml.to_integers", "tq2_0")
_iq4: Final = Function("ggml.to_four_bits", "iq4")
_mxfp4: Final = Function("ggml.to_four_bits", "mxfp4")


class _Scratch(threading.local):
    """A thread's memory, some 25 KB: compiled/ggml/scratch.py says what for."""

    def __init__(self) -> None:
        self.lanes = Memory(np.empty((3, 32, 16), np.float32))
        self.found = Memory(np.empty((4, 16), np.float32))
        self.numbers = Memory(np.empty((8, _BLOCK), np.float32))
        self.integers = Memory(np.empty((2, _BLOCK), np.uint8))
        codes = np.empty(16 * _BLOCK, np.uint8)
        self.flat = Memory(codes)
        self.codes: Mapping[int, Memory] = MappingProxyType(
            {length: Memory(codes.reshape(-1, length)) for length in (16, 32)}
        )


_scratch: Final = _Scratch()


class _Work(NamedTuple):
    """Rows to quantize.

    Attributes:
        rows: of shape (rows, columns); a row is a block where all columns count alike.
        importance: of each column, or None.
        blocks: of shape (blocks, bytes of a block), to be filled.
        left: for each row, to become 1 where numpy has to do it.
    """

    rows: Floats
    importance: Floats | None
    blocks: Array
    left: Array

    def groups(self, length: int) -> Floats:
        """Return the values in groups."""
        return self.rows.reshape(-1, length)

    @property
    def weights(self) -> tuple[Array, Flag]:
        """The importance, or anything, and whether there is one."""
        if self.importance is None:
            return _NONE, flag(False)
        return self.importance, flag(True)


_NONE: Final = np.ones(1, np.float32)


def encode(
    name: str, source: Bits, dtype: str, importance: Floats | None, blocks: Array
) -> Array:
    """Fill `blocks`; return a flag for each row that is not done.

    Args:
        name: of the type, such as `Q4_K`.
        source: bits of `dtype`, of shape (rows, columns), writable and contiguous; a row is a
            block where all columns count alike.
        blocks: of shape (rows, bytes of a row).
    """
    left = np.empty(len(source), np.uint8)
    columns = source.shape[1]
    step = len(source) if dtype == "F32" else max(1, _PIECE // columns)
    room = np.empty((min(step, len(source)), columns), np.float32) if dtype != "F32" else None
    for start in range(0, len(source), max(step, 1)):
        piece = slice(start, start + step)
        own = source[piece]
        if room is None:
            rows = own.view(np.float32)
        else:
            rows = room[: len(own)]
            _widen(own.reshape(-1), flag(dtype == "F16"), rows.reshape(-1))
        nbytes, own_blocks = _NBYTES[name], blocks[piece]
        _ENCODE[name](_Work(rows, importance, own_blocks.reshape(-1, nbytes), left[piece]))
    return left


def _to_minima(last_code: int, work: _Work) -> None:
    is_two_bits = last_code == 3  # noqa: PLR2004 - Q2_K
    length = 16 if is_two_bits else 32
    _with_minima(
        work.groups(length),
        work.groups(_BLOCK),
        work.rows,
        *work.weights,
        flag(is_two_bits),
        last_code,
        _scratch.lanes,
        _scratch.found,
        _scratch.numbers,
        _scratch.codes[length],
        _scratch.flat,
        _scratch.integers,
        work.blocks,
        work.left,
    )


def _to_q3_k(work: _Work) -> None:
    _q3_k(
        work.groups(16),
        work.groups(_BLOCK),
        work.rows,
        *work.weights,
        _scratch.lanes,
        _scratch.found,
        _scratch.numbers,
        _scratch.codes[16],
        _scratch.flat,
        _scratch.integers,
        work.blocks,
        work.left,
    )


def _to_q6_k(work: _Work) -> None:
    _q6_k(
        work.groups(16),
        work.rows,
        *work.weights,
        _scratch.lanes,
        _scratch.found,
        _scratch.numbers,
        _scratch.codes[16],
        _scratch.flat,
        work.blocks,
        work.left,
    )


def _to_integers(has_minimum: Flag, has_fifth_bit: Flag, work: _Work) -> None:
    if work.importance is None:
        _q4_0_to_q5_1(
            work.rows, has_minimum, has_fifth_bit, _scratch.flat, work.blocks, work.left
        )
        return
    _weighted(
        work.groups(_SMALL),
        work.rows,
        work.importance,
        has_minimum,
        has_fifth_bit,
        _scratch.lanes,
        _scratch.found,
        _scratch.numbers,
        np.empty(len(work.rows), np.float32),
        _scratch.codes[_SMALL],
        work.blocks,
        work.left,
    )


def _to_iq4(is_super: Flag, work: _Work) -> None:
    _iq4(
        work.groups(_SMALL),
        work.groups(_BLOCK if is_super else _SMALL),
        work.rows,
        *work.weights,
        is_super,
        _iq4_numbers(),
        _iq4_middles(),
        _scratch.lanes,
        _scratch.found,
        _scratch.numbers,
        _scratch.codes[_SMALL],
        work.blocks,
        work.left,
    )


@functools.cache
def _iq4_numbers() -> Memory:
    return Memory(four_bits.IQ4_VALUES.astype(np.float32))


@functools.cache
def _iq4_middles() -> Memory:
    numbers = four_bits.IQ4_VALUES.astype(np.float32)
    return Memory((numbers[1:] + numbers[:-1]) / np.float32(2))


_ENCODE: Final[Mapping[str, Callable[[_Work], None]]] = MappingProxyType(
    {
        "Q8_0": lambda work: _q8_0(work.rows, work.blocks, work.left),
        "Q4_0": functools.partial(_to_integers, None, None),
        "Q4_1": functools.partial(_to_integers, True, None),
        "Q5_0": functools.partial(_to_integers, None, True),
        "Q5_1": functools.partial(_to_integers, True, True),
        "Q2_K": functools.partial(_to_minima, 3),
        "Q3_K": _to_q3_k,
        "Q4_K": functools.partial(_to_minima, 15),
        "Q5_K": functools.partial(_to_minima, 31),
        "Q6_K": _to_q6_k,
        "IQ4_NL": functools.partial(_to_iq4, None),
        "IQ4_XS": functools.partial(_to_iq4, True),
        "MXFP4": lambda work: _mxfp4(
            work.rows, rounded_up(), _scratch.flat, work.blocks, work.left
        ),
        "TQ1_0": lambda work: _tq1_0(work.rows, _scratch.flat, work.blocks, work.left),
        "TQ2_0": lambda work: _tq2_0(work.rows, _scratch.flat, work.blocks, work.left),
    }
)
_NBYTES: Final = MappingProxyType({name: LAYOUTS[name].itemsize for name in _ENCODE})
