"""Cut what a blob is made from into chunks that can be read and encoded alone, in any order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import Codec
from importer.codecs.plain import Plain
from importer.engine.reuse import Job, Piece
from importer.planning.plan import FilePlan, TensorPlan
from importer.sources.file import SourceFile

_FILE: Final = Plain("U8")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A whole number of rows of one source of a tensor, or some bytes of a file.

    Attributes:
        offset: in the source's file.
        nbytes: of the source.
        targets: offsets in the blob of what the rows become, one for each part.
        ends_source: whether the source has no more rows.
        ends_tensor: whether the tensor has no more.
        is_whole: whether the tensor has no other rows.
    """

    tensor: TensorPlan | None
    codec: Codec
    file: SourceFile
    offset: int
    nbytes: int
    targets: tuple[int, ...]
    ends_source: bool
    ends_tensor: bool
    is_whole: bool


def cut(job: Job, size: int) -> Iterator[Chunk]:
    """Give the chunks of a blob in the order of its data, each of about `size` source bytes.

    A source without bytes has a chunk, too.
    """
    if isinstance(job, FilePlan):
        make = functools.partial(Chunk, None, _FILE)
        yield from _cut(make, [(job.file, 0, job.nbytes)], 1, [(0, 1)], size)
        return
    start = len(job.header)
    for tensor in job.tensors:
        row = tensor.codec.row_bytes(tensor.shape)
        rows = max(1, sum(source.nbytes for source in tensor.sources) // row)
        layout = []
        for part in tensor.parts:
            layout.append((start, part.nbytes // rows))
            start += part.nbytes
        make = functools.partial(Chunk, tensor, tensor.codec)
        pieces = [(source.file, source.offset, source.nbytes) for source in tensor.sources]
        yield from _cut(make, pieces, row, layout, size)


def _cut(
    make: Callable[..., Chunk],
    pieces: Sequence[Piece],
    row: int,
    layout: Sequence[tuple[int, int]],
    size: int,
) -> Iterator[Chunk]:
    """Cut pieces of rows of `row` bytes.

    Args:
        make: takes the fields of a chunk from `file` on.
        layout: where each part begins in the blob, and its bytes for each row.
    """
    step = max(1, size // row) * row
    done = 0
    for number, (file, offset, nbytes) in enumerate(pieces, start=1):
        for start in range(0, max(nbytes, 1), step):
            taken = min(step, nbytes - start)
            is_last = start + taken == nbytes
            yield make(
                file,
                offset + start,
                taken,
                tuple(place + done // row * width for place, width in layout),
                ends_source=is_last,
                ends_tensor=is_last and number == len(pieces),
                is_whole=taken == nbytes and len(pieces) == 1,
            )
            done += taken
