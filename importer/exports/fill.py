"""Fill the files of an export: read, convert and write pieces, and hash what is read."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from importer.codecs.base import Runtime, Transcoder
from importer.codecs.survey import survey_of
from importer.engine.chunks import Read, cut_source
from importer.engine.reader import ChunkReader
from importer.exports.base import Piece
from importer.exports.jobs import FillJob
from importer.sources.file import SourceFile, opened, read_exactly
from store import Digest
from store.errors import IngotError, InputError, IntegrityError
from store.fs import File, FileSystem
from store.parallel import Stop
from store.text import printable

CHUNK: Final = 1 << 20
"""Bytes read at a time, as when blobs are made."""
_SYNC_STEP: Final = 32 << 20


class Target(Protocol):
    """Files of a known size, at paths relative to an export, written by many."""

    @property
    def fs(self) -> FileSystem:
        """The door to the file system that they are on."""
        ...

    def open(self, path: str) -> File:
        """Open a file that was made, to be written at any offset by any thread."""
        ...


class Filler:
    """Does jobs, in any thread."""

    def __init__(
        self,
        target: Target,
        paths: Sequence[str],
        runtime: Runtime,
        stop: Stop,
        tell: Callable[[str, int], None],
    ) -> None:
        """Get ready.

        Args:
            target: that has the files.
            paths: of the files, by their numbers in the plan.
            stop: looked at before each chunk.
            tell: told the name of a piece, and how many bytes of it were written.
        """
        self._target = target
        self._fs = target.fs
        self._paths = paths
        self._runtime = runtime
        self._stop = stop
        self._told = tell
        self._telling = threading.Lock()
        self._own = threading.local()
        self._unsynced: Counter[int] = Counter()
        self._writing = [threading.Lock() for _ in paths]

    def __call__(self, job: FillJob) -> None:
        """Do one job.

        Raises:
            IntegrityError: a blob of the store is damaged.
            InputError: a source changed, or has values that its new type cannot hold.
            StoppedError: the work is to end.
            OSError: reading or writing failed.
        """
        with contextlib.ExitStack() as stack:
            sha256 = None
            if job.blob is not None:
                descriptor = stack.enter_context(opened(job.blob))
                sha256 = _BlobHash(job.blob, descriptor, self._stop.check)
            reader = stack.enter_context(ChunkReader())
            try:
                for piece in job.pieces:
                    file = self._target.open(self._paths[piece.file])
                    try:
                        self._convert(piece, file, reader, sha256)
                    finally:
                        self._fs.close(file)
            except IngotError:
                if sha256 is not None:
                    sha256.check()  # what a damaged blob leads to says less than that it is
                raise
            if sha256 is not None:
                sha256.check()

    def _convert(
        self, piece: Piece, file: File, reader: ChunkReader, sha256: _BlobHash | None
    ) -> None:
        transcoder, nonfinite = surveyed(piece, reader, self._runtime, self._stop.check), 0
        chunks = cut_source(transcoder, piece.shape, piece.extents, piece.places, CHUNK)
        for chunk in chunks:
            self._stop.check()
            arrays = reader.read(chunk, self._buffer(chunk.room))
            if sha256 is not None:
                sha256.update(chunk.reads[0], arrays[0])
            if not chunk.elements:
                continue
            made = transcoder.convert(arrays, chunk.shape, chunk.elements, self._runtime)
            nonfinite += made.nonfinite
            written = 0
            # Linux lets one thread at a time write to a file, and has the others spin: of 1 GB
            # two threads spent 0.76 s in the kernel, one 0.38 s.
            with self._writing[piece.file]:
                for part, offset in zip(made.parts, chunk.targets, strict=True):
                    self._fs.write_at(file, part, offset)
                    written += memoryview(part).nbytes
            self._tell(piece, file, written)
        if nonfinite:
            values = "a value" if nonfinite == 1 else f"{nonfinite} values"
            raise InputError(
                f"`{printable(piece.name)}` has {values} that its type in the export cannot "
                "hold: NaN, infinite or too large",
                code="E_QUANT_NONFINITE",
                facts={"tensor": piece.name},
            )

    def _buffer(self, nbytes: int) -> memoryview:
        buffer: bytearray | None = getattr(self._own, "buffer", None)
        if buffer is None or len(buffer) < nbytes:
            buffer = self._own.buffer = bytearray(max(nbytes, CHUNK))
        return memoryview(buffer)

    def _tell(self, piece: Piece, file: File, nbytes: int) -> None:
        with self._telling:
            self._unsynced[piece.file] += nbytes
            begins = self._unsynced[piece.file] >= _SYNC_STEP
            if begins:
                self._unsynced[piece.file] = 0
            self._told(piece.name, nbytes)
        if begins:
            # The disk begins while we go on: else it would have all to do at the end.
            self._fs.start_sync(file, 0, 0)


def surveyed(
    piece: Piece, reader: ChunkReader, runtime: Runtime, check: Callable[[], None]
) -> Transcoder:
    """Return what converts a piece; for some types it is read once before.

    Args:
        check: called before each chunk is read; may raise.
    """
    survey = survey_of(piece.transcoder)
    if survey is None:
        return piece.transcoder
    chunks = cut_source(piece.transcoder, piece.shape, piece.extents, piece.places, CHUNK)
    for chunk in chunks:
        check()
        arrays = reader.read(chunk, memoryview(bytearray(chunk.room)))
        survey.look(arrays, chunk.shape, chunk.elements, runtime)
    return survey.transcoder()


class _BlobHash:
    """Hashes a blob from its first byte to its last, mostly while they are in use."""

    def __init__(self, file: SourceFile, descriptor: int, check: Callable[[], None]) -> None:
        self._file = file
        self._descriptor = descriptor
        self._check = check
        self._sha256 = hashlib.sha256()
        self._done = 0

    def update(self, read: Read, view: memoryview) -> None:
        """Take bytes that were read; what was passed over is read again, from the cache."""
        begin = read.offset + read.span.begin
        if read.file != self._file or read.span.runs > 1 or begin < self._done:
            return
        self._catch_up(begin)
        self._sha256.update(view)
        self._done += len(view)

    def check(self) -> None:
        """Read what is left, and compare.

        Raises:
            IntegrityError: the blob is damaged.
        """
        self._catch_up(self._file.size)
        found = Digest(self._sha256.hexdigest())
        digest = Digest.from_file_name(self._file.location.name)
        if found != digest:
            raise IntegrityError(
                f"blob {digest} of the stored model is damaged: it hashes to {found}",
                code="E_BLOB_DIGEST",
            )

    def _catch_up(self, end: int) -> None:
        while self._done < end:
            self._check()
            buffer = memoryview(bytearray(min(CHUNK, end - self._done)))
            read_exactly(self._file, self._descriptor, buffer, self._done)
            self._sha256.update(buffer)
            self._done += len(buffer)
