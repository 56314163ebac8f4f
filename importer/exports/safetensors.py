"""Files of safetensors as the library writes them, and their index."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from importer.codecs.base import Part, Shape, Transcoder
from importer.exports.base import ExportFile, Piece
from importer.sources.tensor import SourceTensor
from store import limits
from store.errors import InputError, UnsupportedError
from store.tensorfile import ITEM_BITS, LENGTH_BYTES, METADATA
from store.text import printable

_ALIGNMENT: Final = 8
_ORDER: Final = {dtype: number for number, dtype in enumerate(ITEM_BITS)}
"""The library puts the data of larger elements first; `ITEM_BITS` has its order of dtypes."""


class Array(NamedTuple):
    """One array of an export: what it is called, and the part of a tensor that it holds.

    Attributes:
        rows: parts of the transcoder, alike, that follow each other in the array.
    """

    name: str
    dtype: str
    shape: Shape
    nbytes: int
    rows: int = 1


class Constant(NamedTuple):
    """An array whose bytes are known before a weight is read."""

    name: str
    dtype: str
    shape: Shape
    data: bytes

    @property
    def array(self) -> Array:
        """The array that it is in a file."""
        return Array(self.name, self.dtype, self.shape, len(self.data))


class Weight(NamedTuple):
    """A tensor of an export: its arrays, and the sources that follow each other in them.

    Attributes:
        name: of the tensor, for people.
        arrays: of the parts that the transcoder makes, in their order.
        sources: alike in shape; of several, each is a slice of every array.
        constants: what lies beside the arrays, and says what they are.
        apart: a transcoder for each source, where they differ in what they know of it.
    """

    name: str
    arrays: tuple[Array, ...]
    sources: tuple[SourceTensor, ...]
    transcoder: Transcoder
    constants: tuple[Constant, ...] = ()
    apart: tuple[Transcoder, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        shape: Shape,
        names: Sequence[str],
        sources: tuple[SourceTensor, ...],
        transcoder: Transcoder,
    ) -> Weight:
        """Return the weight of some sources.

        Args:
            name: for people.
            shape: of all sources together.
            names: one for each part, in the order of the transcoder's.
        """
        parts: tuple[Part, ...] = transcoder.parts(shape)
        arrays = (
            Array(called, part.dtype, part.shape, part.nbytes)
            for called, part in zip(names, parts, strict=True)
        )
        return cls(name, tuple(arrays), sources, transcoder)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.all_arrays)

    @property
    def all_arrays(self) -> tuple[Array, ...]:
        """What a file has of it."""
        return (*self.arrays, *(constant.array for constant in self.constants))


class Shard(NamedTuple):
    """A file of weights: where each array is in it."""

    file: ExportFile
    weights: tuple[Weight, ...]
    offsets: Mapping[str, int]

    def pieces(self, number: int) -> Iterator[Piece]:
        """Yield what fills the file.

        Args:
            number: of the file among those of the export.
        """
        for weight in self.weights:
            count = len(weight.sources)
            for index, source in enumerate(weight.sources):
                places = tuple(
                    (self.offsets[array.name] + nbytes * (index * array.rows + row), nbytes)
                    for array in weight.arrays
                    for nbytes in (array.nbytes // (count * array.rows),)
                    for row in range(array.rows)
                )
                extents = tuple(array.extent for array in source.arrays)
                transcoder = weight.apart[index] if weight.apart else weight.transcoder
                yield Piece(source.name, source.shape, extents, transcoder, number, places)


def shard_name(stem: str, number: int, count: int) -> str:
    """Return the path of a file, as huggingface_hub calls it.

    Args:
        number: from 1 on.
    """
    suffix = f"-{number:05d}-of-{count:05d}" if count > 1 else ""
    return f"{stem}{suffix}.safetensors"


def make_shards(
    stem: str,
    weights: Iterable[Weight],
    size: int,
    metadata: Mapping[str, str],
    name: Callable[[str, int, int], str] = shard_name,
) -> list[Shard]:
    """Share weights among files, in their order, as huggingface_hub does.

    One that is larger than `size` has a file of its own.

    Args:
        stem: path of the files, as in `model` for `model-00001-of-00002.safetensors`.
        weights: sorted.
        size: bytes of arrays in a file, at most.
        metadata: of every file.
        name: what a file is called, of the stem, its number from 1 on, and how many there are.

    Raises:
        InputError: two arrays would have one name.
        UnsupportedError: a file would have a longer header than the format allows.
    """
    shards: list[list[Weight]] = []
    current: list[Weight] = []
    filled = 0
    for weight in weights:
        if weight.nbytes > size:
            shards.append([weight])
            continue
        if filled + weight.nbytes > size:
            shards.append(current)
            current, filled = [], 0
        current.append(weight)
        filled += weight.nbytes
    if current:
        shards.append(current)
    _check_names(weight for shard in shards for weight in shard)
    count = len(shards)
    return [
        make_shard(name(stem, number, count), shard, metadata)
        for number, shard in enumerate(shards, 1)
    ]


def index_of(shards: Sequence[Shard], extra: Mapping[str, int], indent: int) -> bytes:
    """Return the index of some files: the name of each array's file, sorted by array.

    Args:
        extra: more of the metadata, after the total size.
        indent: columns.
    """
    total = sum(weight.nbytes for shard in shards for weight in shard.weights)
    places = {
        array.name: shard.file.path.rpartition("/")[2]
        for shard in shards
        for weight in shard.weights
        for array in weight.arrays
    }
    document = {
        "metadata": {"total_size": total, **extra},
        "weight_map": dict(sorted(places.items())),
    }
    return json.dumps(document, indent=indent).encode()


def encode_header(arrays: Sequence[Array], metadata: Mapping[str, str]) -> bytes:
    """Return length and header of a file, byte for byte as the safetensors library writes it.

    The store's own blobs follow Ollama instead (`store.tensorfile.encode_header`).

    Args:
        arrays: in the order of their data.
        metadata: of the file.
    """
    document: dict[str, object] = {METADATA: dict(sorted(metadata.items()))}
    offset = 0
    for array in arrays:
        document[array.name] = {
            "dtype": array.dtype,
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def make_shard(path: str, weights: Sequence[Weight], metadata: Mapping[str, str]) -> Shard:
    """Return one file, with all weights; there may be none.

    Raises:
        UnsupportedError: it would have a longer header than the format allows.
    """
    arrays = sorted(
        (array for weight in weights for array in weight.all_arrays),
        key=lambda array: (-_ORDER[array.dtype], array.name.encode()),
    )
    head = encode_header(arrays, metadata)
    if len(head) - LENGTH_BYTES > limits.HEADER_BYTES:
        raise UnsupportedError(
            f"`{path}` would have a header of {len(head)} bytes, the format's limit is "
            f"{limits.HEADER_BYTES}",
            code="E_LIMIT",
            hint="Ask for smaller files",
        )
    offsets, offset = {}, len(head)
    for array in arrays:
        offsets[array.name] = offset
        offset += array.nbytes
    fixed = tuple(
        (offsets[constant.name], constant.data)
        for weight in weights
        for constant in weight.constants
    )
    return Shard(ExportFile(path, offset, head, fixed), tuple(weights), offsets)


def _check_names(weights: Iterable[Weight]) -> None:
    seen: dict[str, str] = {}
    for weight in weights:
        for array in weight.all_arrays:
            if array.name in seen or array.name == METADATA:
                other = seen.get(array.name, METADATA)
                raise InputError(
                    f"`{printable(weight.name)}` and `{printable(other)}` would both be "
                    f"`{printable(array.name)}` in the export",
                    code="E_NAME_COLLISION",
                )
            seen[array.name] = weight.name
