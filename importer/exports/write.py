"""Write an export: every source is read and hashed once, by threads that fill its files."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from importer.codecs.base import KernelSpec, Runtime, Transcoder
from importer.codecs.runtime import prepare
from importer.codecs.survey import survey_of
from importer.engine.chunks import Read, cut_source
from importer.engine.reader import ChunkReader
from importer.events import Compiling, Listener, NoKernels, Wrote
from importer.exports.base import ExportFile, Piece, WritePlan
from importer.exports.directory import ExportDirectory
from importer.sources.file import SourceFile, opened, read_exactly
from store import Digest
from store.errors import IngotError, InputError, IntegrityError
from store.fs import File
from store.parallel import Stop, each
from store.text import printable

CHUNK: Final = 1 << 20
"""Bytes read at a time, as when blobs are made."""
_SHARED: Final = 64 << 20
"""Bytes of a blob that one thread takes alone; a larger one with many tensors is shared."""
_SYNC_STEP: Final = 32 << 20
_SYNCING: Final = 8
"""Threads that wait for the disk, at least."""


class _Job(NamedTuple):
    """What one thread does without a break.

    Attributes:
        pieces: in the order of the blob that they are in.
        blob: that is hashed meanwhile, or None.
    """

    pieces: tuple[Piece, ...]
    blob: SourceFile | None = None

    @property
    def nbytes(self) -> int:
        """Bytes to read."""
        if self.blob is not None:
            return self.blob.size
        return sum(piece.source_nbytes for piece in self.pieces)


def write_export(
    plan: WritePlan,
    directory: ExportDirectory,
    threads: int,
    listen: Listener,
    *,
    hashed: Sequence[SourceFile] = (),
) -> None:
    """Write every file of an export, and make it durable.

    Args:
        plan: of the export.
        directory: to write to; it is published by the caller.
        threads: that read, convert and write; each holds a few MiB.
        listen: told of every piece.
        hashed: blobs that nothing is copied from, and that are hashed all the same.

    Raises:
        IntegrityError: a blob of the store is damaged.
        InputError: a source changed, or has values that its new type cannot hold.
        OSError: reading or writing failed.
    """
    runtime = _prepare(plan, listen)
    stop = Stop()
    for file in plan.files:
        directory.make(file.path, file.nbytes, ((0, file.head), *file.fixed))
    writer = _Writer(directory, plan, runtime, stop, listen)
    jobs = sorted(_jobs(plan.pieces, hashed), key=lambda job: -job.nbytes)
    for _ in each(writer, jobs, threads, stop):
        pass

    def commit(file: ExportFile) -> None:
        stop.check()
        directory.commit(file.path, file.nbytes)

    for _ in each(commit, plan.files, max(threads, _SYNCING), stop):
        pass


def _jobs(pieces: Sequence[Piece], hashed: Sequence[SourceFile]) -> Iterator[_Job]:
    """Yield what threads do: the pieces of each blob together, those of other files apart."""
    blobs: defaultdict[SourceFile, list[Piece]] = defaultdict(list)
    for piece in pieces:
        file = piece.extents[0].file
        if file.is_blob:
            blobs[file].append(piece)
        else:
            yield _Job((piece,))
    for blob, members in blobs.items():
        members.sort(key=lambda piece: piece.extents[0].offset)
        if blob.size > _SHARED and len(members) > 1:
            # A whole model in one file: a thread for each tensor, and one that hashes.
            yield from (_Job((piece,)) for piece in members)
            yield _Job((), blob)
        else:
            yield _Job(tuple(members), blob)
    others = {e.file for p in pieces for e in p.extents[1:] if e.file.is_blob}
    for blob in (others | set(hashed)) - blobs.keys():
        yield _Job((), blob)


class _Writer:
    """Does jobs, in any thread."""

    def __init__(
        self,
        directory: ExportDirectory,
        plan: WritePlan,
        runtime: Runtime,
        stop: Stop,
        listen: Listener,
    ) -> None:
        self._directory = directory
        self._fs = directory.fs
        self._paths = [file.path for file in plan.files]
        self._runtime = runtime
        self._stop = stop
        self._listen = listen
        self._telling = threading.Lock()
        self._own = threading.local()
        self._unsynced: Counter[int] = Counter()
        self._writing = [threading.Lock() for _ in plan.files]

    def __call__(self, job: _Job) -> None:
        with contextlib.ExitStack() as stack:
            sha256 = None
            if job.blob is not None:
                descriptor = stack.enter_context(opened(job.blob))
                sha256 = _BlobHash(job.blob, descriptor, self._stop.check)
            reader = stack.enter_context(ChunkReader())
            try:
                for piece in job.pieces:
                    file = self._directory.open(self._paths[piece.file])
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
            self._listen(Wrote(piece.name, nbytes))
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


def _prepare(plan: WritePlan, listen: Listener) -> Runtime:
    work: Counter[KernelSpec] = Counter()
    for piece in plan.pieces:
        for kernel in piece.transcoder.kernels():
            work[kernel] += max(piece.source_nbytes, piece.nbytes)
    runtime = prepare(work, lambda: listen(Compiling()))
    if runtime.problem is not None:
        listen(NoKernels(runtime.problem))
    return runtime
