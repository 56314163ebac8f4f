"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from store.errors import IntegrityError
from store.fs import Buffer, File, FileSystem


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


def replace_file(path: Path, parts: Iterable[Buffer], fs: FileSystem | None = None) -> None:
    """Write a file of the user's, anew or over the one that is there, whole or not at all.

    It is written beside its place and renamed when it is on the disk. A link stays a link: the
    file that it leads to is replaced. A device or FIFO, such as /dev/stdout, is written to.

    Raises:
        OSError: it could not be written, of `path`; what was there is untouched.
        IntegrityError: the file does not have the bytes that were written.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(b"".join(parts))
        return
    place = path.resolve()
    # Not named after the process: in containers all have the number 1, and one that was killed
    # leaves its file.
    partial = place.with_name(f".{os.urandom(8).hex()}.partial")
    try:
        _write_and_rename(fs or FileSystem(), partial, place, parts)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _write_and_rename(
    fs: FileSystem, partial: Path, place: Path, parts: Iterable[Buffer]
) -> None:
    file = fs.create(partial, 0o666)
    try:
        try:
            nbytes = 0
            for part in parts:
                fs.write(file, part)
                nbytes += memoryview(part).nbytes
            fs.sync(file)
            check_length(fs, file, nbytes)
        finally:
            fs.close(file)
        fs.rename(partial, place)
    except BaseException:
        with contextlib.suppress(OSError):
            fs.unlink(partial)
        raise


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
