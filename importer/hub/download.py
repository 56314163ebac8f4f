"""One file from the Hub into its cache: resumed where it was interrupted, verified at the end.

huggingface_hub removes the part that an interrupted run has fetched (since 1.17, its issue
4196), so the transfer is ours. Part and lock are where its earlier releases had them.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Final

from importer.events import Listener, Received, silent
from importer.http.ranges import (
    TRIES,
    Answer,
    Patience,
    UnreachableError,
    first_byte,
    received,
)
from importer.hub.errors import odd_answer, refused, translated
from importer.hub.repository import HubClient, HubFile
from store.errors import NetworkError
from store.parallel import StoppedError

_REHASH: Final = 1 << 20
_REPORT_BYTES: Final = 1 << 20

_Tell = Callable[..., None]


def download(
    hub: HubClient, file: HubFile, listen: Listener = silent, tries: int = TRIES
) -> None:
    """Make a file complete in the cache.

    Args:
        hub: the repository.
        file: of it.
        listen: hears of every MiB that is there (`Received`), also of what an earlier run
            has fetched.
        tries: in a row that bring no byte, before the transfer is given up.

    Raises:
        IngotError: the file is not complete; what has arrived is kept for the next run.
        StoppedError: another transfer failed, so this one is given up; likewise.
        OSError: writing failed.
    """
    from huggingface_hub.utils import WeakFileLock  # noqa: PLC0415

    blob = hub.blob(file)
    lock = hub.cache / ".locks" / hub.folder.name / f"{file.key}.lock"
    for directory in (blob.parent, lock.parent):
        directory.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock), _reported(file.path, listen) as tell:
        if blob.is_file() and blob.stat().st_size == file.size:
            tell(file.size, is_new=False)
            return
        # A second time from the start: the part of an earlier run may have been bad.
        if _fill(hub, file, tell, tries) or _fill(hub, file, tell, tries):
            return
    raise NetworkError(
        f"`{file.path}` arrived damaged: its hash is not the one that the Hub declares",
        code="E_HUB_DAMAGED",
        hint="Run the command again; if it stays so, something on the way to the Hub is broken",
    )


@contextmanager
def _reported(path: str, listen: Listener) -> Iterator[_Tell]:
    """Yield what counts the bytes of a file, and reports them a MiB at a time."""
    pending = 0

    def report() -> None:
        nonlocal pending
        listen(Received(path, pending))
        pending = 0

    def tell(nbytes: int, *, is_new: bool = True) -> None:
        nonlocal pending
        if not is_new:
            listen(Received(path, nbytes, is_new=False))
            return
        pending += nbytes
        if abs(pending) >= _REPORT_BYTES:
            report()

    yield tell
    report()


def read_range(
    hub: HubClient, file: HubFile, start: int, end: int, tries: int = TRIES
) -> bytes:
    """Read the bytes of a file on the Hub from `start` to before `end`, and no others.

    Raises:
        IngotError: they cannot be had.
        StoppedError: another transfer failed.
    """
    with closing(_chunks(hub, file, start, end, tries)) as chunks:
        return b"".join(chunks)


def write_range(hub: HubClient, file: HubFile, start: int, end: int, target: int) -> None:
    """Write the bytes of a file on the Hub from `start` to before `end` to the same place.

    Args:
        target: a descriptor.

    Raises:
        IngotError: they cannot be had.
        StoppedError: another transfer failed.
        OSError: writing failed.
    """
    at = start
    with closing(_chunks(hub, file, start, end, TRIES)) as chunks:
        for chunk in chunks:
            view = memoryview(chunk)
            while view:
                written = os.pwrite(target, view, at)
                at, view = at + written, view[written:]


def _fill(hub: HubClient, file: HubFile, tell: _Tell, tries: int) -> bool:
    """Fetch what the part lacks; return whether its hash is right, so that it is the blob.

    A part whose hash is wrong is removed.
    """
    blob = hub.blob(file)
    part = hub.part(file)
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    with os.fdopen(descriptor, "r+b", buffering=0) as target:
        if os.fstat(descriptor).st_size > file.size:
            target.truncate(0)
        digest = _Digest(file)
        while piece := target.read(_REHASH):
            digest.update(piece)
        have = target.tell()
        tell(have, is_new=False)
        with closing(_chunks(hub, file, have, file.size, tries)) as chunks:
            for chunk in chunks:
                view = memoryview(chunk)
                while view:
                    view = view[target.write(view) :]
                digest.update(chunk)
                tell(len(chunk))
        # Before it has the name of a whole file: a crash must not leave a hole in one.
        os.fsync(descriptor)
        if digest.is_right():
            os.replace(part, blob)
            return True
    part.unlink()
    tell(-file.size)
    return False


class _Digest:
    def __init__(self, file: HubFile) -> None:
        if file.sha256 is not None:
            self._hash = hashlib.sha256()
        else:
            # Git's name of a file; its authors know how weak SHA-1 is.
            prefix = b"blob %d\0" % file.size
            self._hash = hashlib.sha1(prefix, usedforsecurity=False)
        self._declared = file.key
        self.update = self._hash.update

    def is_right(self) -> bool:
        return self._hash.hexdigest() == self._declared


def _chunks(
    hub: HubClient, file: HubFile, start: int, end: int, tries: int
) -> Generator[bytes]:
    """Yield the bytes from `start` to before `end`, however often the connection breaks."""

    def cut(position: int) -> UnreachableError:
        return UnreachableError(
            f"`{file.path}` ended after {position} of {file.size} bytes",
            code="E_HUB_CUT",
            hint="Run the command again: what has arrived is kept",
        )

    def ask(offset: int) -> AbstractContextManager[Answer]:
        return _answer(hub, file, offset, end)

    return received(ask, start, end, Patience(tries, hub.stop), cut)


@contextmanager
def _answer(hub: HubClient, file: HubFile, start: int, end: int) -> Iterator[Answer]:
    headers = hub.headers()
    if start > 0 or end < file.size:
        headers["Range"] = f"bytes={start}-{end - 1}"
    with (
        translated(hub.source.repository),
        hub.session().stream("GET", file.url, headers=headers) as response,
    ):
        if response.status_code >= 400:  # noqa: PLR2004 - an error
            raise refused(response, hub.source.repository)
        first = first_byte(response.status_code, response.headers, start, file.size)
        if first is None:
            said = response.headers.get("Content-Range", "")
            raise odd_answer(f"`{file.path}` from byte {start} on has the range `{said}`")
        yield Answer(first, _until(hub.stop, response.iter_bytes()))


def _until(stop: threading.Event, chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        if stop.is_set():
            raise StoppedError
        yield chunk
