"""What a GGUF file does not have of a model, or not as the model has it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from importer.codecs.plain import is_plain
from importer.exports.gguf.file import Typed, transcoder_to
from importer.sources.tensor import SourceTensor, StoredArray
from store.text import count, printable

_NAME: Final = 200
"""Characters of a name that are shown."""


def unseen(sources: Sequence[SourceTensor]) -> Iterator[str]:
    """Yield what a file of text alone lacks of a model that sees or hears, too."""
    if sources:
        name = printable(sources[0].name, _NAME)
        yield f"{count(len(sources), 'tensor')} are not of the text model, as `{name}`"


def behind(sources: Sequence[SourceTensor]) -> Iterator[str]:
    """Yield what a file lacks of a sentence model whose vectors go through further layers."""
    if sources:
        name = printable(sources[0].name, _NAME)
        yield f"{count(len(sources), 'tensor')} of layers behind the pooling, as `{name}`"


def rounded(typed: Sequence[Typed]) -> Iterator[str]:
    """Yield which tensors get a type that does not hold all values of their own."""
    found = Counter((one.tensor.before, one.kind.name) for one in typed if _is_rounded(one))
    for (before, kind), number in sorted(found.items()):
        tensors = count(number, "tensor")
        yield f"{tensors} of {before} {'are' if number > 1 else 'is'} rounded to {kind}"


def again(typed: Sequence[Typed]) -> Iterator[str]:
    """Yield which tensors were quantized already and are quantized once more."""
    found = Counter(
        one.tensor.before
        for one in typed
        if not one.kind.is_plain
        and not all(is_plain(member.decoder) for member in one.tensor.members)
        and _is_rounded(one)
    )
    for before, number in sorted(found.items()):
        yield f"{count(number, 'tensor')} of {before} quantized again"


def unused(sources: Sequence[SourceTensor], typed: Sequence[Typed]) -> Iterator[str]:
    """Yield which tensors of the text model llama.cpp has no use for."""
    read: defaultdict[str, list[int]] = defaultdict(list)
    for tensor, _, _ in typed:
        for member in tensor.members:
            for extent in member.extents:
                read[extent.file.path].append(extent.offset)
    for offsets in read.values():
        offsets.sort()
    lacking = [one for one in sources if not any(_is_read(array, read) for array in one.arrays)]
    if lacking:
        name = printable(lacking[0].name, _NAME)
        if len(lacking) == 1:
            yield f"`{name}` is left out: llama.cpp does not use it"
        else:
            yield f"{len(lacking):,} tensors such as `{name}` are left out: llama.cpp uses none"


def _is_rounded(typed: Typed) -> bool:
    members = typed.tensor.members
    return not all(transcoder_to(typed.kind, one.decoder).is_lossless for one in members)


def _is_read(array: StoredArray, read: Mapping[str, Sequence[int]]) -> bool:
    offsets = read.get(array.file.path, ())
    at = bisect_left(offsets, array.offset)
    return at < len(offsets) and offsets[at] < array.offset + max(array.nbytes, 1)
