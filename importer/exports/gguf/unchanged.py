"""Which tensors of the store have codes, scales and biases that GGML's blocks hold exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from importer.codecs.as_blocks import KINDS, AsBlocks, affine_codec, codes_of, scales_of
from importer.codecs.grouped import Grouped
from importer.exports.gguf.tensors import Member, Tensor
from importer.sources.file import Extent, opened, read_bytes

_STEP: Final = 1 << 16
"""Groups whose scales and biases are read at a time."""
_BLOCK: Final = 32
_BYTE: Final = 8


def as_blocks(tensors: Sequence[Tensor], word: str) -> Iterator[Tensor]:
    """Yield tensors, with decoders that give blocks where no bit of them would be lost.

    Scales and biases decide that, and are read; of codes only those whose scale F16 lacks.

    Args:
        tensors: of a file.
        word: for the type of the file, or empty: then any type of blocks will do.
    """
    for tensor in tensors:
        kind = _kind(tensor, word)
        if kind is None:
            yield tensor
        else:
            members = (
                one._replace(decoder=AsBlocks(one.decoder, kind)) for one in tensor.members
            )
            yield tensor._replace(members=tuple(members))


def _kind(tensor: Tensor, word: str) -> str | None:
    codecs = {affine_codec(one.decoder) for one in tensor.members}
    codec = codecs.pop() if len(codecs) == 1 else None
    if codec is None or codec.spec.group_size % _BLOCK:
        return None
    for kind in KINDS.get(codec.spec.bits, ()):
        if word in {"", kind} and all(_is_exact(kind, codec, one) for one in tensor.members):
            return kind
    return None


def _is_exact(kind: str, codec: Grouped, member: Member) -> bool:
    from importer.codecs.reference.ggml.affine_blocks import exact  # noqa: PLC0415 - numpy

    groups = math.prod(member.shape) // codec.spec.group_size
    words, *scales = member.extents
    for first in range(0, groups, _STEP):
        count = min(_STEP, groups - first)
        fits = exact(
            kind, *scales_of(codec, [_part(one, first, count, groups) for one in scales])
        )
        for begin, end in _runs([first + int(at) for at in (~fits).nonzero()[0]]):
            if not _is_constant(kind, codec, _part(words, begin, end - begin, groups)):
                return False
    return True


def _is_constant(kind: str, codec: Grouped, words: bytes) -> bool:
    from importer.codecs.reference.ggml.affine_blocks import constant  # noqa: PLC0415 - numpy

    return bool(constant(kind, codes_of(codec, words)).all())


def _part(extent: Extent, first: int, count: int, groups: int) -> bytes:
    """Return what some of an array's groups have in it."""
    width = extent.nbytes // groups
    begin = extent.offset + first * width
    with opened(extent.file) as descriptor:
        return read_bytes(extent.file, descriptor, begin, begin + count * width)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first of numbers that follow each other, and the one after the last."""
    begin = end = -1
    for number in numbers:
        if number != end:
            if begin >= 0:
                yield begin, end
            begin = number
        end = number + 1
    if begin >= 0:
        yield begin, end
