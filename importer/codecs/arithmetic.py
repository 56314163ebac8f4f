"""Encode and decode groups: by a kernel where there is one, and in numpy what it leaves."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from importer.codecs.base import Encoded, Operation
from importer.codecs.kernels import Kernel
from importer.codecs.reference import Arithmetic, Bits, Floats, floats, packing
from importer.codecs.spec import ColumnWeights, QuantSpec
from store.fs import Buffer

PIECE: Final = 1 << 15
"""Values that numpy works on at a time, so that intermediate arrays take a few MiB at most."""

_WORD: Final = 32
_PROBE: Final = 10_000
_PROBE_ROW: Final = 3
"""Groups of a row of the probe, where columns differ in importance."""

_Arrays = list[npt.NDArray[Any]]


class GroupCodec(Protocol):
    """What this module needs to know about a codec."""

    @property
    def spec(self) -> QuantSpec: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    @property
    def value_dtype(self) -> str: ...  # noqa: D102
    @property
    def scale_parts(self) -> tuple[tuple[str, str], ...]: ...  # noqa: D102
    @property
    def arithmetic(self) -> Arithmetic: ...  # noqa: D102


def encode(
    codec: GroupCodec,
    values: Buffer,
    kernel: Kernel | None,
    importance: ColumnWeights | None = None,
) -> Encoded:
    """Quantize the groups in `values`, bytes of `codec.dtype`.

    Args:
        importance: of columns; the values then begin with a row.
    """
    source = floats.read(values, codec.dtype).reshape(-1, codec.spec.group_size)
    weights = None if importance is None else _weights(importance, codec.spec.group_size)
    parts, nonfinite = _encode(codec, source, kernel, weights)
    return Encoded(tuple(map(_bytes, parts)), nonfinite)


def decode(codec: GroupCodec, parts: Sequence[Buffer], kernel: Kernel | None) -> Buffer:
    """Return the values of the groups in `parts`, as bytes of `codec.value_dtype`.

    Raises:
        ValueError: there are not as many scales as groups.
    """
    spec = codec.spec
    kinds = [floats.STORED["U32"], *(floats.STORED[kind] for _, kind in codec.scale_parts)]
    words, *scales = (
        floats.behaved(np.frombuffer(part, kind))
        for part, kind in zip(parts, kinds, strict=True)
    )
    words = words.reshape(-1, spec.group_size * spec.bits // _WORD)
    # A kernel gets pointers, and looks at a single length.
    if any(len(scale) != len(words) for scale in scales):
        raise ValueError(f"{spec.name}: {len(words)} groups with other numbers of scales")
    return _bytes(_decode(codec, words, scales, kernel))


def packed(codes: Buffer, spec: QuantSpec) -> memoryview:
    """Return codes, one to a byte, as words of a type; whole groups."""
    groups = np.frombuffer(codes, np.uint8).reshape(-1, spec.group_size)
    return _bytes(packing.pack(groups, spec.bits))


def probe(dtype: str, group_size: int) -> Bits:
    """Return groups of bits of `dtype` on which kernels are compared with numpy."""
    # Mantissas and signs are from a multiplication, magnitudes as weights have them.
    mixed = np.arange(_PROBE // group_size * group_size, dtype=np.uint32)
    mixed *= np.uint32(2654435761)
    values = np.ldexp(
        mixed.view(np.int32).astype(np.float32), -32 - (mixed >> 4 & 7).astype(int)
    )
    return floats.narrow(values.astype(np.float32), dtype).reshape(-1, group_size)


@functools.lru_cache(64)
def _weights(importance: ColumnWeights, group_size: int) -> Floats:
    """Return the weights of each group of a row: all of 1 where nothing of it counts."""
    values = np.frombuffer(importance.values, "<f4").astype(np.float32)
    groups = values.reshape(-1, group_size)
    # By the largest of the group and not of the row, or the squares of some would be subnormal.
    largest = groups.max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        return np.where(largest > 0, groups / largest, np.float32(1))


def check(
    operation: Operation, codec: GroupCodec, kernel: Kernel, *, is_weighted: bool = False
) -> None:
    """Compare a kernel with numpy on some groups.

    Raises:
        ArithmeticError: they differ.
    """
    source = probe(codec.value_dtype, codec.spec.group_size)
    weights = None
    if is_weighted:
        weights = np.abs(floats.widen(source[:_PROBE_ROW], codec.value_dtype))
    slow, _ = _encode(codec, source, None, weights)
    if operation is Operation.ENCODE:
        fast, _ = _encode(codec, source, kernel, weights)
    else:
        words, *scales = slow
        fast = [_decode(codec, words, scales, kernel)]
        slow = [_decode(codec, words, scales, None)]
    if not all(map(np.array_equal, fast, slow)):
        raise ArithmeticError(
            f"the kernel that {operation}s {codec.spec.name} differs from numpy"
        )


def _encode(
    codec: GroupCodec, source: Bits, kernel: Kernel | None, weights: Floats | None
) -> tuple[_Arrays, int]:
    spec, dtype = codec.spec, codec.value_dtype
    words = np.empty((len(source), spec.group_size * spec.bits // _WORD), np.uint32)
    scales = [np.empty(len(source), floats.STORED[kind]) for _, kind in codec.scale_parts]
    # Only where scales are searched for is anything weighed.
    more: tuple[Floats, ...] = () if weights is None else (weights,)
    if kernel is None:
        left = np.arange(len(source))
    else:
        left = kernel.encode(source, dtype, spec, words, scales, *more).nonzero()[0]
    nonfinite = 0
    for piece in _pieces(left, spec.group_size):
        bits = source[piece]
        nonfinite += floats.count_nonfinite(bits, dtype)
        of_piece = (rows[piece % len(rows)] for rows in more)
        with np.errstate(all="ignore"):
            values = floats.widen(bits, dtype)
            codes, *small = codec.arithmetic.encode(values, dtype, spec, *of_piece)
        words[piece] = packing.pack(codes, spec.bits)
        for scale, found in zip(scales, small, strict=True):
            scale[piece] = found
    return [words, *scales], nonfinite


def _decode(codec: GroupCodec, words: Bits, scales: _Arrays, kernel: Kernel | None) -> Bits:
    spec, dtype = codec.spec, codec.value_dtype
    values = np.empty((len(words), spec.group_size), floats.STORED[dtype])
    if kernel is None:
        left = np.arange(len(words))
    else:
        left = kernel.decode(words, scales, dtype, spec, values).nonzero()[0]
    for piece in _pieces(left, spec.group_size):
        codes = packing.unpack(words[piece], spec.bits)
        small = [scale[piece] for scale in scales]
        with np.errstate(all="ignore"):
            decoded = codec.arithmetic.decode(codes, small, dtype, spec)
            values[piece] = floats.narrow(decoded, dtype)
    return values


def _pieces(groups: npt.NDArray[np.intp], group_size: int) -> Iterator[npt.NDArray[np.intp]]:
    step = PIECE // group_size
    for start in range(0, len(groups), step):
        yield groups[start : start + step]


def _bytes(array: npt.NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
