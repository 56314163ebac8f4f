"""What dtypes say about weights: floats, integers, floats of 8 bits."""

from __future__ import annotations

from typing import Final

FP8: Final = frozenset({"F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"})
_INTEGERS: Final = frozenset({"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"})


def is_floating(dtype: str) -> bool:
    """Return whether elements of a dtype are real numbers, and so may be parameters."""
    return dtype not in _INTEGERS


def is_plain(dtype: str | None) -> bool:
    """Return whether a weight of this dtype, if there is one, is neither packed nor FP8."""
    return dtype is None or (is_floating(dtype) and dtype not in FP8)
