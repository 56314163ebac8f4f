"""What lies in the directory of an export, beside what a plan of it says."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from importer.exports.base import WritePlan
from importer.formats.uqff.names import SUFFIX, parse_shard
from importer.sources.containers.safetensors import read_header
from importer.sources.file import SourceFile, opened, read_bytes, read_whole
from importer.sources.tensor import StoredArray
from importer.sources.tree import read_tree
from store import limits
from store.json import Json, JsonError, loads
from store.tensorfile import LENGTH_BYTES, parse_header

WEIGHTS: Final = (".safetensors", SUFFIX)
"""Ends of files of weights."""
_INDEX: Final = ".safetensors.index.json"

Key = tuple[str, str]
"""Of an array: what its file belongs to, and the name. Sets of UQFF have the same names."""


class There(NamedTuple):
    """What lies in the directory of an export.

    Attributes:
        files: by path, less those of weights.
        arrays: in files of weights, wherever.
    """

    files: Mapping[str, SourceFile]
    arrays: Mapping[Key, StoredArray]


class ExpectedArray(NamedTuple):
    """An array of a plan.

    Attributes:
        key: directory and name.
        begin: offset in its file, in bytes.
    """

    key: Key
    begin: int
    nbytes: int
    dtype: str
    shape: tuple[int, ...]


class Expected(NamedTuple):
    """Every array of a plan.

    Attributes:
        by_key: the arrays.
        in_file: by the number of the file, in the order of their data.
    """

    by_key: Mapping[Key, ExpectedArray]
    in_file: Mapping[int, Sequence[ExpectedArray]]

    def at(self, file: int, offset: int) -> ExpectedArray:
        """Return the array of a file that has the byte at an offset."""
        there = self.in_file[file]
        return there[bisect_right(there, offset, key=lambda array: array.begin) - 1]


def read_there(place: Path) -> There:
    """Read what there is: the headers of weights, and which other files.

    Raises:
        NotFoundError: there is no such directory.
        InputError: a file of weights is malformed.
    """
    tree = read_tree(place)
    files: dict[str, SourceFile] = {}
    arrays: dict[Key, StoredArray] = {}
    for file in tree.files:
        if not file.path.endswith(WEIGHTS):
            files[file.path] = file
            continue
        for tensor in read_header(file).tensors:
            (array,) = tensor.arrays
            arrays[_set_of(file.path), array.name] = array
    return There(files, arrays)


def arrays_of(write: WritePlan) -> Expected:
    """Return every array that a plan has, with its place in its file."""
    by_key: dict[Key, ExpectedArray] = {}
    in_file: dict[int, list[ExpectedArray]] = {}
    for number, file in enumerate(write.files):
        if file.path.endswith(WEIGHTS) and file.head:
            header = parse_header(file.head[LENGTH_BYTES:], file.nbytes, file.path)
            for entry in header.entries:
                key = _set_of(file.path), entry.name
                begin = len(file.head) + entry.begin
                made = ExpectedArray(key, begin, entry.nbytes, entry.dtype, entry.shape)
                by_key[key] = made
                if entry.nbytes:
                    in_file.setdefault(number, []).append(made)
    return Expected(by_key, in_file)


def sets_of(there: There) -> list[str]:
    """Return the names of the sets of UQFF's shards, sorted."""
    shards = (parse_shard(array.file.name) for array in there.arrays.values())
    return sorted({shard.stem for shard in shards if shard is not None})


def _set_of(path: str) -> str:
    """Return what names are unique in: a directory, or a set of shards."""
    directory, _, name = path.rpartition("/")
    shard = parse_shard(name)
    return directory if shard is None else f"{directory}/{shard.stem}".lstrip("/")


def numbers_that_differ(
    write: WritePlan, there: There, expected: Expected
) -> Iterator[tuple[str, str]]:
    """Yield which small arrays, known before a weight is read, are others."""
    for number, file in enumerate(write.files):
        for offset, data in file.fixed:
            key = expected.at(number, offset).key
            array = there.arrays.get(key)
            if array is None or array.nbytes != len(data):
                continue  # told by name, dtype and shape
            with opened(array.file) as descriptor:
                end = array.offset + array.nbytes
                found = read_bytes(array.file, descriptor, array.offset, end)
            if found != data:
                yield key[1], "differs from what the model gives"


def documents_that_differ(write: WritePlan, there: There) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the files that an export makes besides weights."""
    for file in write.files:
        if not file.head or file.path.endswith((*WEIGHTS, _INDEX)):
            continue
        found = there.files.get(file.path)
        if found is None:
            yield file.path, "is not in the export"
        elif found.size != file.nbytes or read_whole(found, found.size) != file.head:
            yield file.path, "differs from what the model gives"


def listed(write: WritePlan, there: There, expected: Expected) -> Iterator[tuple[str, str]]:
    """Yield what is missing, what is too much, and what has other dtypes, shapes or sizes."""
    yield from documents_that_differ(write, there)
    yield from numbers_that_differ(write, there, expected)
    for key in sorted(expected.by_key.keys() | there.arrays.keys()):
        wanted, found = expected.by_key.get(key), there.arrays.get(key)
        subject = "/".join(filter(None, key))
        if found is None:
            yield subject, "is a tensor that the export lacks"
        elif wanted is None:
            yield subject, "is a tensor that the model does not give"
        elif (wanted.dtype, wanted.shape) != (found.dtype, found.shape):
            model = f"{wanted.dtype} {list(wanted.shape)}"
            yield subject, f"is {found.dtype} {list(found.shape)}, the model gives {model}"
    yield from _kept(write, there)
    made = {file.path for file in write.files}
    for path, found_file in there.files.items():
        if path.endswith(_INDEX):
            yield from _index(path, found_file, there)
        elif path not in made:
            yield path, "is a file that the model does not give"


def _kept(write: WritePlan, there: There) -> Iterator[tuple[str, str]]:
    """Yield which kept files are missing, or of another size."""
    for file in write.files:
        if file.head or file.path.endswith((*WEIGHTS, _INDEX)):
            continue
        found = there.files.get(file.path)
        if found is None:
            yield file.path, "is not in the export"
        elif found.size != file.nbytes:
            yield file.path, f"has {found.size} bytes, the model gives {file.nbytes}"


def _index(path: str, file: SourceFile, there: There) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with an index: it must name the file of every array beside it."""
    try:
        document: Json = loads(read_whole(file, limits.HEADER_BYTES), floats=True)
    except JsonError as error:
        yield path, str(error)
        return
    found = document.get("weight_map") if isinstance(document, dict) else None
    expected = {
        name: array.file.name
        for (directory, name), array in there.arrays.items()
        if directory == file.directory
    }
    if found != expected:
        yield path, "does not say where the tensors are"
