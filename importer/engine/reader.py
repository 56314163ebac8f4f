"""Read the bytes of chunks from the files of a source."""

from __future__ import annotations

import contextlib
from typing import Self

from importer.engine.chunks import Chunk, Read
from importer.sources.file import SourceFile, opened, read_exactly


class ChunkReader:
    """Reads chunks for one thread; the file of the last one stays open.

    Use as a context manager, or close it.
    """

    def __init__(self) -> None:
        """Open nothing yet."""
        self._stack = contextlib.ExitStack()
        self._file: SourceFile | None = None
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, chunk: Chunk, buffer: memoryview) -> tuple[memoryview, ...]:
        """Fill a buffer of at least `chunk.room` bytes; return the bytes of each array.

        Raises:
            InputError: a file is no longer what was scanned.
            StorageError: the device failed.
        """
        arrays = tuple(chunk.views(buffer))
        for read, view in zip(chunk.reads, arrays, strict=True):
            self.fill(read, view)
        return arrays

    def fill(self, read: Read, view: memoryview) -> None:
        """Fill `view` with the bytes of one array; the errors are those of `read`."""
        file, offset, span = read
        descriptor = self._open(file)
        if span.runs == 1:
            read_exactly(file, descriptor, view, offset + span.begin)
            return
        nbytes = span.run
        for run in range(span.runs):
            place = view[run * nbytes : (run + 1) * nbytes]
            begin = offset + span.begin + run * span.stride
            read_exactly(file, descriptor, place, begin)

    def close(self) -> None:
        """Close the file, if one is open."""
        self._file = None
        self._stack.close()

    def _open(self, file: SourceFile) -> int:
        """Return a descriptor of a file that must still be the one that was scanned."""
        if file is not self._file:
            self.close()
            self._descriptor = self._stack.enter_context(opened(file))
            self._file = file
        return self._descriptor
