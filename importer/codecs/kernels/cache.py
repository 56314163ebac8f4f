"""The directory where compiled kernels are kept between processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"kernels-[0-9a-f]{16}")
_UNUSED_SECONDS: Final = 30 * 24 * 3600
"""After which no process is at work in it any more, and it is removed."""


def directory() -> Path | None:
    """Where this version keeps its kernels, or None where there is no place."""
    # numba looks at the file of a function only, not at what the function calls: the sources
    # of all kernels are in the name, so that a new version never runs old code.
    parent = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(parent):
        parent = os.path.expanduser("~/.cache")
    if not os.path.isabs(parent):  # a user without a home
        return None
    sources = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        sources.update(path.read_bytes())
    return Path(parent, "ingot", f"kernels-{sources.hexdigest()[:16]}")


def use(mine: Path) -> None:
    """Note that a directory is in use; before it is first made, remove those long unused.

    Each version leaves some 4 MB behind. Where the cache cannot be written, nothing happens.
    """
    try:
        os.utime(mine)
    except FileNotFoundError:
        _remove_unused(mine.parent)
    except OSError:
        return


def _remove_unused(parent: Path) -> None:
    # Two processes may remove the same: what is gone already is no error.
    with contextlib.suppress(OSError), os.scandir(parent) as scan:
        for entry in scan:
            with contextlib.suppress(OSError):
                age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                if _NAME.fullmatch(entry.name) and age > _UNUSED_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)
