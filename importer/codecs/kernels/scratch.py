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
LONGEST_SPAN: Final = 64
"""The most of them."""
TURNED_GROUPS: Final = 64
"""Groups of a block that is turned on its side; the compiled modules have the number, too."""
TURNED_STATES: Final = 17


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


class Turned:
    """Memory for a block of groups that is turned on its side: a lane of a vector is a group.

    Attributes:
        keys: as those of `Block`, and so are `sizes`, `codes` and `lanes`.
        values: float32 of shape (group size, groups), as `weights` of these are.
        state: float32, as many numbers of each group as a kernel needs at most.
    """

    def __init__(self, group_size: int) -> None:
        """Allocate memory for groups of a size, 10 to 50 KB."""
        spans = TURNED_GROUPS * max(group_size // LONGEST_SPAN, 1)
        self.keys: Mapping[int, Memory] = {
            nbytes: Memory(np.empty((2, spans), f"i{nbytes}")) for nbytes in (2, 4)
        }
        self.sizes: Mapping[int, Memory] = {
            nbytes: Memory(np.empty(TURNED_GROUPS, f"u{nbytes}")) for nbytes in (2, 4)
        }
        # The lanes of groups that a block lacks compute, too, and must not be slow: subnormal.
        self.values = Memory(np.zeros((group_size, TURNED_GROUPS), np.float32))
        self.weights = Memory(np.ones((group_size, TURNED_GROUPS), np.float32))
        self.state = Memory(np.zeros(TURNED_STATES * TURNED_GROUPS, np.float32))
        lanes = np.empty(TURNED_GROUPS * group_size // 8, np.uint64)
        self.lanes = Memory(lanes)
        self.codes = Memory(lanes.view(np.uint8).reshape(TURNED_GROUPS, group_size))


class _Blocks(threading.local):
    def __init__(self) -> None:
        self.of = functools.cache(Block)
        self.turned = functools.cache(Turned)


_blocks: Final = _Blocks()


def block(group_size: int) -> Block:
    """Return this thread's memory for groups of a size, some 20 KB."""
    return _blocks.of(group_size)


def turned(group_size: int) -> Turned:
    """Return this thread's memory for turned groups of a size."""
    return _blocks.turned(group_size)
