"""Buffers of whole pages are zero, aligned, and refused where there is no memory."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys

import pytest

from store.pages import page_buffer


@pytest.mark.parametrize("nbytes", [0, 1, 4096, 100_001])
def test_a_buffer_is_of_its_size_zero_and_writable(nbytes):
    buffer = page_buffer(nbytes)

    assert bytes(buffer) == bytes(nbytes)
    buffer[:] = b"x" * nbytes
    assert bytes(buffer) == b"x" * nbytes


def test_a_buffer_starts_with_a_page():
    assert ctypes.addressof(ctypes.c_char.from_buffer(page_buffer(10))) % mmap.PAGESIZE == 0


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit it so")
def test_too_little_memory_is_a_memory_error():
    script = (
        "import resource; from store.pages import page_buffer\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "try: page_buffer(2 << 30)\n"
        "except MemoryError: print('told')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "told\n"
