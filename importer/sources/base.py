"""What a format of weights files has to do: the protocol, and the values that it gives."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Never, Protocol

from importer.sources.file import SourceFile
from importer.sources.naming import WeightsName
from importer.sources.roles import LeftOut
from importer.sources.tensor import SourceTensor
from importer.sources.whole import WholeModel

if TYPE_CHECKING:  # the room is entered when there is such a file
    from importer.formats.gguf.header import Header

NOTHING: Final[Mapping[str, Never]] = MappingProxyType({})
"""Of nothing, by name."""
ReadRange = Callable[[int, int], bytes]
"""Gives the bytes of a file from the first offset to before the second."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The weights of one directory, as paths in the source.

    Attributes:
        format: the key of the format that reads them.
        files: that hold the tensors; none with an index, which has to be read.
        index: the file that names the others, if there is one.
        left_out: weights files of the format that are not part of the model.
        is_of_variant: whether these are weights of the variant that was asked for.
    """

    format: str
    files: tuple[str, ...]
    index: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    is_of_variant: bool = False


class Contents(NamedTuple):
    """What the weights of one directory hold, with no weight read.

    Attributes:
        files: that were read and hold weights; an index is not one of them.
        tensors: what is stored, one for each array, in the order of the files and of their
            data. Most are plain; a container whose arrays are not (other byte order, strides,
            blocks) gives each the decoder that reads it. Schemes join them later.
        metadata: what each file says about itself (safetensors' `__metadata__`), by path.
        notes: what the user should know, a sentence each.
        headers: of GGUF files, by path: metadata with its types, and where its arrays are.
        whole: what the files become when they are kept as they are, in a format whose files
            programs load so; else None.
        joined: weights that the files themselves say are several of the tensors, under
            `Scheme.join`'s rules; but arrays may be part of several of them.
        may_tie: whether one array may be there under several names.
    """

    files: tuple[SourceFile, ...]
    tensors: tuple[SourceTensor, ...]
    metadata: Mapping[str, Mapping[str, str]] = NOTHING
    notes: tuple[str, ...] = ()
    headers: Mapping[str, Header] = NOTHING
    whole: WholeModel | None = None
    joined: tuple[SourceTensor, ...] = ()
    may_tie: bool = False


class SourceFormat(Protocol):
    """A container: bytes in files that become named arrays.

    One file with a class like this, and one line in `importer/sources/containers.py`, are a
    new format. Which files of a directory are its model (variants, sets of shards, indexes)
    is decided for all formats alike, by the names that `claims` takes apart. A format is
    light to import: what needs numpy or a library imports it in a method.

    Paths are relative to the source, with `/`. Offsets and sizes are in bytes. A method that
    reads a file raises InputError (malformed, hostile, changed meanwhile), UnsupportedError
    (well-formed, but of a kind that is not read) or StorageError (the device failed), and
    allocates nothing by a number in the file before that number is checked.
    """

    def claims(self, path: str, head: bytes | None = None) -> WeightsName | None:
        """Take the name of a weights file or index apart, or return None for another's file.

        Args:
            path: of the file.
            head: the first `HEAD_BYTES` bytes, or all of a shorter file. Where they are
                given, they alone decide: this is how a file of any name is recognized that
                is the whole source. None where only names are known, as for a repository.

        Example:
            >>> Safetensors().claims("vae/model.fp16.safetensors").variant
            'fp16'
        """

    def members(self, index: SourceFile, there: Container[str]) -> tuple[str, ...]:
        """Return the sorted paths of the files that an index names.

        They are what a download needs besides the index, and what `read` will read.

        Args:
            index: a file whose claimed name has `is_index`.
            there: the paths of the source, which must have all that the index names.

        Example:
            >>> Safetensors().members(index, {"a.safetensors", "b.safetensors"})
            ('a.safetensors', 'b.safetensors')
        """

    def fetch_header(self, path: str, size: int, read: ReadRange) -> None:
        """Read the bytes of a weights file that `read` will need, and no others.

        A dry run over the Hub fetches what is read here by range requests, at any offsets,
        into a sparse file of the same size, which then stands for the real one.

        Args:
            path: of the file, for messages.
            size: of the whole file.
            read: called with `0 <= start <= end <= size`; may be called many times.

        Example:
            >>> Safetensors().fetch_header("x.safetensors", len(data), lambda a, b: data[a:b])
        """

    def read(
        self, selection: Selection, files: Mapping[str, SourceFile], component: str
    ) -> Contents:
        """Read the headers of the selected files: every array, and no weight.

        Args:
            selection: what was chosen, of this format.
            files: every file of the source by path, to find what an index names.
            component: the directory, which is put before each tensor's name.

        Example:
            >>> Safetensors().read(Selection("safetensors", ("x.safetensors",)), files, "")
            Contents(...)
        """

    def cross_check(self, file: SourceFile, names: AbstractSet[str]) -> None:
        """Show a file to a second parser, if there is one, which must see the same arrays.

        Args:
            file: one of `Contents.files`.
            names: of all arrays that `read` found in it.
        """


HEAD_BYTES: Final = 512
"""Of a file, from its start: what `SourceFormat.claims` may be shown."""
