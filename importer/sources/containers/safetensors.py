"""Safetensors: which files are of this format, and what their headers say."""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from importer.formats.content import FETCH_POINTER, LFS_POINTER, SAFETENSORS, content_of
from importer.sources.base import HEAD_BYTES, Contents, ReadRange, Selection
from importer.sources.containers.sharded import FileContents, read_index, read_sharded
from importer.sources.file import SourceFile, opened, read_bytes
from importer.sources.naming import Naming, WeightsName
from importer.sources.schemes.contents import is_needed
from importer.sources.tensor import SourceTensor, StoredArray
from store import limits
from store.errors import InputError, StorageError
from store.tensorfile import LENGTH_BYTES, header_length, parse_header
from store.text import printable

_NAMING: Final = Naming(
    (".safetensors",), ("model", "diffusion_pytorch_model"), ("consolidated",)
)
"""The likeliest name first; `consolidated` is Mistral's own second copy."""
_DESCRIPTORS: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"

_GAP: Final = 1 << 14
"""Bytes between two arrays that are read, too, rather than asked for twice."""


class Safetensors:
    """Hugging Face's own format: a JSON header before the data."""

    def claims(self, path: str, head: bytes | None = None) -> WeightsName | None:
        """Take a name apart: `model[.variant][-N-of-M].safetensors`, or that of an index."""
        name = path.rpartition("/")[2]
        if head is None:
            return _NAMING.parse(name)
        length = int.from_bytes(head[:LENGTH_BYTES], "little")
        is_header = head[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{"
        if not is_header or length > limits.HEADER_BYTES:  # text is a length of 10^18
            return None
        return _NAMING.parse(name) or WeightsName(name)

    def members(self, index: SourceFile, there: Container[str]) -> tuple[str, ...]:
        """Return the paths of the files in an index's `weight_map`."""
        return tuple(sorted(set(read_index(index, there).values())))

    def fetch_header(self, path: str, size: int, read: ReadRange) -> None:
        """Read the header, at the start of the file, and the arrays that schemes read."""
        header = parse_header(header_text(path, size, read), size, f"`{path}`")
        ranges: list[tuple[int, int]] = []
        for entry in sorted(header.entries, key=lambda entry: entry.begin):
            if is_needed(entry.name, entry.nbytes):
                start = header.nbytes + entry.begin
                first, end = ranges.pop() if ranges else (start, start)
                if start - end > _GAP:
                    ranges.append((first, end))
                    first = start
                ranges.append((first, start + entry.nbytes))
        for start, end in ranges:
            read(start, end)

    def read(
        self, selection: Selection, files: Mapping[str, SourceFile], component: str
    ) -> Contents:
        """Read the headers of the selected files, strictly."""
        return read_sharded(selection, files, lambda file: read_header(file, component))

    def cross_check(self, file: SourceFile, names: AbstractSet[str]) -> None:
        """Have the safetensors library, which was audited, read the header, too."""
        compare_with_library(file, names)


def read_header(file: SourceFile, component: str = "") -> FileContents:
    """Read the header of one file, strictly.

    Raises:
        InputError: it is malformed.
        UnsupportedError: a dtype that is not known.
    """
    with opened(file) as descriptor:
        text = header_text(
            file.path, file.size, lambda start, end: read_bytes(file, descriptor, start, end)
        )
    header = parse_header(text, file.size, f"`{file.path}`")
    arrays = (
        StoredArray(
            entry.name,
            entry.dtype,
            entry.shape,
            file,
            header.nbytes + entry.begin,
            entry.nbytes,
        )
        for entry in header.entries
    )
    tensors = [SourceTensor.plain(array, component) for array in arrays]
    return FileContents(tensors, header.metadata)


def header_text(path: str, size: int, read: ReadRange) -> bytes:
    """Return the JSON of a header, which is at the start of the file.

    Raises:
        InputError: the file cannot be one of safetensors.
    """
    head = read(0, min(LENGTH_BYTES, size))
    if int.from_bytes(head, "little") > size - len(head):
        _check_content(path, read(0, min(HEAD_BYTES, size)))
    length = header_length(head, size, f"`{path}`")
    return read(LENGTH_BYTES, LENGTH_BYTES + length)


def _check_content(path: str, head: bytes) -> None:
    what = content_of(head)
    if what is not None and what != SAFETENSORS:
        raise InputError(
            f"`{path}` is {what}, expected a safetensors file",
            code="E_ST_CONTENT",
            hint=FETCH_POINTER if what == LFS_POINTER else None,
        )


def compare_with_library(file: SourceFile, names: AbstractSet[str]) -> None:
    """Have the safetensors library read a header, which must see arrays of these names.

    Raises:
        InputError: it refuses the file, or sees others.
        StorageError: it cannot read the file.
    """
    # Here, because numpy, which the library needs, should not be imported to check nothing.
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    where = f"`{file.path}`"
    try:
        with (
            opened(file) as descriptor,
            safe_open(f"{_DESCRIPTORS}/{descriptor}", framework="np") as reference,
        ):
            seen = set(reference.keys())
    except OSError as error:
        raise StorageError(
            f"{where}: the safetensors library cannot read it: {printable(str(error), 300)}",
            code="E_IO",
        ) from error
    except SafetensorError as error:
        raise InputError(
            f"{where}: the safetensors library refuses it: {printable(str(error), 300)}",
            code="E_ST_REFERENCE",
        ) from error
    if seen != names:
        odd = printable(min(seen ^ names))
        raise InputError(
            f"{where}: two parsers see different tensors, such as `{odd}`",
            code="E_ST_REFERENCE",
        )
