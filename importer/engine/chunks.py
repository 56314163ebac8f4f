"""Cut what a blob is made from into chunks, which can be read and converted in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from importer.codecs.base import Shape, Span, Transcoder
from importer.codecs.transcode import Copy, Recode
from importer.planning.plan import FilePlan, Job, TensorPlan
from importer.sources.file import Extent, SourceFile
from store.tensorfile import ITEM_BITS, elements

_FILE: Final = Copy("U8")
_ALIGNMENT: Final = 64
_DECODED: Final = 4
"""How much larger than a chunk its decoded values may be."""


class Read(NamedTuple):
    """What a chunk needs of one stored array.

    Attributes:
        file: that the array is in.
        offset: of the array in its file.
        span: of bytes in the array.
    """

    file: SourceFile
    offset: int
    span: Span


class Chunk(NamedTuple):
    """A whole number of units of one source of a tensor, or some bytes of a file.

    Attributes:
        tensor: that it is of, or None for a file.
        shape: of the source, in elements.
        elements: of the source.
        reads: one for each stored array of the source.
        targets: offsets in the blob of what the elements become, one for each part.
        ends_source: whether the source has no more elements.
        ends_tensor: whether the tensor has no more.
        is_whole: whether the tensor has no others.
    """

    tensor: TensorPlan | None
    transcoder: Transcoder
    shape: Shape
    elements: range
    reads: tuple[Read, ...]
    targets: tuple[int, ...]
    ends_source: bool
    ends_tensor: bool
    is_whole: bool

    @property
    def nbytes(self) -> int:
        """Bytes to read."""
        return sum(read.span.nbytes for read in self.reads)

    @property
    def room(self) -> int:
        """Bytes of a buffer that holds them, each array aligned as processors like it."""
        return sum(-(-read.span.nbytes // _ALIGNMENT) * _ALIGNMENT for read in self.reads)

    def views(self, buffer: memoryview) -> Iterator[memoryview]:
        """Yield the place of each array in a buffer of at least `room` bytes."""
        start = 0
        for read in self.reads:
            yield buffer[start : start + read.span.nbytes]
            start += -(-read.span.nbytes // _ALIGNMENT) * _ALIGNMENT


class _Source(NamedTuple):
    """Some elements of a tensor: the shape of a source, and the extents of its arrays."""

    shape: Shape
    extents: Sequence[Extent]


def cut(job: Job, size: int) -> Iterator[Chunk]:
    """Yield the chunks of a blob in the order of its data, each of `size` bytes at most."""
    if isinstance(job, FilePlan):
        return cut_file(job, size)
    return cut_tensors(job.tensors, size, start=len(job.header))


def cut_file(plan: FilePlan, size: int) -> Iterator[Chunk]:
    """Yield the chunks of a file that is kept; an empty one has a chunk, too."""
    source = _Source((plan.nbytes,), [Extent(plan.file, 0, plan.nbytes)])
    return _cut(None, [_FILE], [source], [(0, plan.nbytes)], size)


def cut_source(
    transcoder: Transcoder,
    shape: Shape,
    extents: Sequence[Extent],
    layout: Sequence[tuple[int, int]],
    size: int,
) -> Iterator[Chunk]:
    """Yield the chunks of one source, wherever its parts go; an empty one has a chunk, too.

    Args:
        shape: in elements.
        extents: of its stored arrays.
        layout: offset in a file and size in bytes of each part.
        size: of a chunk, in bytes.
    """
    return _cut(None, [transcoder], [_Source(shape, extents)], layout, size)


def cut_tensors(tensors: Iterable[TensorPlan], size: int, *, start: int = 0) -> Iterator[Chunk]:
    """Yield the chunks of some tensors; a source without bytes has a chunk, too.

    Args:
        start: offset in the blob of the first tensor's data.
    """
    for tensor in tensors:
        layout = []
        for nbytes in (part.nbytes for part in tensor.parts):
            layout.append((start, nbytes))
            start += nbytes
        sources = [
            _Source(source.shape, [array.extent for array in source.arrays])
            for source in tensor.sources
        ]
        yield from _cut(tensor, tensor.transcoders, sources, layout, size)


def _cut(
    tensor: TensorPlan | None,
    transcoders: Sequence[Transcoder],
    sources: Sequence[_Source],
    layout: Sequence[tuple[int, int]],
    size: int,
) -> Iterator[Chunk]:
    """Cut the sources of one tensor.

    Args:
        transcoders: one for each source.
        layout: where each part begins in the blob, and its size in bytes.
    """
    counts = [elements(source.shape) for source in sources]
    total = max(sum(counts), 1)
    before = 0
    whole = zip(transcoders, sources, counts, strict=True)
    for number, (transcoder, (shape, extents), count) in enumerate(whole, 1):
        step = _step(transcoder, shape, count, size)
        for start in range(0, max(count, 1), step):
            piece = range(start, min(start + step, count))
            spans = transcoder.spans(shape, piece)
            done = before + start
            ends_source = piece.stop == count
            yield Chunk(
                tensor,
                transcoder,
                shape,
                piece,
                tuple(
                    Read(extent.file, extent.offset, span)
                    for extent, span in zip(extents, spans, strict=True)
                ),
                tuple(place + nbytes * done // total for place, nbytes in layout),
                ends_source=ends_source,
                ends_tensor=ends_source and number == len(sources),
                is_whole=len(piece) == count and len(sources) == 1,
            )
        before += count


def _step(transcoder: Transcoder, shape: Shape, count: int, size: int) -> int:
    """Return how many elements make a chunk of about `size` bytes."""
    unit = transcoder.unit(shape)
    spans = transcoder.spans(shape, range(min(unit, count)))
    nbytes = sum(span.nbytes for span in spans)
    if isinstance(transcoder, Copy):
        # As fast with large tensors (a GGUF file of 2 GB: 1.017), and 1 MiB less at the peak:
        # the second half of a buffer is never touched, and so takes no memory.
        size //= 2
    if isinstance(transcoder, Recode):
        # Values of F32 take up to 20 times the room of the codes that they are decoded from.
        values = unit * ITEM_BITS[transcoder.decoder.value_dtype] // 8
        nbytes = max(nbytes, values // _DECODED)
    return max(1, size // max(nbytes, 1)) * unit
