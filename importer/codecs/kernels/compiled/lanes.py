"""Codes to words and back, and the lengths of loops."""

# ruff: noqa: PLR2004 - each number of bits is a case

from __future__ import annotations

import numpy as np

from importer.codecs.kernels.compiled.jit import Array, Flag, jit


@jit
def blocks(rows: Array, block: Array) -> int:
    """Count blocks of as many rows as `block` has; the last may have fewer."""
    # Not by the step of a range, which may be 0 as far as the compiler knows, and raise.
    return (len(rows) + len(block) - 1) // len(block)


@jit
def columns(rows: Array, unit: int, most: int) -> int:
    """Return the length of rows, in a form that tells LLVM that it is 1 to `most` units.

    Loops over so few elements then have no code for other lengths, which would take more
    time than the elements do. A single length must not be told: LLVM would unroll the loop
    before it vectorizes it.
    """
    length: int = rows.shape[1]
    return unit * max(1, min(length // unit, most))


@jit
def pack(lanes: Array, bits: int, is_rare: Flag, words: Array) -> None:
    """Pack lanes of eight codes, one in each byte, to `words`; destroys the lanes.

    Args:
        is_rare: whether `bits` is 2, 3, 5 or 6, and not 4.
    """
    if is_rare is None:
        _pack4(lanes, words)
    else:
        _join(lanes, bits, words.size * 4 // bits)
        _store(lanes, bits, words)


@jit
def _pack4(lanes: Array, words: Array) -> None:
    pairs, fours = np.uint64(0x00FF_00FF_00FF_00FF), np.uint64(0x0000_FFFF_0000_FFFF)
    for i in range(words.size):
        lane = lanes[i]
        lane = np.uint64(np.uint64(lane | np.uint64(lane >> np.uint64(4))) & pairs)
        lane = np.uint64(np.uint64(lane | np.uint64(lane >> np.uint64(8))) & fours)
        words[i] = np.uint32(lane | np.uint64(lane >> np.uint64(16)))


@jit
def _join(lanes: Array, bits: int, count: int) -> None:
    # reference/packing.py explains: each step moves odd fields down to the even ones.
    even1 = np.uint64(0x00FF_00FF_00FF_00FF)
    even2 = np.uint64(0x0000_FFFF_0000_FFFF)
    even4 = np.uint64(0x0000_0000_FFFF_FFFF)
    free1, free2, free4 = (
        np.uint64(8 - bits),
        np.uint64(16 - 2 * bits),
        np.uint64(32 - 4 * bits),
    )
    for i in range(count):
        lane = lanes[i]
        lane = np.uint64((lane & even1) | np.uint64((lane & ~even1) >> free1))
        lane = np.uint64((lane & even2) | np.uint64((lane & ~even2) >> free2))
        lanes[i] = np.uint64((lane & even4) | np.uint64((lane & ~even4) >> free4))


@jit
def _store(lanes: Array, bits: int, words: Array) -> None:
    """Write four lanes of 8 * bits as `bits` words, for each four."""
    shift8, shift16, shift24, shift32 = (
        np.uint64(8),
        np.uint64(16),
        np.uint64(24),
        np.uint64(32),
    )
    for i in range(words.size // bits):
        a, b, c, d = lanes[4 * i], lanes[4 * i + 1], lanes[4 * i + 2], lanes[4 * i + 3]
        if bits == 2:
            words[2 * i] = np.uint32(a | np.uint64(b << shift16))
            words[2 * i + 1] = np.uint32(c | np.uint64(d << shift16))
        elif bits == 3:
            words[3 * i] = np.uint32(a | np.uint64(b << shift24))
            words[3 * i + 1] = np.uint32(np.uint64(b >> shift8) | np.uint64(c << shift16))
            words[3 * i + 2] = np.uint32(np.uint64(c >> shift16) | np.uint64(d << shift8))
        elif bits == 5:
            words[5 * i] = np.uint32(a)
            words[5 * i + 1] = np.uint32(np.uint64(a >> shift32) | np.uint64(b << shift8))
            words[5 * i + 2] = np.uint32(np.uint64(b >> shift24) | np.uint64(c << shift16))
            words[5 * i + 3] = np.uint32(np.uint64(c >> shift16) | np.uint64(d << shift24))
            words[5 * i + 4] = np.uint32(np.uint64(d >> shift8))
        else:
            words[6 * i] = np.uint32(a)
            words[6 * i + 1] = np.uint32(np.uint64(a >> shift32) | np.uint64(b << shift16))
            words[6 * i + 2] = np.uint32(np.uint64(b >> shift16))
            words[6 * i + 3] = np.uint32(c)
            words[6 * i + 4] = np.uint32(np.uint64(c >> shift32) | np.uint64(d << shift16))
            words[6 * i + 5] = np.uint32(np.uint64(d >> shift16))


@jit
def unpack(words: Array, bits: int, is_rare: Flag, lanes: Array) -> None:
    """Undo `pack`."""
    if is_rare is None:
        _unpack4(words, lanes)
    else:
        _load(words, bits, lanes)
        _spread(lanes, bits, words.size * 4 // bits)


@jit
def _unpack4(words: Array, lanes: Array) -> None:
    ones, pairs = np.uint64(0x0F0F_0F0F_0F0F_0F0F), np.uint64(0x00FF_00FF_00FF_00FF)
    fours = np.uint64(0x0000_FFFF_0000_FFFF)
    for i in range(words.size):
        lane = np.uint64(words[i])
        lane = np.uint64(np.uint64(lane | np.uint64(lane << np.uint64(16))) & fours)
        lane = np.uint64(np.uint64(lane | np.uint64(lane << np.uint64(8))) & pairs)
        lanes[i] = np.uint64(np.uint64(lane | np.uint64(lane << np.uint64(4))) & ones)


@jit
def _load(words: Array, bits: int, lanes: Array) -> None:
    """Undo `_store`, but leave bits above those of a lane."""
    shift8, shift16, shift24, shift32 = (
        np.uint64(8),
        np.uint64(16),
        np.uint64(24),
        np.uint64(32),
    )
    for i in range(words.size // bits):
        if bits == 2:
            v, w = np.uint64(words[2 * i]), np.uint64(words[2 * i + 1])
            a, b, c, d = v, np.uint64(v >> shift16), w, np.uint64(w >> shift16)
        elif bits == 3:
            v, w = np.uint64(words[3 * i]), np.uint64(words[3 * i + 1])
            x = np.uint64(words[3 * i + 2])
            a, b = v, np.uint64(np.uint64(v >> shift24) | np.uint64(w << shift8))
            c, d = np.uint64(np.uint64(w >> shift16) | np.uint64(x << shift16)), x >> shift8
        elif bits == 5:
            v, w = np.uint64(words[5 * i]), np.uint64(words[5 * i + 1])
            x, y = np.uint64(words[5 * i + 2]), np.uint64(words[5 * i + 3])
            z = np.uint64(words[5 * i + 4])
            a = np.uint64(v | np.uint64(w << shift32))
            b = np.uint64(np.uint64(w >> shift8) | np.uint64(x << shift24))
            c = np.uint64(np.uint64(x >> shift16) | np.uint64(y << shift16))
            d = np.uint64(np.uint64(y >> shift24) | np.uint64(z << shift8))
        else:
            v, w = np.uint64(words[6 * i]), np.uint64(words[6 * i + 1])
            x, y = np.uint64(words[6 * i + 2]), np.uint64(words[6 * i + 3])
            z, last = np.uint64(words[6 * i + 4]), np.uint64(words[6 * i + 5])
            a = np.uint64(v | np.uint64(w << shift32))
            b = np.uint64(np.uint64(w >> shift16) | np.uint64(x << shift16))
            c = np.uint64(y | np.uint64(z << shift32))
            d = np.uint64(np.uint64(z >> shift16) | np.uint64(last << shift16))
        lanes[4 * i], lanes[4 * i + 1], lanes[4 * i + 2], lanes[4 * i + 3] = a, b, c, d


@jit
def _spread(lanes: Array, bits: int, count: int) -> None:
    """Undo `_join`: each step moves the upper halves of fields up."""
    low1 = np.uint64(np.uint64(0x0001_0001_0001_0001) * np.uint64((1 << bits) - 1))
    low2 = np.uint64(np.uint64(0x0000_0001_0000_0001) * np.uint64((1 << 2 * bits) - 1))
    low4 = np.uint64((1 << 4 * bits) - 1)
    high1 = np.uint64(low1 << np.uint64(8))
    high2 = np.uint64(low2 << np.uint64(16))
    high4 = np.uint64(low4 << np.uint64(32))
    free1, free2, free4 = (
        np.uint64(8 - bits),
        np.uint64(16 - 2 * bits),
        np.uint64(32 - 4 * bits),
    )
    for i in range(count):
        lane = lanes[i]
        lane = np.uint64((lane & low4) | np.uint64(np.uint64(lane << free4) & high4))
        lane = np.uint64((lane & low2) | np.uint64(np.uint64(lane << free2) & high2))
        lanes[i] = np.uint64((lane & low1) | np.uint64(np.uint64(lane << free1) & high1))
