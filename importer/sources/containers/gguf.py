"""GGUF files: which are of this format, what tensors they hold, and what they are to Ollama."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from importer.sources.base import Contents, ReadRange, Selection
from importer.sources.containers.sharded import add_tensors
from importer.sources.file import SourceFile, opened, read_bytes
from importer.sources.naming import Naming, WeightsName
from importer.sources.tensor import SourceTensor, StoredArray
from store.errors import InputError

if TYPE_CHECKING:
    from importer.formats.gguf.header import Header, TensorInfo
    from importer.formats.gguf.metadata import Array

# The room of the format is entered when there is such a file, as with PyTorch's.

_NAMING: Final = Naming((".gguf",))
_MAGIC: Final = b"GGUF"
_LABEL: Final = (
    r"(?i)(?:^|[-._ ])((?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_[A-Z]+)*|NVFP4"
    r"|BF16|FP?16|FP?32|F64))(?=$|[-._ ])"
)
"""The type in a name, as people who publish such files write it: `x-Q4_K_M`, `x.UD-Q2_K_XL`.

It is compiled for the first such file: that takes 2 ms, and most sources have none."""
_PROJECTOR: Final = "mmproj"
_LARGEST: Final = 32 << 20
"""Bytes of one array that a dry run fetches: more than any vocabulary needs."""
_SPLIT: Final = "E_GGUF_SPLIT"


class Gguf:
    """The format of llama.cpp: metadata and tensors in one file, or in a split of several."""

    def claims(self, path: str, head: bytes | None = None) -> WeightsName | None:
        """Take a name apart: `model-Q4_K_M[-N-of-M].gguf`; the type is its variant."""
        directory, _, name = path.rpartition("/")
        if head is not None and not head.startswith(_MAGIC):
            return None
        named = _NAMING.parse(name)
        if named is None:
            return WeightsName(name, stands_alone=True) if head is not None else None
        if named.is_index:
            return None
        label = _label(named.stem) or _label(directory.rpartition("/")[2])
        is_companion = _PROJECTOR in named.stem.lower()
        return WeightsName(
            named.stem,
            label,
            named.number,
            named.count,
            stands_alone=True,
            is_companion=is_companion,
        )

    def members(self, index: SourceFile, there: Container[str]) -> tuple[str, ...]:
        """Return nothing: the format has no index files."""
        del index, there
        return ()

    def fetch_header(self, path: str, size: int, read: ReadRange) -> None:
        """Read the header, arrays included, and the factors of rotary embeddings."""
        from importer.formats.gguf.header import read_header  # noqa: PLC0415 - see the top

        header = read_header(f"`{path}`", size, read)
        for start, end in _small_ranges(header):
            read(start, end)

    def read(
        self, selection: Selection, files: Mapping[str, SourceFile], component: str
    ) -> Contents:
        """Read the headers of the selected files: a model, or a split, and its companions."""
        from importer.sources.containers.gguf_model import whole_model  # noqa: PLC0415 - see the top

        chosen = {path: files[path] for path in selection.files}
        headers = {path: read_file_header(file) for path, file in chosen.items()}
        _check_splits(chosen, headers)
        tensors: dict[str, SourceTensor] = {}
        for path, header in headers.items():
            add_tensors(
                tensors,
                [_tensor(files[path], one, header, component) for one in header.tensors],
            )
        return Contents(
            tuple(chosen.values()),
            tuple(tensors.values()),
            {path: dict(_texts(header)) for path, header in headers.items()},
            tuple(_notes(chosen, headers)),
            headers=headers,
            whole=whole_model(chosen, headers),
        )

    def cross_check(self, file: SourceFile, names: AbstractSet[str]) -> None:
        """Do nothing: the other readers of the format check less than ours."""


def _small_ranges(header: Header) -> Iterator[tuple[int, int]]:
    """Yield what describes a model besides what its header was read for, within bounds."""
    from importer.formats.gguf.metadata import Array, number_bytes  # noqa: PLC0415 - see the top
    from importer.formats.gguf_names.rope import FACTORS  # noqa: PLC0415 - see the top

    for found in header.metadata.values():
        if isinstance(found, Array) and (item := number_bytes(found.kind)):
            yield found.offset, found.offset + min(found.length * item, _LARGEST)
    for tensor in header.tensors:
        if tensor.name in FACTORS and tensor.nbytes <= _LARGEST:
            yield tensor.offset, tensor.offset + tensor.nbytes


def read_file_header(file: SourceFile) -> Header:
    """Read the header of a file of a source.

    Raises:
        InputError: it is malformed.
        UnsupportedError: a version or a type that is not read.
    """
    from importer.formats.gguf.header import read_header  # noqa: PLC0415 - see the top

    with opened(file) as descriptor:
        return read_header(
            f"`{file.path}`",
            file.size,
            lambda start, end: read_bytes(file, descriptor, start, end),
        )


def read_elements(file: SourceFile, array: Array) -> Iterator[object]:
    """Yield the elements of an array of a file's metadata, such as its vocabulary.

    Raises:
        InputError: a string is not UTF-8, or the file has changed.
    """
    from importer.formats.gguf.metadata import read_array  # noqa: PLC0415 - see the top

    with opened(file) as descriptor:
        yield from read_array(
            array,
            lambda start, end: read_bytes(file, descriptor, start, end),
            file.size,
            f"`{file.path}`",
        )


def _label(name: str) -> str:
    found = re.findall(_LABEL, name)
    return found[-1].upper() if found else ""


def _check_splits(files: Mapping[str, SourceFile], headers: Mapping[str, Header]) -> None:
    """Compare the names of a split's files with what each says of itself."""
    total: dict[int | None, int] = {}
    for path, header in headers.items():
        role = files[path].role
        number, count = (role.weights.number, role.weights.count) if role.weights else (0, 0)
        said = header.integer("split.count") or 0
        if max(said, count) <= 1:
            continue
        number_said = header.integer("split.no")
        if (number_said, said) != (number - 1, count):
            place = "" if number_said is None else f"number {number_said + 1} "
            raise InputError(
                f"`{path}` says that it is {place}of a split of {said}, its name does not",
                code=_SPLIT,
                hint="The files of a split are named `NAME-00001-of-00003.gguf`, as "
                "llama-gguf-split does",
            )
        declared = header.integer("split.tensors.count")
        total[declared] = total.get(declared, 0) + len(header.tensors)
    for declared, found in total.items():
        if declared is not None and declared != found:
            raise InputError(
                f"the split of `{next(iter(files))}` has {found} tensors, it says {declared}",
                code=_SPLIT,
                hint="Its files are not of one model: fetch them again",
            )


