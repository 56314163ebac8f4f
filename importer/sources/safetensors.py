"""Safetensors checkpoints: every tensor of a directory's weights, with its place."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from importer.sources.file import SourceFile, opened, read_exactly, read_whole
from importer.sources.shards import Selection
from importer.sources.tensor import SourceTensor, StoredArray
from store import limits
from store.errors import InputError
from store.json import JsonError, loads
from store.paths import why_unsafe
from store.tensorfile import LENGTH_BYTES, header_length, parse_header
from store.text import printable


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of one directory, complete.

    Attributes:
        files: that were read.
        tensors: in the order of the files and of their data.
    """

    files: tuple[SourceFile, ...]
    tensors: tuple[SourceTensor, ...]


def read_weights(
    selection: Selection, files: Mapping[str, SourceFile], component: str
) -> Weights:
    """Read the headers of the selected files; with an index, of exactly what it maps.

    Args:
        files: every file of the source by path, to find what an index names.
        component: the directory, which is put before each tensor's name.

    Raises:
        InputError: malformed, or shards and index disagree in any way.
        UnsupportedError: a dtype that is not known.
    """
    if selection.index is None:
        return _collect([files[path] for path in selection.files], component)
    index = files[selection.index]
    places = read_index(index, files)
    weights = _collect([files[path] for path in sorted(set(places.values()))], component)
    _compare(index, places, weights)
    return weights


def read_index(index: SourceFile, there: Container[str]) -> dict[str, str]:
    """Read which file each tensor is in: own name of the tensor -> path in the source.

    Args:
        there: the paths of the source, which must have all that the index names.

    Raises:
        InputError: malformed, or files are missing.
    """
    base = f"{index.directory}/" if index.directory else ""
    places = {name: base + shard for name, shard in _weight_map(index).items()}
    missing = [path for path in sorted(set(places.values())) if path not in there]
    if missing:
        shown = ", ".join(f"`{printable(path)}`" for path in missing[:10])
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""  # noqa: PLR2004
        raise InputError(
            f"`{index.path}` names {len(missing)} files that are missing: {shown}{more}",
            code="E_SRC_SHARD_MISSING",
            hint="The download is incomplete: fetch the missing files",
        )
    return places


def read_tensors(file: SourceFile, component: str = "") -> Iterator[SourceTensor]:
    """Read one header, strictly.

    Raises:
        InputError: it is malformed.
        UnsupportedError: a dtype that is not known.
    """
    where = f"`{file.path}`"
    with opened(file) as descriptor:
        first = bytearray(min(LENGTH_BYTES, file.size))
        read_exactly(file, descriptor, memoryview(first), 0)
        text = bytearray(header_length(bytes(first), file.size, where))
        read_exactly(file, descriptor, memoryview(text), LENGTH_BYTES)
        header = parse_header(bytes(text), file.size, where)
    for entry in header.entries:
        offset = header.nbytes + entry.begin
        array = StoredArray(entry.name, entry.dtype, entry.shape, file, offset, entry.nbytes)
        yield SourceTensor.plain(array, component)


def _collect(files: Sequence[SourceFile], component: str) -> Weights:
    tensors: dict[str, SourceTensor] = {}
    for file in files:
        for tensor in read_tensors(file, component):
            if other := tensors.get(tensor.name):
                raise InputError(
                    f"tensor `{tensor.name}` is in `{other.file.path}` and in `{file.path}`",
                    code="E_SRC_DUPLICATE",
                    hint="Remove or move the file that is not part of the model",
                )
            tensors[tensor.name] = tensor
    return Weights(tuple(files), tuple(tensors.values()))


def _weight_map(index: SourceFile) -> dict[str, str]:
    try:
        document = loads(read_whole(index, limits.INDEX_BYTES), floats=True)
    except JsonError as error:
        _bad(index, str(error))
    weight_map = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        _bad(index, "`weight_map` is missing or no object with entries")
    shards: dict[str, str] = {}
    for name, shard in weight_map.items():
        if not isinstance(shard, str):
            _bad(index, f"`weight_map` gives `{printable(name)}` a value that is no file name")
        shards[name] = shard
    for shard in set(shards.values()):
        if why := why_unsafe(shard):
            raise InputError(
                f"`{index.path}`: shard path `{printable(shard)}` {why}",
                code="E_PATH",
                hint="A shard must be a file beside its index",
            )
    return shards


def _compare(index: SourceFile, places: Mapping[str, str], weights: Weights) -> None:
    for tensor in weights.tensors:
        name = tensor.own_name
        said = places.get(name)
        if said is None:
            _bad(index, f"does not know tensor `{name}`, which is in `{tensor.file.path}`")
        if said != tensor.file.path:
            where = f"`{printable(said)}`, it is in `{tensor.file.path}`"
            _bad(index, f"puts tensor `{name}` in {where}")
    there = {tensor.own_name for tensor in weights.tensors}
    if absent := sorted(set(places) - there):
        name = absent[0]
        more = f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
        shard = printable(places[name])
        _bad(index, f"puts tensor `{printable(name)}` in `{shard}`, which lacks it{more}")


def _bad(index: SourceFile, message: str) -> NoReturn:
    raise InputError(
        f"`{index.path}`: {message}",
        code="E_SRC_INDEX",
        hint="The index and the shards are not of one checkpoint: fetch both again",
    )
