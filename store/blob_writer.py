"""The maker's half of a new blob: its bytes, written into a partial file and hashed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from store.blobs import BlobRef
from store.digest import Digest
from store.durable import short_write
from store.fs import Buffer, FileSystem

_SYNC_STEP: Final = 32 << 20


class BlobWriter:
    """Fills the partial file that `Writer.open` made for one blob, and hashes it.

    Bytes that are known in the order of the file are written and hashed at once. Bytes that
    are known in another order are placed, by any thread, and hashed when their turn comes:
    every byte goes through the hash once, from the first to the last.

    It needs nothing but a path, so another process may run it. It syncs nothing and gives the
    file no name: both are for the owner of the path (`Writer.commit`).

        path = writer.open()
        with contextlib.closing(BlobWriter(writer.fs, path)) as blob:
            blob.write(header)
            blob.write(data)
            ref = blob.finish()
        outcome = writer.commit(path, ref)

    Attributes:
        path: of the partial file.
        size: number of bytes hashed so far.
    """

    def __init__(self, fs: FileSystem, path: Path) -> None:
        """Open the partial file at `path`; it is empty, or `take_over` comes first."""
        import hashlib  # noqa: PLC0415 - an import that writes nothing does without

        self.path: Final = path
        self.size = 0
        self._fs = fs
        self._file = fs.reopen(path)
        self._sha256 = hashlib.sha256()
        self._started = 0
        self._mutex = threading.Lock()
        self._placed = 0

    def take_over(self, buffer: memoryview) -> int:
        """Hash what an earlier writer has left in the file; return how many bytes it is."""
        self._placed = self._fs.status_of(self._file).size
        self.hash_placed(self._placed, buffer)
        return self.size

    def reserve(self, nbytes: int) -> None:
        """Reserve disk space for the whole blob.

        Writing then takes a third less processor time (ext4), and a full disk is met early.
        """
        self._fs.reserve(self._file, nbytes)

    def write(self, chunk: Buffer) -> None:
        """Write and hash the next bytes; the caller may reuse its buffer afterwards."""
        self.place(chunk, self.size)
        self.hash(chunk)

    def place(self, chunk: Buffer, offset: int) -> None:
        """Write a chunk at `offset` without hashing it; threads may do so at once."""
        # A file system lets one thread write to a file, and others spin until it has: of 2 GB
        # that are copied by two threads, that was a quarter of their time.
        with self._mutex:
            self._fs.write_at(self._file, chunk, offset)
            self._placed += memoryview(chunk).nbytes

    def hash(self, chunk: Buffer) -> None:
        """Hash the next bytes of the file, which were placed, from memory."""
        # Flat, because the length of an array's view counts its items.
        view = memoryview(chunk).cast("B")
        self._sha256.update(view)
        self.size += len(view)
        if self.size - self._started >= _SYNC_STEP:
            # The disk begins while we go on: else it would have all to do at the end.
            self._fs.start_sync(self._file, self._started, self.size - self._started)
            self._started = self.size

    def hash_placed(self, nbytes: int, buffer: memoryview) -> None:
        """Hash the next `nbytes` of the file, which were placed, from the file.

        They were written a moment ago, so the page cache has them.

        Args:
            nbytes: to hash.
            buffer: to read into.

        Raises:
            IntegrityError: the file ends before them.
        """
        end = self.size + nbytes
        while self.size < end:
            wanted = buffer[: min(len(buffer), end - self.size)]
            count = self._fs.read_into(self._file, wanted, self.size)
            if count == 0:
                raise short_write(self.path, self.size, end)
            self.hash(wanted[:count])

    def finish(self) -> BlobRef:
        """Close the file and return what it holds; nothing is durable yet.

        Raises:
            IntegrityError: a byte was hashed and not written, or the other way round.
        """
        # A gap reads as zeros and does not show in the length of the file.
        if self._placed != self.size:
            raise short_write(self.path, self._placed, self.size)
        self.close()
        return BlobRef(Digest(self._sha256.hexdigest()), self.size)

    def close(self) -> None:
        """Close the file, finished or not; closing twice is harmless."""
        self._fs.close(self._file)
