"""Encode and decode bytes: by a kernel where one is ready, and what it leaves in numpy."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from importer.codecs import kernels
from importer.codecs.base import Encoded, Operation
from importer.codecs.kernels import Kernel
from importer.codecs.kernels.function import NotKeptError
from importer.codecs.reference import Arithmetic, Bits, floats, packing
from importer.codecs.spec import Mode, QuantSpec
from store.fs import Buffer

PIECE: Final = 1 << 15
"""Values that numpy works on at a time: some MiB of intermediate arrays, whatever comes."""

_WORD: Final = 32
_PROBE: Final = 10_000

_Arrays = list[npt.NDArray[Any]]
_Key = tuple[Operation, Mode, int, str]
_ready: dict[_Key, Kernel] = {}


class Family(Protocol):
    """What the engine asks of a codec."""

    @property
    def spec(self) -> QuantSpec: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    @property
    def value_dtype(self) -> str: ...  # noqa: D102
    @property
    def companions(self) -> tuple[tuple[str, str], ...]: ...  # noqa: D102
    @property
    def arithmetic(self) -> Arithmetic: ...  # noqa: D102


_Family = TypeVar("_Family", bound=Family)


def prepare(
    work: Mapping[_Family, int],
    announce: Callable[[], None],
    operations: Collection[Operation] = tuple(Operation),
) -> str | None:
    """Load kernels, or compile those that have much to do and are not kept on this machine.

    A kernel is used only if it agrees with numpy here and now.

    Args:
        work: bytes that each family will read or write, as in `registry.prepare`.
        announce: called at most once, before compiling, which takes seconds.

    Returns:
        Why there are no kernels, or None.
    """
    missing: dict[_Key, tuple[_Family, int]] = {}
    for family, nbytes in work.items():
        for key in (_key(operation, family) for operation in operations):
            if key not in _ready:
                missing[key] = family, nbytes + missing.get(key, (family, 0))[1]
    once = functools.cache(announce)
    try:
        for key, (family, nbytes) in missing.items():
            kernel = kernels.load(family.spec.mode)
            with kernels.announced(once, nbytes), contextlib.suppress(NotKeptError):
                _check(key[0], family, kernel)
                _ready[key] = kernel
    except Exception as error:  # noqa: BLE001 - whatever is wrong with numba, numpy is right
        return reason_of(error)
    return None


def reason_of(error: Exception) -> str:
    """Say in one line why there are no kernels."""
    what = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {what}"


def ready(operation: Operation, family: Family) -> Kernel | None:
    """Give the kernel for `family`, if it was prepared for `operation`."""
    return _ready.get(_key(operation, family))


def encode(family: Family, rows: Buffer, kernel: Kernel | None) -> Encoded:
    """Quantize the groups in `rows`."""
    source = floats.read(rows, family.dtype).reshape(-1, family.spec.group_size)
    parts, nonfinite = _encode(family, source, kernel)
    return Encoded(tuple(map(_bytes, parts)), nonfinite)


def decode(family: Family, parts: Sequence[Buffer], kernel: Kernel | None) -> Buffer:
    """Give the values that groups stand for."""
    spec = family.spec
    kinds = [floats.STORED["U32"], *(floats.STORED[kind] for _, kind in family.companions)]
    words, *companions = (
        # As kernels are compiled for them: see `floats.read`.
        np.require(np.frombuffer(part, kind), requirements=["C", "A", "W"])
        for part, kind in zip(parts, kinds, strict=True)
    )
    words = words.reshape(-1, spec.group_size * spec.bits // _WORD)
    # A kernel gets pointers, and looks at one length alone.
    if any(len(companion) != len(words) for companion in companions):
        raise ValueError(f"{spec.name}: {len(words)} groups with other numbers of scales")
    return _bytes(_decode(family, words, companions, kernel))


def probe(dtype: str, group_size: int) -> Bits:
    """Give groups of bits of `dtype` on which kernels are compared with numpy."""
    # Any numbers: mantissas and signs from a multiplication, sizes as weights have them.
    mixed = np.arange(_PROBE // group_size * group_size, dtype=np.uint32)
    mixed *= np.uint32(2654435761)
    values = np.ldexp(
        mixed.view(np.int32).astype(np.float32), -32 - (mixed >> 4 & 7).astype(int)
    )
    return floats.narrow(values.astype(np.float32), dtype).reshape(-1, group_size)


def _key(operation: Operation, family: Family) -> _Key:
    # One kernel serves all group sizes; for some bits other code is compiled.
    return operation, family.spec.mode, family.spec.bits, family.value_dtype


def _encode(family: Family, source: Bits, kernel: Kernel | None) -> tuple[_Arrays, int]:
    spec, dtype = family.spec, family.value_dtype
    words = np.empty((len(source), spec.group_size * spec.bits // _WORD), np.uint32)
    companions = [np.empty(len(source), floats.STORED[kind]) for _, kind in family.companions]
    if kernel is None:
        left = np.arange(len(source))
    else:
        left = np.flatnonzero(kernel.encode(source, dtype, spec, words, companions))
    nonfinite = 0
    for piece in _pieces(left, spec.group_size):
        bits = source[piece]
        nonfinite += floats.count_nonfinite(bits, dtype)
        with np.errstate(all="ignore"):
            codes, *small = family.arithmetic.encode(floats.widen(bits, dtype), dtype, spec)
        words[piece] = packing.pack(codes, spec.bits)
        for companion, values in zip(companions, small, strict=True):
            companion[piece] = values
    return [words, *companions], nonfinite


def _decode(family: Family, words: Bits, companions: _Arrays, kernel: Kernel | None) -> Bits:
    spec, dtype = family.spec, family.value_dtype
    values = np.empty((len(words), spec.group_size), floats.STORED[dtype])
    if kernel is None:
        left = np.arange(len(words))
    else:
        left = np.flatnonzero(kernel.decode(words, companions, dtype, spec, values))
    for piece in _pieces(left, spec.group_size):
        codes = packing.unpack(words[piece], spec.bits)
        small = [companion[piece] for companion in companions]
        with np.errstate(all="ignore"):
            decoded = family.arithmetic.decode(codes, small, dtype, spec)
            values[piece] = floats.narrow(decoded, dtype)
    return values


def _check(operation: Operation, family: Family, kernel: Kernel) -> None:
    source = probe(family.value_dtype, family.spec.group_size)
    slow, _ = _encode(family, source, None)
    if operation is Operation.ENCODE:
        fast, _ = _encode(family, source, kernel)
    else:
        words, *companions = slow
        fast = [_decode(family, words, companions, kernel)]
        slow = [_decode(family, words, companions, None)]
    if not all(map(np.array_equal, fast, slow)):
        raise ArithmeticError(
            f"the kernel that {operation}s {family.spec.name} differs from numpy"
        )


def _pieces(groups: npt.NDArray[np.intp], group_size: int) -> Iterator[npt.NDArray[np.intp]]:
    step = PIECE // group_size
    for start in range(0, len(groups), step):
        yield groups[start : start + step]


def _bytes(array: npt.NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
