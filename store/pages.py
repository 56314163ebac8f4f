"""Buffers of whole pages."""

from __future__ import annotations

import mmap


def page_buffer(nbytes: int) -> memoryview:
    """Return `nbytes` of memory that begins with a page, all zero, for as long as it is used.

    malloc's begins 16 bytes behind that, and is kept for later by each thread's part of the
    heap: importing 2 GB took 1 MiB more, and 3 % more processor time.
    """
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return memoryview(mmap.mmap(-1, max(nbytes, 1), private))[:nbytes]
