"""Measure what a codec makes of values, by a kernel or in numpy, to the same bits."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from importer.codecs import kernels, runtime
from importer.codecs.base import Codec, Operation
from importer.codecs.grouped import Grouped
from importer.codecs.kernels import Bounds, Summing
from importer.codecs.kernels.function import NotKeptError
from importer.codecs.metrics import Deviation
from importer.codecs.reference import Bits, floats
from importer.codecs.reference.metrics import Sums, add
from importer.codecs.reference.minifloats import E4M3_VALUES, exponents_of, power_of_two
from importer.codecs.registry import prepare as prepare_codecs
from importer.codecs.spec import Mode
from store.fs import Buffer

_GROUP: Final = 32
_FLOAT_EDGES: Final[Mapping[Mode, int]] = MappingProxyType(
    {Mode.NVFP4: 6 + 1, Mode.MXFP4: 6 + 1, Mode.MXFP8: 448 + 16}
)
"""The largest code, and half of the step to it."""

_ready: dict[str, Summing] = {}
"""By the dtype of the values."""


def prepare(work: Mapping[Codec, int], announce: Callable[[], None]) -> str | None:
    """Make measuring fast, decoding included: `registry.prepare` says how.

    The kernel that sums is used only where those that decode are, and agrees with numpy here
    and now.

    Args:
        work: bytes of the values of each codec.
        announce: called at most once, before kernels are compiled.

    Returns:
        Why there are no kernels, or None.
    """
    once = functools.cache(announce)
    reason = prepare_codecs(work, once, (Operation.DECODE,))
    nbytes: Counter[str] = Counter()
    for codec, its_nbytes in work.items():
        if isinstance(codec, Grouped) and runtime.ready(Operation.DECODE, codec) is not None:
            nbytes[codec.value_dtype] += its_nbytes
    return reason or _prepare(nbytes, once)


def _prepare(nbytes: Mapping[str, int], announce: Callable[[], None]) -> str | None:
    try:
        for dtype in sorted(nbytes.keys() - _ready.keys()):
            kernel = kernels.load_sums()
            with (
                kernels.announced(announce, nbytes[dtype]),
                contextlib.suppress(NotKeptError),
            ):
                _check(dtype, kernel)
                _ready[dtype] = kernel
    except Exception as error:  # noqa: BLE001 - whatever is wrong with numba, numpy is right
        return runtime.reason_of(error)
    return None


class Measure:
    """Compares the values of one tensor with what it was encoded to, piece by piece."""

    def __init__(self, codec: Grouped) -> None:
        """Begin, by kernels where these were prepared."""
        self._codec = codec
        self._sums = Sums()
        self._elements = 0

    def add(self, rows: Buffer, parts: Sequence[Buffer]) -> None:
        """Add a whole number of groups of the source, and what became of them."""
        codec, size = self._codec, self._codec.spec.group_size
        dtype = codec.value_dtype
        source = floats.read(rows, codec.dtype).reshape(-1, size)
        decoded = np.frombuffer(codec.decode(parts), floats.STORED[dtype]).reshape(-1, size)
        self._elements += source.size
        kernel = _ready.get(dtype)
        add_groups = _add if kernel is None else kernel.add
        add_groups(self._sums, source, decoded, dtype, _bounds(codec, parts))

    def result(self) -> Deviation:
        """Give what was found."""
        sums = self._sums
        # One by one: `sum` compensates from Python 3.12 on.
        source, decoded, product, error = (
            functools.reduce(operator.add, lanes) for lanes in sums.lanes.tolist()
        )
        return Deviation(
            self._elements,
            source,
            decoded,
            product,
            error,
            sums.largest,
            sums.clipped,
            sums.zeroed,
        )


def _add(sums: Sums, source: Bits, decoded: Bits, dtype: str, bounds: Bounds) -> None:
    low, high = bounds
    # A multiple of all lanes, so that the order of the sums stays as it is.
    step = runtime.PIECE // source.shape[1]
    with np.errstate(all="ignore"):
        for start in range(0, len(source), step):
            piece = slice(start, start + step)
            values = floats.widen(source[piece], dtype), floats.widen(decoded[piece], dtype)
            add(sums, *values, low[piece], high[piece])


def _check(dtype: str, kernel: Summing) -> None:
    # Of two tensors that have nothing to do with each other, so that all sums are large.
    source, decoded = runtime.probe(dtype, _GROUP), runtime.probe(dtype, _GROUP)[::-1].copy()
    high = np.abs(floats.widen(source, dtype)).mean(axis=1)
    fast, slow = Sums(), Sums()
    kernel.add(fast, source, decoded, dtype, (-high, high))
    _add(slow, source, decoded, dtype, (-high, high))
    if _facts(fast) != _facts(slow):
        raise ArithmeticError(f"the kernel that sums {dtype} differs from numpy")


def _facts(sums: Sums) -> tuple[object, ...]:
    return (sums.lanes.tolist(), sums.largest, sums.clipped, sums.zeroed)


def _bounds(codec: Grouped, parts: Sequence[Buffer]) -> Bounds:
    """From where on a value of each group is clipped, below and above."""
    spec = codec.spec
    scale, *rest = (
        np.frombuffer(part, floats.STORED[kind])
        for part, (_, kind) in zip(parts[1:], codec.companions, strict=True)
    )
    with np.errstate(all="ignore"):
        match spec.mode:
            case Mode.AFFINE:
                (bias,) = (floats.widen(part, codec.value_dtype) for part in rest)
                step = floats.widen(scale, codec.value_dtype)
                end = bias + step * np.float32((1 << spec.bits) - 1)
                half = np.abs(step) / np.float32(2)
                low, high = np.minimum(bias, end) - half, np.maximum(bias, end) + half
                return low.astype(np.float32), high.astype(np.float32)
            case Mode.NVFP4:
                step = E4M3_VALUES[scale]
            case _:
                step = power_of_two(exponents_of(scale))
        edge = np.abs(step) * np.float32(_FLOAT_EDGES[spec.mode])
        return -edge, edge
