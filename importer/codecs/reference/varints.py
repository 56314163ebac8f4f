"""Numbers as protobuf writes them, in numpy (protobuf's "Encoding": base 128 varints)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from store.fs import Buffer

_MORE: Final = 0x80


def values(data: Buffer, size: int, *, is_tagged: bool = False) -> np.ndarray[Any, Any]:
    """Return the lowest `size` bytes of each varint, as unsigned integers.

    Args:
        data: whole varints.
        size: 1, 2, 4 or 8.
        is_tagged: whether every other one is a tag, which is left out.
    """
    octets = np.frombuffer(data, "u1")
    ends = np.flatnonzero(octets < _MORE)
    starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64)[: len(ends)]
    if is_tagged:
        starts, ends = starts[1::2], ends[1::2]
    found = np.zeros(len(starts), f"<u{size}")
    lengths = ends - starts + 1
    for place in range(-(-size * 8 // 7)):
        has = lengths > place
        if not has.any():
            break
        digits = (octets[starts[has] + place] & 0x7F).astype(found.dtype)
        found[has] |= digits << found.dtype.type(7 * place)
    return found
