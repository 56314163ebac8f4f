"""Convert what an export was made of again, and compare it with what is there."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from importer.codecs.base import KernelSpec, Runtime
from importer.codecs.runtime import prepare
from importer.engine.chunks import cut_source
from importer.engine.reader import ChunkReader
from importer.events import Compared, Listener
from importer.exports.base import Piece
from importer.exports.fill import CHUNK, surveyed
from importer.sources.file import Extent, opened, read_exactly
from store.parallel import Stop, each

Wanted = tuple[Piece, tuple[Extent, ...]]
"""A piece, and where in the export each part of it is."""


def differing(
    wanted: Sequence[Wanted], threads: int, listen: Listener
) -> Iterator[tuple[str, str]]:
    """Yield subject and message for each piece that an export has otherwise.

    Args:
        wanted: what is compared.
        threads: that work.
        listen: told how far it is.
    """
    total = sum(piece.source_nbytes for piece, _ in wanted)
    work: Counter[KernelSpec] = Counter()
    for piece, _ in wanted:
        for kernel in piece.transcoder.kernels():
            work[kernel] += max(piece.source_nbytes, piece.nbytes)
    runtime = prepare(work, lambda: None)
    stop, telling = Stop(), threading.Lock()

    def tell(nbytes: int) -> None:
        stop.check()
        with telling:
            listen(Compared(nbytes, total))

    def compare(one: Wanted) -> tuple[str, str] | None:
        return _difference(*one, runtime, tell)

    yield from filter(None, each(compare, wanted, threads, stop))


def _difference(
    piece: Piece, extents: tuple[Extent, ...], runtime: Runtime, tell: Callable[[int], None]
) -> tuple[str, str] | None:
    """Convert what a piece is made of again, and compare; return subject and message."""
    places = [(extent.offset, extent.nbytes) for extent in extents]
    with ChunkReader() as reader, contextlib.ExitStack() as stack:
        transcoder = surveyed(piece, reader, runtime, lambda: tell(0))
        cuts = cut_source(transcoder, piece.shape, piece.extents, places, CHUNK)
        descriptors = [stack.enter_context(opened(extent.file)) for extent in extents]
        for chunk in cuts:
            tell(chunk.nbytes)
            if not chunk.elements:
                continue
            arrays = reader.read(chunk, memoryview(bytearray(chunk.room)))
            made = transcoder.convert(arrays, chunk.shape, chunk.elements, runtime)
            for part, offset, extent, descriptor in zip(
                made.parts, chunk.targets, extents, descriptors, strict=True
            ):
                expected = memoryview(part).cast("B")
                found = bytearray(len(expected))
                read_exactly(extent.file, descriptor, memoryview(found), offset)
                if found != expected:
                    return piece.name, "differs from the model"
    return None
