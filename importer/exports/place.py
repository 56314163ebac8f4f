"""Where an export may go: a place that nothing has yet."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final, NoReturn

from store.errors import StorageError, UsageError
from store.text import printable

_HINT: Final = "Name a place where nothing is yet, or an empty directory"


def check_place(dest: Path) -> Path:
    """Return where an export goes, links resolved; nothing is written.

    Raises:
        UsageError: something is there already.
        StorageError: the path leads nowhere.
    """
    try:
        place = dest.resolve()
        seen = os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return _check_parents(place)
    except (OSError, RuntimeError, ValueError) as error:
        # Before Python 3.13 a loop is a RuntimeError; a NUL byte is a ValueError.
        what = getattr(error, "strerror", None) or str(error)
        message = f"`{printable(str(dest))}`: {what}, expected a place to write to"
        raise StorageError(message, code="E_EXPORT_PLACE") from error
    if not stat.S_ISDIR(seen.st_mode):
        taken(dest, "exists already, and is not replaced")
    with os.scandir(place) as entries:
        if next(entries, None) is not None:
            taken(dest, "is not empty, expected a new or an empty directory")
    if os.path.ismount(place):
        taken(dest, "is the root of a file system, expected a directory in one")
    return place


def check_file_place(place: Path) -> None:
    """Make sure that an export of one file can have its place, which `check_place` returned.

    Raises:
        UsageError: there is an empty directory.
    """
    if os.path.lexists(place):
        hint = "Name a file that does not exist yet"
        taken(place, "is a directory, expected a place for one file", hint)


def taken(dest: Path, why: str, hint: str = _HINT) -> NoReturn:
    """Raise UsageError for a place that an export cannot have."""
    raise UsageError(f"`{printable(str(dest))}` {why}", code="E_EXPORT_PLACE", hint=hint)


def _check_parents(place: Path) -> Path:
    for parent in place.parents:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if not stat.S_ISDIR(os.stat(parent).st_mode):
                taken(place, f"is below `{printable(str(parent))}`, which is not a directory")
            return place
    return place
