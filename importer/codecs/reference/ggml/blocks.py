"""What lies where in a block of each type of GGML, and how small numbers are packed there.

The fields are those of the structures in ggml-common.h of llama.cpp; all are little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Floats

Blocks = npt.NDArray[Any]
"""Blocks as bytes, or as records of a layout."""
Integers = npt.NDArray[np.integer[Any]]

_BYTE: Final = 8


class Unpacked(NamedTuple):
    """Blocks, taken apart: a value is its code times the scale of its group, plus the offset.

    Attributes:
        codes: int8 or uint8 of shape (blocks, elements); float32 where they are not integers.
        scales: of shape (blocks, groups of a block).
        offsets: as `scales`; None where there are none: adding 0 would change the sign of -0.
    """

    codes: npt.NDArray[Any]
    scales: Floats
    offsets: Floats | None = None


_FIELDS: Final[Mapping[str, list[Any]]] = MappingProxyType(
    {
        "Q1_0": [("d", "<f2"), ("qs", "u1", 16)],
        "Q2_0": [("d", "<f2"), ("qs", "u1", 16)],
        "Q4_0": [("d", "<f2"), ("qs", "u1", 16)],
        "Q4_1": [("d", "<f2"), ("m", "<f2"), ("qs", "u1", 16)],
        "Q5_0": [("d", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)],
        "Q5_1": [("d", "<f2"), ("m", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)],
        "Q8_0": [("d", "<f2"), ("qs", "i1", 32)],
        # s is d times the sum of qs: activations come with it, and nothing needs it here.
        "Q8_1": [("d", "<f2"), ("s", "<f2"), ("qs", "i1", 32)],
        "Q8_K": [("d", "<f4"), ("qs", "i1", 256), ("bsums", "<i2", 16)],
        "TQ1_0": [("qs", "u1", 48), ("qh", "u1", 4), ("d", "<f2")],
        "TQ2_0": [("qs", "u1", 64), ("d", "<f2")],
        "Q2_K": [("scales", "u1", 16), ("qs", "u1", 64), ("d", "<f2"), ("dmin", "<f2")],
        "Q3_K": [
            ("hmask", "u1", 32),
            ("qs", "u1", 64),
            ("scales", "u1", 12),
            ("d", "<f2"),
        ],
        "Q4_K": [("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qs", "u1", 128)],
        "Q5_K": [
            ("d", "<f2"),
            ("dmin", "<f2"),
            ("scales", "u1", 12),
            ("qh", "u1", 32),
            ("qs", "u1", 128),
        ],
        "Q6_K": [("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), ("d", "<f2")],
        "IQ4_NL": [("d", "<f2"), ("qs", "u1", 16)],
        "IQ4_XS": [
            ("d", "<f2"),
            ("scales_h", "<u2"),
            ("scales_l", "u1", 4),
            ("qs", "u1", 128),
        ],
        "MXFP4": [("e", "u1"), ("qs", "u1", 16)],
        "NVFP4": [("d", "u1", 4), ("qs", "u1", 32)],
        "IQ1_S": [("d", "<f2"), ("qs", "u1", 32), ("qh", "<u2", 8)],
        "IQ1_M": [("qs", "u1", 32), ("qh", "u1", 16), ("scales", "<u2", 4)],
        "IQ2_XXS": [("d", "<f2"), ("qs", [("points", "u1", 4), ("rest", "<u4")], 8)],
        "IQ2_XS": [("d", "<f2"), ("qs", "<u2", 32), ("scales", "u1", 8)],
        "IQ2_S": [
            ("d", "<f2"),
            ("qs", "u1", 32),
            ("signs", "u1", 32),
            ("qh", "u1", 8),
            ("scales", "u1", 8),
        ],
        "IQ3_XXS": [("d", "<f2"), ("qs", "u1", 64), ("rest", "<u4", 8)],
        "IQ3_S": [
            ("d", "<f2"),
            ("qs", "u1", 64),
            ("qh", "u1", 8),
            ("signs", "u1", 32),
            ("scales", "u1", 4),
        ],
    }
)

LAYOUTS: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {name: np.dtype(fields) for name, fields in _FIELDS.items()}
)
"""The fields of a block of each type that is not plain."""


def split(packed: Integers, bits: int) -> Integers:
    """Return the numbers of `bits` bits of n bytes, with the first n in the lowest bits.

    Returns:
        an array of shape (..., 8 / bits * n).
    """
    return np.concatenate(_fields(packed, bits), axis=-1)


def adjacent(packed: Integers, bits: int) -> Integers:
    """Return the numbers of `bits` bits of n bytes, those of a byte next to each other.

    Returns:
        an array of shape (..., n * 8 / bits), the lowest bits of each byte first.
    """
    return np.stack(_fields(packed, bits), axis=-1).reshape(*packed.shape[:-1], -1)


def join(numbers: Integers, bits: int, *, is_adjacent: bool = False) -> Integers:
    """Undo `split` or, where the numbers of a byte are next to each other, `adjacent`."""
    outer, count = numbers.shape[:-1], _BYTE // bits
    if is_adjacent:
        fields = numbers.reshape(*outer, -1, count)
    else:
        fields = numbers.reshape(*outer, count, -1).swapaxes(-1, -2)
    shifts = np.arange(0, _BYTE, bits, dtype=np.uint8)
    packed: Integers = np.bitwise_or.reduce(fields << shifts, axis=-1)
    return packed


def rows(numbers: npt.NDArray[Any], *shape: int) -> npt.NDArray[Any]:
    """Return the numbers of each block in rows: of shape (blocks, *shape)."""
    return numbers.reshape(len(numbers), *shape)


def widened(halves: Blocks) -> Floats:
    """Return F16 numbers, one or more of each block, as float32 of shape (blocks, numbers)."""
    return halves.astype(np.float32).reshape(len(halves), -1)


def _fields(packed: Integers, bits: int) -> list[Integers]:
    mask = np.uint8((1 << bits) - 1)
    return [(packed >> np.uint8(shift)) & mask for shift in range(0, _BYTE, bits)]
