"""System calls that python does not offer, where there is Linux; nothing elsewhere."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import sys
from typing import Any, Final

_KEEP_SIZE: Final = 1
_WRITE: Final = 2
_FICLONE: Final = 0x40049409
_FATAL: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What writing would meet, too. All else says that a file system, or the sandbox that we are
in, does not offer the call: nothing depends on it."""


def reserve(descriptor: int, nbytes: int) -> None:
    """Have the file system set aside space for a file, whose size stays as it is.

    Not `os.posix_fallocate`, which writes zeros where the file system cannot do it.

    Raises:
        OSError: there is no such space.
    """
    call = _libc("fallocate")
    while call is not None and call(descriptor, _KEEP_SIZE, 0, nbytes) != 0:
        number = ctypes.get_errno()
        if number == errno.EINTR:  # of a signal, after which python tries its own calls again
            continue
        _check(number)
        return


def start_writing_back(descriptor: int, offset: int, nbytes: int) -> None:
    """Begin to write a part of a file to the disk, and do not wait.

    Raises:
        OSError: bytes were lost. The next fsync need not tell of them: what it reports is
            what the kernel noted when a write ended, not that one could not begin.
    """
    call = _libc("sync_file_range")
    if call is not None and call(descriptor, offset, nbytes, _WRITE) != 0:
        _check(ctypes.get_errno())


def clone(source: int, target: int) -> bool:
    """Have an empty file share the bytes of another (ioctl_ficlone(2)), if it can.

    Raises:
        OSError: reading or writing failed.
    """
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _FATAL:
            raise
        return False
    return True


def give_back_memory() -> None:
    """Have the C library give free memory back to the system, where it is glibc.

    It keeps what lies below anything that is still used.
    """
    call = _libc("malloc_trim")
    if call is not None:
        call(0)


def _check(number: int) -> None:
    if number in _FATAL:
        raise OSError(number, os.strerror(number))


@functools.cache
def _libc(name: str) -> Any:  # noqa: ANN401 - ctypes has no narrower type for all of libc
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if call is not None:
        integer = ctypes.c_int64
        kinds = {
            "fallocate": (ctypes.c_int, ctypes.c_int, integer, integer),
            "sync_file_range": (ctypes.c_int, integer, integer, ctypes.c_uint),
            "malloc_trim": (ctypes.c_size_t,),
        }
        call.argtypes = kinds[name]
    return call
