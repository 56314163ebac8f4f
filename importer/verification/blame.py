"""What failed: the source, or the store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from store import Store
from store.errors import IngotError, InputError, StorageError, is_no_space

_OF_THE_MACHINE: Final = frozenset({"E_IO", "E_ACCESS", "E_READ_ONLY", "E_EXHAUSTED"})


def is_of_the_source(store: Store, error: IngotError | OSError) -> bool:
    """Return whether reading the source failed, and not the store."""
    if isinstance(error, OSError):
        inside = error.filename and Path(error.filename).is_relative_to(store.layout.root)
        return bool(error.filename) and not inside and not is_no_space(error)
    is_device = isinstance(error, StorageError) and error.code in _OF_THE_MACHINE
    return is_device or isinstance(error, InputError)
