"""The memory that compiled functions work in, which they cannot allocate."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from typing import Final

import numpy as np

from importer.codecs.kernels.kinds import Memory

BLOCK: Final = 8192
"""Elements that go through all steps together, so that they stay in the first-level cache."""

_SPAN: Final = 32
"""The fewest elements among which extremes are found."""


class Block:
    """Memory for a block of groups.

    Attributes:
        codes: uint8 of shape (groups, group size), and `lanes` the same memory, eight codes in
            each uint64.
        keys: signed integers of shape (2, spans), by their bytes.
        sizes: unsigned integers of shape (groups,), by their bytes.
        lines: float32 of shape (2, groups).
    """

    def __init__(self, group_size: int) -> None:
        """Allocate memory for groups of a size."""
        groups = BLOCK // group_size
        lanes = np.empty(BLOCK // 8, np.uint64)
        self.lanes = Memory(lanes)
        self.codes = Memory(lanes.view(np.uint8).reshape(groups, group_size))
        self.keys: Mapping[int, Memory] = {
            nbytes: Memory(np.empty((2, BLOCK // _SPAN), f"i{nbytes}")) for nbytes in (2, 4)
        }
        self.sizes: Mapping[int, Memory] = {
            nbytes: Memory(np.empty(groups, f"u{nbytes}")) for nbytes in (2, 4)
        }
        self.lines = Memory(np.empty((2, groups), np.float32))


class _Blocks(threading.local):
    def __init__(self) -> None:
        self.of = functools.cache(Block)


_blocks: Final = _Blocks()


def block(group_size: int) -> Block:
    """Return this thread's memory for groups of a size, some 20 KB."""
    return _blocks.of(group_size)
