"""Codes in words: each row a stream of bits, the first code in the lowest ones.

One rule for all widths. Eight codes of b bits fill b bytes; MLX's 32-bit words are those
bytes in little-endian order, so a code of 3, 5 or 6 bits may lie in two words.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference import Bits, Codes
from store.fs import Buffer

_LANE: Final = 8
"""Codes that are packed at a time: a 64-bit integer with a code in each byte."""

_JOINS: Final = (
    (8, np.uint64(0x00FF_00FF_00FF_00FF)),
    (16, np.uint64(0x0000_FFFF_0000_FFFF)),
    (32, np.uint64(0x0000_0000_FFFF_FFFF)),
)
"""Width of a field, and which bits of a lane are in every other field."""


def pack(codes: Codes, bits: int) -> Bits:
    """Pack codes of shape (groups, group size) to words of shape (groups, words)."""
    lanes = codes.view("<u8")
    for width, even in _JOINS:
        # The odd fields move down over what the even ones leave free.
        free = np.uint64(width - width * bits // _LANE)
        lanes = (lanes & even) | ((lanes & ~even) >> free)
    stream = lanes.view(np.uint8).reshape(-1, _LANE)[:, :bits]
    return stream.reshape(len(codes), -1).view("<u4")


def unpack(words: Bits, bits: int) -> Codes:
    """Undo `pack`."""
    return unpack_stream(words.view(np.uint8).reshape(-1, bits), bits).reshape(len(words), -1)


def unpack_stream(stream: Bits, bits: int) -> Codes:
    """Return eight codes, of 1 to 8 bits, for each row of `bits` bytes."""
    padded = np.zeros((len(stream), _LANE), np.uint8)
    padded[:, :bits] = stream
    lanes = padded.view("<u8")
    for width, even in reversed(_JOINS):
        free = np.uint64(width - width * bits // _LANE)
        low = even & (even >> free)
        lanes = (lanes & low) | ((lanes & ~low) << free)
    return lanes.view(np.uint8)


def unpack_low_first(data: Buffer, bits: int) -> Codes:
    """Return the codes of 2, 4 or 8 bits in bytes, the first one in the lowest bits."""
    octets = np.frombuffer(data, np.uint8)
    if bits == _LANE:
        return octets
    shifts = np.arange(0, _LANE, bits, dtype=np.uint8)
    mask = np.uint8((1 << bits) - 1)
    return ((octets[:, None] >> shifts) & mask).reshape(-1)
