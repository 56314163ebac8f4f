"""The directory where compiled kernels are kept between processes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"kernels-[0-9a-f]{16}")
_UNUSED_SECONDS: Final = 30 * 24 * 3600
"""Age after which a directory is removed: no process still uses it."""
_DIGEST_BYTES: Final = 32


class Place:
    """The place of one piece of object code in the cache, if there is a cache."""

    def __init__(self, name: str, identity: str) -> None:
        """Find the place of a function.

        Args:
            identity: all that the code depends on besides its source and the compiler.
        """
        parent = _used()
        key = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self._path = None if parent is None else parent / f"{name}-{key}.o"

    def read(self) -> bytes | None:
        """Return the code if it is whole and the installed compiler made it, or None.

        Where no compiler is installed, code that any version made is good.
        """
        if self._path is None:
            return None
        try:
            kept = self._path.read_bytes()
        except OSError:
            return None
        digest, content = kept[:_DIGEST_BYTES], kept[_DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            return None
        made_by, _, code = content.partition(b"\n")
        return code if _compiler() in {None, made_by.decode()} else None

    def write(self, code: bytes) -> None:
        """Keep code; where that fails, the next process compiles it again."""
        if self._path is None:
            return
        content = f"{_compiler()}\n".encode() + code
        with contextlib.suppress(OSError):
            self._path.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.parent.mkdir(exist_ok=True, mode=0o700)
            # Nothing is synced: what a power cut leaves behind has another digest.
            handle, partial = tempfile.mkstemp(dir=self._path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(content).digest() + content)
                os.replace(partial, self._path)
            except BaseException:
                # It has its name where a signal comes last, and the signal is to be told.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(partial)
                raise


def directory() -> Path | None:
    """Return where this version keeps its kernels, or None where there is no place."""
    parent = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(parent):
        parent = os.path.expanduser("~/.cache")
    if not os.path.isabs(parent):  # a user without a home
        return None
    # The sources of all kernels are in the name: a new version never runs old code.
    sources = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        sources.update(path.read_bytes())
    return Path(parent, "ingot", f"kernels-{sources.hexdigest()[:16]}")


def use(mine: Path) -> None:
    """Mark a directory as in use; where it is missing, remove those that are long unused.

    Each version leaves up to 0.7 MB behind. Where the cache cannot be written, nothing happens.
    """
    try:
        os.utime(mine)
    except FileNotFoundError:
        _remove_unused(mine.parent)
    except OSError:
        return


@functools.cache
def _used() -> Path | None:
    mine = directory()
    if mine is None or not all(map(_is_safe, (mine, mine.parent))):
        return None
    use(mine)
    return mine


def _is_safe(place: Path) -> bool:
    """Return whether only we and root can have put code here that we would run."""
    try:
        seen = place.stat()
    except OSError:
        return True  # it does not exist, or cannot be used
    others = stat.S_IWGRP | stat.S_IWOTH
    return seen.st_uid in {0, os.geteuid()} and not seen.st_mode & others


@functools.cache
def _compiler() -> str | None:
    """Return the name of the installed numba and its version, or None without one.

    It is that of its metadata: `importlib.metadata` takes ten times as long to import as
    llvmlite's code takes to load.
    """
    found = importlib.util.find_spec("numba")
    if found is None or found.origin is None:
        return None
    return " ".join(
        sorted(path.name for path in Path(found.origin).parents[1].glob("numba-*-info"))
    )


def _remove_unused(parent: Path) -> None:
    # Two processes may remove the same directory: that it is gone is not an error.
    with contextlib.suppress(OSError), os.scandir(parent) as scan:
        for entry in scan:
            with contextlib.suppress(OSError):
                age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                if _NAME.fullmatch(entry.name) and age > _UNUSED_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)
