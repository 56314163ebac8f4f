"""Touch free memory, so that the next program does not pay for what the host took back.

    python tests/benchmarks/free_memory.py NBYTES

A virtual machine may give memory that is free back to its host (free page reporting), and pays
for each page that it wants again: copying a file of 2 GB then took 3 to 5 s instead of 0.5, for
whichever program ran first. To be run as a process of its own, whose end frees what it touched.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from typing import Final

_POPULATE_WRITE: Final = 23
"""MADV_POPULATE_WRITE of Linux 5.14 (madvise(2)), which python does not name."""


def touch(nbytes: int) -> None:
    """Have the system find pages for so many bytes, of those that are free."""
    if sys.platform != "linux":
        return
    # Not of the page cache, which has the source.
    nbytes = min(nbytes, os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE * 9 // 10)
    with mmap.mmap(-1, max(nbytes, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for advice in (mmap.MADV_HUGEPAGE, _POPULATE_WRITE):
            with contextlib.suppress(OSError):  # an older kernel
                memory.madvise(advice)


if __name__ == "__main__":
    touch(int(sys.argv[1]))
