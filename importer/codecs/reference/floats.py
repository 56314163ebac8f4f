"""Float formats: exact conversions to float32, and rounding back."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from importer.codecs.reference import Bits, Floats
from importer.codecs.reference.minifloats import E4M3_VALUES
from store.fs import Buffer

STORED: Final[Mapping[str, type[np.unsignedinteger]]] = MappingProxyType(
    {"BF16": np.uint16, "F16": np.uint16, "F32": np.uint32, "U8": np.uint8, "U32": np.uint32}
)
"""The unsigned integer that holds the bits of an element."""

LARGEST: Final[Mapping[str, np.float32]] = MappingProxyType(
    {
        "BF16": np.float32(2**128 - 2**120),
        "F16": np.float32(2**16 - 2**5),
        "F32": np.float32(2**128 - 2**104),
    }
)
"""The largest finite number of each dtype."""
INFINITY: Final[Mapping[str, int]] = MappingProxyType(
    {"BF16": 0x7F80, "F16": 0x7C00, "F32": 0x7F80_0000}
)
"""The bits of each dtype's infinity; those of NaNs are larger, but for signs."""
_Scalar = TypeVar("_Scalar", bound="np.generic[Any]")

_BF16_SHIFT: Final = 16
_BF16_NAN: Final = 0x7FC0


def read(rows: Buffer, dtype: str) -> Bits:
    """Return bytes of `dtype` as elements of the dtype that is quantized.

    F64 is rounded to F32; FP8 becomes BF16, exactly. The result is writable and aligned, a
    view of `rows` where these are: kernels are compiled for one kind of array.
    """
    match dtype:
        case "F64":
            with np.errstate(over="ignore", invalid="ignore"):
                return np.frombuffer(rows, "<f8").astype(np.float32).view(np.uint32)
        case "F8_E4M3":
            return _E4M3_AS_BF16[np.frombuffer(rows, np.uint8)]
        case "F8_E5M2":
            return _E5M2_AS_BF16[np.frombuffer(rows, np.uint8)]
        case _:
            return behaved(np.frombuffer(rows, STORED[dtype]))


def behaved(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return an array as kernels are compiled for it: contiguous, aligned and writable.

    It is the array itself wherever possible, and a copy otherwise.
    """
    # `np.require` looks at names of flags, a call for each: 6 us of every chunk of 1 MiB.
    return array if array.flags.carray else np.require(array, requirements=["C", "A", "W"])


def count_nonfinite(bits: Bits, dtype: str) -> int:
    """Count NaNs and infinities."""
    infinity = bits.dtype.type(INFINITY[dtype])
    return int(np.count_nonzero((bits & infinity) == infinity))


def widen(bits: Bits, dtype: str) -> Floats:
    """Return the values of `bits`, exactly."""
    match dtype:
        case "BF16":
            return (bits.astype(np.uint32) << _BF16_SHIFT).view(np.float32)
        case "F16":
            return bits.view(np.float16).astype(np.float32)
        case _:
            return bits.view(np.float32)


def narrow(values: Floats, dtype: str) -> Bits:
    """Round to `dtype`, to the nearest and ties to even, and return the bits."""
    match dtype:
        case "BF16":
            bits = values.view(np.uint32)
            odd = (bits >> _BF16_SHIFT) & 1
            rounded = ((bits + (0x7FFF + odd)) >> _BF16_SHIFT).astype(np.uint16)
            return np.where(np.isnan(values), np.uint16(_BF16_NAN), rounded)
        case "F16":
            with np.errstate(over="ignore"):
                return values.astype(np.float16).view(np.uint16)
        case _:
            return values.view(np.uint32)


def rounded(values: Floats, dtype: str) -> Floats:
    """Return `values` rounded to `dtype`, as float32.

    One operation in float32, rounded, is the operation in `dtype`: float32 has more than
    twice the digits of BF16 and F16, so that rounding twice is rounding once.
    """
    return values if dtype == "F32" else widen(narrow(values, dtype), dtype)


_E4M3_AS_BF16: Final = narrow(E4M3_VALUES, "BF16")
# E5M2 is the upper half of an F16.
_E5M2_AS_BF16: Final = narrow(
    widen(np.arange(256, dtype=np.uint16) << np.uint16(8), "F16"), "BF16"
)
