"""The values of bitsandbytes' arrays: by a kernel where there is one, else in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from importer.codecs.reference import Bits, Codes, Floats, floats
from importer.codecs.reference.bitsandbytes import (
    dequantize,
    dequantize_rows,
    magnitudes,
    unpack,
)
from store.fs import Buffer

_PIECE: Final = 1 << 18
"""Values that numpy works on at a time, so that intermediate arrays take a few MiB."""


class Form(Protocol):
    """What this module needs to know of a decoder."""

    @property
    def block_size(self) -> int: ...  # noqa: D102
    @property
    def value_dtype(self) -> str: ...  # noqa: D102
    @property
    def nested(self) -> tuple[int, float] | None: ...  # noqa: D102


class Kernel(Protocol):
    """The arithmetic, compiled; a module implements it."""

    def decode(
        self, data: Codes, largest: Floats, book: Floats, block_size: int, dtype: str
    ) -> Bits:
        """Return the values of whole blocks, all finite; `block_size` is even."""
        ...


def decode(
    arrays: Sequence[Buffer],
    count: int,
    form: Form,
    kernel: Kernel | None,
) -> Buffer:
    """Return the values of `count` elements from the first of a block on.

    Args:
        arrays: codes, magnitudes, code book, state, and scales and code book of magnitudes.
    """
    data = floats.behaved(np.frombuffer(arrays[0], np.uint8))
    book = np.array(np.frombuffer(arrays[2], "<f4"))
    with np.errstate(all="ignore"):  # hostile magnitudes
        largest = _largest(form, arrays)
        values = _decode(form, data, largest, book, kernel)
    return values[:count].view(np.uint8).data


def decode_rows(arrays: Sequence[Buffer], columns: int) -> Buffer:
    """Return the values of whole rows of int8."""
    codes = np.frombuffer(arrays[0], np.int8).reshape(-1, max(columns, 1))
    largest = np.frombuffer(arrays[1], "<f4")
    with np.errstate(all="ignore"):
        values = dequantize_rows(codes, largest)
    if not np.isfinite(largest).all():
        values[np.isnan(values)] = np.nan  # of which processors make several
    return values.reshape(-1).view(np.uint8).data


def check(kernel: Kernel, dtype: str) -> None:
    """Compare a kernel with numpy on some blocks.

    Raises:
        ArithmeticError: they differ.
    """
    random = np.random.default_rng(7)  # any bytes are codes
    for size in (32, 128):
        data = random.integers(0, 256, 50 * size, np.uint8)
        largest = random.random(len(data) * 2 // size, np.float32)
        book = random.random(16, np.float32)
        fast = kernel.decode(data, largest, book, size, dtype)
        if not np.array_equal(fast, _in_numpy(data, largest, book, size, dtype)):
            raise ArithmeticError(
                f"the kernel that decodes 4 bits to {dtype} differs from numpy"
            )


def _largest(form: Form, arrays: Sequence[Buffer]) -> Floats:
    if form.nested is None:
        return np.array(np.frombuffer(arrays[1], "<f4"))
    codes = np.frombuffer(arrays[1], np.uint8)
    scales, book = (np.frombuffer(array, "<f4") for array in arrays[4:])
    return magnitudes(codes, scales, book, *form.nested)


def _decode(
    form: Form, data: Codes, largest: Floats, book: Floats, kernel: Kernel | None
) -> Bits:
    size, dtype = form.block_size, form.value_dtype
    # What is NaN is not the same on every machine, and blocks may begin within a byte.
    is_ordinary = np.isfinite(largest).all() and np.isfinite(book).all() and size % 2 == 0
    if kernel is None or not is_ordinary:
        return _in_numpy(data, largest, book, size, dtype)
    return kernel.decode(data, largest, book, size, dtype)


def _in_numpy(data: Codes, largest: Floats, book: Floats, size: int, dtype: str) -> Bits:
    codes = unpack(data)
    values = np.empty(len(codes), floats.STORED[dtype])
    step = max(1, _PIECE // size)
    for block in range(0, len(largest), step):
        some = largest[block : block + step]
        part = codes[block * size : (block + len(some)) * size]
        padded = np.zeros(len(some) * size, np.uint8)  # the last block may be short
        padded[: len(part)] = part
        made = floats.narrow(
            dequantize(padded.reshape(-1, size), some, book).reshape(-1), dtype
        )
        values[block * size : block * size + len(part)] = made[: len(part)]
    return values
