"""Conversions between float formats, bit by bit and without a branch: numba has float32 only.

Flags say what the bits of a source are: BF16, F16 (`is_half`) or F32 (`is_wide`).
"""

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.jit import Flag, jit


@jit
def widen(bits: np.integer, is_half: Flag, is_wide: Flag) -> np.float32:
    """Return the value of `bits`, exactly; for F16 infinities and NaNs one from 2 ** 16 on."""
    if is_wide is not None:
        return np.uint32(bits).view(np.float32)
    if is_half is not None:
        return _f16_to_f32(np.uint16(bits))
    return np.uint32(np.uint32(np.uint16(bits)) << np.uint32(16)).view(np.float32)


@jit
def narrow(value: np.float32, is_half: Flag, is_wide: Flag) -> np.unsignedinteger:
    """Round to nearest, ties to even, and return the bits; a NaN may become infinite."""
    if is_wide is not None:
        return np.float32(value).view(np.uint32)
    if is_half is not None:
        return _f32_to_f16(value)
    bits = np.float32(value).view(np.uint32)
    odd = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1))
    bits = np.uint32(np.uint32(bits + np.uint32(0x7FFF)) + odd)
    return np.uint16(np.uint32(bits >> np.uint32(16)))


@jit
def _f16_to_f32(bits: np.uint16) -> np.float32:
    magnitude = np.uint32(np.uint32(bits & np.uint16(0x7FFF)) << np.uint32(13))
    sign = np.uint32(np.uint32(bits & np.uint16(0x8000)) << np.uint32(16))
    # The exponents' biases differ by 112; subnormals become normal by multiplying.
    value = np.float32(magnitude.view(np.float32) * np.float32(2.0**112))
    return np.uint32(np.float32(value).view(np.uint32) | sign).view(np.float32)


@jit
def _f32_to_f16(value: np.float32) -> np.uint16:
    bits = np.float32(value).view(np.uint32)
    sign = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(0x8000))
    size = np.uint32(bits & np.uint32(0x7FFF_FFFF))
    odd = np.uint32(np.uint32(size >> np.uint32(13)) & np.uint32(1))
    normal = np.uint32(np.uint32(np.uint32(size + np.uint32(0xFFF)) + odd) >> np.uint32(13))
    normal = np.uint32(normal - np.uint32(112 << 10))
    # A sum with 0.5, whose last digit is the smallest subnormal, rounds to that.
    total = np.float32(np.uint32(size).view(np.float32) + np.float32(0.5))
    subnormal = np.uint32(np.float32(total).view(np.uint32) - np.uint32(126 << 23))
    half = subnormal if size < np.uint32(113 << 23) else normal
    half = half if size < np.uint32(143 << 23) else np.uint32(0x7C00)
    return np.uint16(half | sign)


@jit
def f32_to_e4m3(value: np.float32, may_exceed: Flag) -> np.uint8:
    """Round to the nearest, ties to even; NaNs are not expected.

    Args:
        may_exceed: whether there are values from 464 on, which become 448.
    """
    bits = np.float32(value).view(np.uint32)
    size = np.uint32(bits & np.uint32(0x7FFF_FFFF))
    if may_exceed is not None:
        size = min(size, np.uint32(0x43E0_0000))  # 448
    power = np.uint32(size & np.uint32(0x7F80_0000))
    power = max(power, np.uint32(121 << 23))  # the smallest normal, 2 ** -6
    # A sum with 2 ** 20 times the power counts eighths of the power in its last digits.
    large = np.uint32(power + np.uint32(20 << 23)).view(np.float32)
    total = np.float32(np.uint32(size).view(np.float32) + large).view(np.uint32)
    code = np.uint32(np.uint32(total + np.uint32(power >> np.uint32(20))) - np.uint32(121 << 3))
    sign = np.uint32(np.uint32(bits >> np.uint32(24)) & np.uint32(0x80))
    return np.uint8(np.uint32(code & np.uint32(0x7F)) | sign)


@jit
def e8m0_to_f32(code: np.uint8) -> np.float32:
    """Return the power of two that a byte stands for; for 255 infinity."""
    # The smallest is subnormal.
    bits = max(np.uint32(np.uint32(code) << np.uint32(23)), np.uint32(1 << 22))
    return np.uint32(bits).view(np.float32)


@jit
def e4m3_to_f32(code: np.uint8) -> np.float32:
    """Widen a positive E4M3 that is not NaN, exactly."""
    magnitude = np.uint32(np.uint32(code) << np.uint32(20))
    # The exponents' biases differ by 120; subnormals become normal by multiplying.
    return np.float32(magnitude.view(np.float32) * np.float32(2.0**120))
