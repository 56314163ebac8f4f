"""UQFF: shards of mistral.rs, which are safetensors with layers that describe themselves."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from importer.formats.uqff.names import is_shard
from importer.sources.base import Contents, ReadRange, Selection
from importer.sources.containers.safetensors import (
    compare_with_library,
    header_text,
    read_header,
)
from importer.sources.containers.sharded import FileContents, add_tensors
from importer.sources.containers.uqff_shards import check_report, shard_name
from importer.sources.file import SourceFile, opened, read_bytes
from importer.sources.naming import WeightsName
from importer.sources.tensor import SourceTensor, StoredArray
from store.errors import InputError
from store.tensorfile import parse_header

# What only a source of this format needs is imported where there is one.

KEY: Final = "uqff"
"""In `FORMATS`."""
_GAP: Final = 64 << 10
"""Bytes between two small entries that are read, too, rather than asked for twice."""


class Uqff:
    """Shards `<stem>-<number>.uqff` of mistral.rs, with `residual.safetensors` beside them.

    Their arrays are given as they are stored, without the scalars that say the version; the
    scheme `uqff` makes tensors of them.
    """

    def claims(self, path: str, head: bytes | None = None) -> WeightsName | None:
        """Take the name of a shard apart; by its first bytes it is a safetensors file."""
        return shard_name(path) if head is None else None

    def members(self, index: SourceFile, there: Container[str]) -> tuple[str, ...]:  # noqa: ARG002 - the contract
        """Return nothing: there are no indexes."""
        return ()

    def fetch_header(self, path: str, size: int, read: ReadRange) -> None:
        """Read the header, and the small entries of each layer."""
        from importer.formats.uqff.layers import Entry, is_number  # noqa: PLC0415 - see the top
        from importer.formats.uqff.version import KEYS  # noqa: PLC0415

        header = parse_header(header_text(path, size, read), size, f"`{path}`")
        start = end = 0
        for entry in header.entries:  # in the order of their data
            is_small = is_number(entry.name, Entry(path, entry.dtype, entry.shape))
            if not is_small and (entry.name not in KEYS or entry.shape):
                continue
            begin = header.nbytes + entry.begin
            if end and begin - end > _GAP:
                read(start, end)
                end = 0
            start, end = start if end else begin, begin + entry.nbytes
        if end:
            read(start, end)

    def read(
        self, selection: Selection, files: Mapping[str, SourceFile], component: str
    ) -> Contents:
        """Read the headers of the shards, their version, and what is beside them."""
        from importer.formats.uqff.version import KEYS, METADATA  # noqa: PLC0415

        taken = [files[path] for path in selection.files]
        shards = [file for file in taken if is_shard(file.name)]
        check_report(shards, files)
        found = {file.path: read_header(file, component) for file in taken}
        version = _version({file.path: found[file.path] for file in shards}, shards)
        tensors: dict[str, SourceTensor] = {}
        metadata: dict[str, Mapping[str, str]] = {}
        for file in taken:
            contents = found[file.path]
            in_shard = is_shard(file.name)
            add_tensors(
                tensors,
                (
                    tensor
                    for tensor in contents.tensors
                    if not (in_shard and tensor.own_name in KEYS)
                ),
            )
            told = {METADATA: version} if in_shard else {}
            if told or contents.metadata:
                metadata[file.path] = told | dict(contents.metadata)
        _check_layers(tensors)
        return Contents(tuple(taken), tuple(tensors.values()), metadata)

    def cross_check(self, file: SourceFile, names: AbstractSet[str]) -> None:
        """Have the safetensors library read the header, too."""
        seen = {tensor.arrays[0].name for tensor in read_header(file).tensors}
        if not names <= seen:
            raise InputError(
                f"`{file.path}` no longer has `{min(names - seen)}`", code="E_SOURCE_CHANGED"
            )
        compare_with_library(file, seen)


def _check_layers(tensors: Mapping[str, SourceTensor]) -> None:
    """Refuse shards whose arrays are of no layer at all; the scheme checks those of layers."""
    from importer.formats.uqff.layers import is_tag  # noqa: PLC0415 - see the top
    from importer.formats.uqff.problems import malformed  # noqa: PLC0415

    if any(map(is_tag, tensors)):
        return
    for tensor in tensors.values():
        if is_shard(tensor.file.name):
            message = f"`{tensor.name}` is of no layer: it has no `.weight.format`"
            malformed(f"`{tensor.file.path}`", message)


def _version(found: Mapping[str, FileContents], shards: list[SourceFile]) -> str:
    from importer.formats.uqff.layers import Entry  # noqa: PLC0415 - see the top
    from importer.formats.uqff.version import read_version  # noqa: PLC0415

    told = []
    for file in shards:
        arrays = {
            tensor.arrays[0].name: tensor.arrays[0] for tensor in found[file.path].tensors
        }
        entries = {
            name: Entry(f"`{file.path}`", array.dtype, array.shape)
            for name, array in arrays.items()
        }
        told.append((entries, _reader(arrays)))
    return str(read_version(told, f"`{shards[0].path}`"))


def _reader(arrays: Mapping[str, StoredArray]) -> Callable[[str], bytes]:
    """Return what gives the bytes of an array by its name."""

    def read(name: str) -> bytes:
        array = arrays[name]
        with opened(array.file) as descriptor:
            end = array.offset + array.nbytes
            return read_bytes(array.file, descriptor, array.offset, end)

    return read
