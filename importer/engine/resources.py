"""What this process may use of the machine, and how many threads that suffices for."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from store.errors import UsageError

_MIB: Final = 1 << 20
PLAIN_BASE: Final = 48 * _MIB
QUANTIZING_BASE: Final = 160 * _MIB
"""Bytes of a process before it has threads: python and our modules; numba and LLVM, too,
which compile once on a machine."""
PER_THREAD: Final = 6 * _MIB
"""Two chunks of the source, what they become, arrays on the way, a stack."""
_BASE_FILES: Final = 72
"""Descriptors of a process before it has threads: ours, what it was started with, and blobs
that are synced at a time by however few threads."""
_FILES_PER_THREAD: Final = 6
"""Two sources (its own, and one of those it helped), a blob to fill, which its owner and its
maker have open, two to be synced."""

_DIGITS: Final = 20
_PROC: Final = Path("/proc/self/cgroup")
_MOUNT: Final = Path("/sys/fs/cgroup")


def cores(proc: Path = _PROC, mount: Path = _MOUNT) -> int:
    """Count the cores that we may use: affinity, and the quota of a container.

    Args:
        proc: a file that tells our control groups.
        mount: where control groups are mounted.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    for group in _groups("cpu", proc, mount):
        quota, period = _quota(group)
        if quota > 0 and period > 0:
            # A quota of 1.5 cores keeps two threads busy.
            count = min(count, -(-quota // period))
    return max(1, count)


def memory(proc: Path = _PROC, mount: Path = _MOUNT) -> int | None:
    """Bytes that this process may at most occupy, or None where nobody tells."""
    limits = []
    with contextlib.suppress(OSError, ValueError, AttributeError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for group in _groups("memory", proc, mount):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            limits += [int(text) for text in _words(group / name) if _is_number(text)]
    return min((limit for limit in limits if limit > 0), default=None)


def affordable(threads: int, max_memory: int | None, *, quantizes: bool) -> int:
    """Return the number of threads, at most `threads`, whose buffers and open files fit.

    Args:
        threads: that are wanted.
        max_memory: bytes that the user allows; three quarters of what there is for None.
        quantizes: whether kernels will be loaded.

    Raises:
        UsageError: the user allows less than one thread needs.
    """
    threads = min(threads, max(1, (_open_files() - _BASE_FILES) // _FILES_PER_THREAD))
    base = QUANTIZING_BASE if quantizes else PLAIN_BASE
    limit = max_memory
    if limit is None:
        there = memory()
        if there is None:
            return threads
        limit = max(base + PER_THREAD, there * 3 // 4)
    if limit < base + PER_THREAD:
        raise UsageError(
            f"the memory limit is {limit // _MIB} MiB, expected at least "
            f"{(base + PER_THREAD) // _MIB} MiB",
            code="E_MEMORY_LIMIT",
        )
    return min(threads, (limit - base) // PER_THREAD)


def _open_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _groups(controller: str, proc: Path, mount: Path) -> Iterator[Path]:
    """Yield the directories of our control group and those above it, of either version."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in proc.read_text(encoding="utf-8").splitlines():
            number, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            if number == "0":
                root = mount
            elif controller in names.split(","):
                root = mount / names
            else:
                continue
            inside = Path(path.lstrip("/"))
            # In a container the path may be that of the host, which is not there.
            yield from (root / group for group in (inside, *inside.parents))


def _quota(group: Path) -> tuple[int, int]:
    """Microseconds of processor time in each period; zeros where there is no limit."""
    words = _words(group / "cpu.max") or (
        *_words(group / "cpu.cfs_quota_us"),
        *_words(group / "cpu.cfs_period_us"),
    )
    if len(words) == 2 and all(map(_is_number, words)):  # noqa: PLR2004
        return int(words[0]), int(words[1])
    return 0, 0


def _words(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(encoding="ascii").split())
    except (OSError, ValueError):  # not there, no text, or no path at all
        return ()


def _is_number(text: str) -> bool:
    # The kernel's have 64 bits; python refuses to read 4301 digits.
    return text.isdecimal() and len(text) <= _DIGITS