def _tensor(file: SourceFile, info: TensorInfo, header: Header, component: str) -> SourceTensor:
    kind = info.kind
    if kind.is_plain:
        array = StoredArray(info.name, kind.name, info.shape, file, info.offset, info.nbytes)
        if header.is_big and kind.nbytes > 1:
            from importer.codecs.views.swapped import Swapped  # noqa: PLC0415 - few files are

            array = array._replace(decoder=Swapped(kind.name))
        return SourceTensor.plain(array, component)
    *outer, columns = info.shape
    shape = (*outer, kind.row_nbytes(columns))
    array = StoredArray(info.name, "U8", shape, file, info.offset, info.nbytes)
    from importer.codecs.ggml.decoder import Ggml  # noqa: PLC0415 - see the top

    decoder = Ggml(kind.name)
    whole = SourceTensor.plain(array, component)._replace(shape=info.shape, decoder=decoder)
    if header.is_big:
        from importer.codecs.views.swapped import SwappedBlocks  # noqa: PLC0415 - few files are

        return whole._replace(decoder=SwappedBlocks(decoder))
    return whole


def _texts(header: Header) -> Iterator[tuple[str, str]]:
    from importer.formats.gguf.metadata import Value  # noqa: PLC0415 - see the top

    for key, found in header.metadata.items():
        if isinstance(found, Value):
            value = found.value
            yield key, str(value).lower() if isinstance(value, bool) else str(value)


def _notes(files: Mapping[str, SourceFile], headers: Mapping[str, Header]) -> Iterable[str]:
    for path, header in headers.items():
        rest = files[path].size - header.end
        if rest > header.alignment:
            yield f"`{path}` has {rest} bytes after its last tensor, which nobody reads"
