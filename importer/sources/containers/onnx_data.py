"""Where the values of an ONNX tensor are: in the file of its graph, or in one beside it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import NoReturn

from importer.codecs.base import Decoder
from importer.codecs.onnx.packed_integers import PackedIntegers
from importer.codecs.onnx.varints import Tagged, Varints
from importer.codecs.plain import Plain
from importer.formats.onnx.problems import malformed, unread
from importer.formats.onnx.tensors import STEP, External, Tensor
from importer.sources.file import SourceFile, find
from importer.sources.tensor import StoredArray
from store.errors import InputError
from store.paths import why_unsafe
from store.tensorfile import ITEM_BITS
from store.text import printable

_BYTE = 8


class Data:
    """The files that the tensors of one graph are in.

    Attributes:
        files: those beside the graph's own.
    """

    def __init__(self, file: SourceFile, there: Mapping[str, SourceFile]) -> None:
        """Look for files beside `file` among those of the source."""
        self._file = file
        self._there = there
        self._beside: dict[str, SourceFile] = {}

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """The files beside the graph's own, without repetition."""
        return tuple(dict.fromkeys(self._beside.values()))

    def array(self, tensor: Tensor, name: str) -> StoredArray:
        """Return the array of a tensor.

        Args:
            name: of the array.

        Raises:
            InputError: its data is not where the model says.
            UnsupportedError: its values do not fill whole bytes, and the store has no type
                that does.
        """
        kind, shape = tensor.kind, tensor.shape
        where = f"`{self._file.path}`: tensor `{printable(name)}`"
        if kind.bits < ITEM_BITS[kind.dtype]:
            decoder: Decoder | None = PackedIntegers(
                kind.dtype, kind.bits, _bytes(tensor, "U8")
            )
        elif tensor.elements * kind.bits % _BYTE:
            unread(where, f"{kind.name} {list(shape)} does not fill whole bytes")
        else:
            decoder = None if tensor.numbers is None else _bytes(tensor, kind.dtype)
        if tensor.external is None:
            start, nbytes = tensor.data.start, tensor.data.nbytes
            return StoredArray(name, kind.dtype, shape, self._file, start, nbytes, decoder)
        file = self._find(tensor.external, where)
        offset = tensor.external.offset
        _check_within(tensor, tensor.external, file, where)
        return StoredArray(name, kind.dtype, shape, file, offset, tensor.nbytes, decoder)

    def _find(self, external: External, where: str) -> SourceFile:
        location = external.location.removeprefix("./")
        if location not in self._beside:
            if why := why_unsafe(location):
                malformed(
                    where,
                    f"the location of its data `{printable(external.location)}` {why}",
                    "E_PATH",
                )
            directory = self._file.directory
            path = f"{directory}/{location}" if directory else location
            file = self._there.get(path)
            if file is None and set(self._there) <= {self._file.path}:
                file = _find_on_disk(self._file, path, location, where)
            if file is None:
                _missing(where, path)
            if file.path == self._file.path:
                malformed(where, "its data is said to be outside of the file itself", "E_PATH")
            self._beside[location] = file
        return self._beside[location]


def _bytes(tensor: Tensor, dtype: str) -> Plain | Varints | Tagged:
    """Return what reads the numbers of a tensor: whole bytes, or its elements."""
    numbers = tensor.numbers
    if numbers is None:
        return Plain(dtype)
    if not numbers.is_varint:
        return Tagged(dtype)
    return Varints(dtype, numbers.starts, tensor.data.nbytes, STEP, numbers.is_tagged)


def _check_within(tensor: Tensor, external: External, file: SourceFile, where: str) -> None:
    there = file.size - external.offset
    if external.length is not None and external.length != tensor.nbytes:
        malformed(
            where,
            f"{tensor.kind.name} {list(tensor.shape)} needs {tensor.nbytes} bytes, its "
            f"external data has {external.length}",
            "E_ONNX_DATA",
        )
    if tensor.nbytes > there:
        malformed(
            where,
            f"its data is {tensor.nbytes} bytes at byte {external.offset} of `{file.path}`, "
            f"which has {file.size}",
            "E_ONNX_TRUNCATED",
        )


def _find_on_disk(file: SourceFile, path: str, location: str, where: str) -> SourceFile | None:
    """Return a file beside one that is the whole source; no link is followed."""
    place = file.location.parent
    seen: os.stat_result | None = None
    for part in location.split("/"):
        place /= part
        try:
            seen = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(seen.st_mode):
            malformed(
                where, f"the location of its data `{printable(path)}` is a link", "E_PATH"
            )
    if seen is None or not stat.S_ISREG(seen.st_mode):
        malformed(where, f"its data `{printable(path)}` is not a regular file", "E_SRC_TYPE")
    return find(path, place)


def _missing(where: str, path: str) -> NoReturn:
    raise InputError(
        f"{where}: its data is in `{printable(path)}`, which is missing",
        code="E_SRC_SHARD_MISSING",
        hint="Fetch the missing file, or name the directory that has both as the source",
    )
