"""Weights in one or many files, with or without an index: each file read, then all compared."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from importer.sources.base import Contents, Selection
from importer.sources.file import SourceFile, read_whole
from importer.sources.tensor import SourceTensor
from store import limits
from store.errors import InputError
from store.json import JsonError, loads
from store.paths import why_unsafe
from store.text import count, printable

_NAMED = 10
"""Files that one message names."""


class FileContents(NamedTuple):
    """What one weights file holds.

    Attributes:
        tensors: in the order of their data.
        metadata: what the file says about itself.
    """

    tensors: Sequence[SourceTensor]
    metadata: Mapping[str, str]


def read_sharded(
    selection: Selection,
    files: Mapping[str, SourceFile],
    read_file: Callable[[SourceFile], FileContents],
) -> Contents:
    """Read each of the selected files; with an index, exactly those that it maps.

    Args:
        selection: the files, or their index.
        files: every file of the source by path, to find what an index names.
        read_file: reads the header of one.

    Raises:
        InputError: malformed, or shards and index disagree in any way.
        UnsupportedError: as `read_file`.
    """
    if selection.index is None:
        return _collect([files[path] for path in selection.files], read_file)
    index = files[selection.index]
    places = read_index(index, files)
    contents = _collect([files[path] for path in sorted(set(places.values()))], read_file)
    _compare(index, places, contents.tensors)
    return contents


def read_index(index: SourceFile, there: Container[str]) -> dict[str, str]:
    """Read which file each tensor is in: own name of the tensor -> path in the source.

    Args:
        index: a JSON file with a `weight_map`, as transformers and diffusers write it for
            safetensors and for PyTorch's files.
        there: the paths of the source, which must have all that the index names.

    Raises:
        InputError: malformed, or files are missing.
    """
    base = f"{index.directory}/" if index.directory else ""
    places = {name: base + shard for name, shard in _weight_map(index).items()}
    missing = [path for path in sorted(set(places.values())) if path not in there]
    if missing:
        shown = ", ".join(f"`{printable(path)}`" for path in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise InputError(
            f"`{index.path}` names {count(len(missing), 'file')} that "
            f"{'is' if len(missing) == 1 else 'are'} missing: {shown}{more}",
            code="E_SRC_SHARD_MISSING",
            hint="The download is incomplete: fetch the missing files",
        )
    return places


def add_tensors(tensors: dict[str, SourceTensor], found: Iterable[SourceTensor]) -> None:
    """Add tensors by name.

    Raises:
        InputError: two files have tensors of one name.
    """
    for tensor in found:
        if other := tensors.get(tensor.name):
            raise InputError(
                f"tensor `{tensor.name}` is in `{other.file.path}` and in `{tensor.file.path}`",
                code="E_SRC_DUPLICATE",
                hint="Remove or move the file that is not part of the model",
            )
        tensors[tensor.name] = tensor


def _collect(
    files: Sequence[SourceFile], read_file: Callable[[SourceFile], FileContents]
) -> Contents:
    tensors: dict[str, SourceTensor] = {}
    metadata: dict[str, Mapping[str, str]] = {}
    for file in files:
        found = read_file(file)
        add_tensors(tensors, found.tensors)
        if found.metadata:
            metadata[file.path] = found.metadata
    return Contents(tuple(files), tuple(tensors.values()), metadata)


def _weight_map(index: SourceFile) -> dict[str, str]:
    try:
        document = loads(read_whole(index, limits.INDEX_BYTES), floats=True)
    except JsonError as error:
        _bad(index, str(error))
    weight_map = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        _bad(index, "`weight_map` is missing or not an object with entries")
    shards: dict[str, str] = {}
    for name, shard in weight_map.items():
        if not isinstance(shard, str):
            _bad(
                index, f"`weight_map` gives `{printable(name)}` a value that is not a file name"
            )
        shards[name] = shard
    for shard in set(shards.values()):
        if why := why_unsafe(shard):
            raise InputError(
                f"`{index.path}`: shard path `{printable(shard)}` {why}",
                code="E_PATH",
                hint="A shard must be a file beside its index",
            )
    return shards


def _compare(
    index: SourceFile, places: Mapping[str, str], tensors: Sequence[SourceTensor]
) -> None:
    for tensor in tensors:
        name = tensor.own_name
        said = places.get(name)
        if said is None:
            _bad(index, f"does not know tensor `{name}`, which is in `{tensor.file.path}`")
        if said != tensor.file.path:
            where = f"`{printable(said)}`, it is in `{tensor.file.path}`"
            _bad(index, f"puts tensor `{name}` in {where}")
    there = {tensor.own_name for tensor in tensors}
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
