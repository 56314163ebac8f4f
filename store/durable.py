"""Small files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from store.errors import IntegrityError
from store.fs import File, FileSystem


def write_small(
    fs: FileSystem, path: Path, data: bytes, *, sync: bool = True, mode: int = 0o644
) -> None:
    """Write a new file, for a rename into place.

    Args:
        fs: where to write it.
        path: that must not exist.
        data: the whole content.
        sync: make it durable.
        mode: permission bits. By default whoever may enter the store may read the file, as
            Ollama's own manifests.

    Raises:
        IntegrityError: the file does not have the bytes that were written.
    """
    file = fs.create(path, mode)
    try:
        fs.write(file, data)
        if sync:
            fs.sync(file)
        check_length(fs, file, len(data))
    finally:
        fs.close(file)


def check_length(fs: FileSystem, file: File, nbytes: int) -> None:
    """Make sure that what was written to a file has arrived.

    Raises:
        IntegrityError: it has not.
    """
    actual = fs.status_of(file).size
    if actual != nbytes:
        raise short_write(file.path, actual, nbytes)


def short_write(path: Path, actual: int, written: int) -> IntegrityError:
    """Return the error that says that a file does not have the bytes that were written."""
    message = f"`{path}` has {actual} bytes after {written} were written"
    return IntegrityError(message, code="E_SHORT_WRITE")
