"""Buffers of whole pages."""

from __future__ import annotations

import mmap


def page_buffer(nbytes: int) -> memoryview:
    """Return `nbytes` of zeroed memory that starts at a page boundary.

    It is freed with its last view, and what was never written takes no memory. malloc's starts
    16 bytes into a page, and stays in the part of the heap that is its thread's: importing 2 GB
    took 1 MiB more, and 3 % more processor time.

    Raises:
        MemoryError: there is no such memory.
    """
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        return memoryview(mmap.mmap(-1, max(nbytes, 1), private))[:nbytes]
    except OSError as error:
        raise MemoryError from error
