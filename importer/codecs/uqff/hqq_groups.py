"""Groups to HQQ: by a kernel where there is one, and in numpy what it leaves."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from importer.codecs.reference import Codes, Floats, hqq
from importer.codecs.reference.hqq import Errors

_BYTE: Final = 8
_PROBE: Final = 300
"""Groups on which a kernel is compared with numpy."""
_PROBE_STEPS: Final = 4


class Groups(NamedTuple):
    """What groups became.

    Attributes:
        packed: of shape (bytes of a group, groups).
        scales: of shape (groups,), as `zeros` is.
    """

    packed: Codes
    scales: Floats
    zeros: Floats


def encode(values: Floats, bits: int, steps: int, kernel: Any | None) -> Groups:  # noqa: ANN401
    """Quantize values of shape (group size, groups)."""
    rows, width = values.shape
    packed = np.empty((rows * bits // _BYTE, width), np.uint8)
    made = Groups(packed, np.empty(width, np.float32), np.empty(width, np.float32))
    left = np.arange(width)
    if kernel is not None:
        left = np.flatnonzero(kernel.encode(values, bits, steps, made))
    if len(left):
        with np.errstate(all="ignore"):
            codes, scales, zeros, _ = hqq.encode(values[:, left], bits, steps)
        packed[:, left] = hqq.pack(codes, bits)
        made.scales[left], made.zeros[left] = scales, zeros
    return made


def errors_of(values: Floats, bits: int, steps: int, kernel: Any | None) -> Errors:  # noqa: ANN401
    """Return the sum of each group's errors before each step, of shape (steps, groups)."""
    errors = np.empty((steps, values.shape[1]))
    left = np.arange(values.shape[1])
    if kernel is not None:
        left = np.flatnonzero(kernel.measure(values, bits, errors))
    if len(left):
        with np.errstate(all="ignore"):
            *_, errors[:, left] = hqq.encode(values[:, left], bits, steps)
    return errors


def check(kernel: Any, bits: int, group_size: int) -> None:  # noqa: ANN401
    """Compare a kernel with numpy on some groups.

    Raises:
        ArithmeticError: they differ.
    """
    mixed = np.arange(_PROBE * group_size, dtype=np.uint32) * np.uint32(2654435761)
    powers = -36 - (mixed >> 4 & 7).astype(int)
    numbers = np.ldexp(mixed.view(np.int32).astype(np.float32), powers)
    values = numbers.astype(np.float32).reshape(group_size, _PROBE)
    fast, slow = (_all(values, bits, one) for one in (kernel, None))
    if fast != slow:
        raise ArithmeticError("the kernel that encodes hqq differs from numpy")


def _all(values: Floats, bits: int, kernel: Any | None) -> list[bytes]:  # noqa: ANN401
    made = encode(values, bits, _PROBE_STEPS, kernel)
    errors = errors_of(values, bits, _PROBE_STEPS, kernel)
    return [part.tobytes() for part in (*made, errors)]
