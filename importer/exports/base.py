"""What a format of exports has to do: the protocol, and the plan of files that it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from importer.codecs.base import Shape, Transcoder
from importer.planning.plan import Plan
from importer.recipes.options import QuantizeOptions
from importer.sources.file import Extent, SourceFile
from importer.sources.roles import LeftOut


class Piece(NamedTuple):
    """Some stored arrays, what converts them, and where the result goes.

    Attributes:
        name: of the tensor, or path of the file, that it is of.
        shape: of the source, in elements.
        extents: of each stored array, in the order that the transcoder wants.
        file: number of the file that it goes into.
        places: offset and size in that file, in bytes, one for each part.
    """

    name: str
    shape: Shape
    extents: tuple[Extent, ...]
    transcoder: Transcoder
    file: int
    places: tuple[tuple[int, int], ...]

    @property
    def nbytes(self) -> int:
        """Bytes that are written."""
        return sum(nbytes for _, nbytes in self.places)

    @property
    def source_nbytes(self) -> int:
        """Bytes that are read."""
        return sum(extent.nbytes for extent in self.extents)


class ExportFile(NamedTuple):
    """A file of an export.

    Attributes:
        path: relative to the export, with `/`.
        nbytes: of the whole file.
        head: its first bytes, known before a weight is read; all of a document.
        fixed: other bytes that are known then, each with its offset.
    """

    path: str
    nbytes: int
    head: bytes = b""
    fixed: tuple[tuple[int, bytes], ...] = ()


class Row(NamedTuple):
    """What becomes of one tensor of the model, for people.

    Attributes:
        before: the type that it has in the source.
        after: the type that it has in the export.
        nbytes: of all its arrays in the export.
    """

    name: str
    shape: Shape
    before: str
    after: str
    file: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Every file of an export, and what fills it; made before the first weight is read.

    Attributes:
        files: sorted bytewise by path.
        pieces: that fill what is not known of the files, each byte once.
        rows: one for each tensor of the model, sorted bytewise by name.
        left_out: what the model has and the export does not, and why.
        lossy: what the format cannot hold as the model has it, a sentence each.
        notes: what else the user should know.
        is_file: whether the export is the one file, and not a directory with it.
    """

    files: tuple[ExportFile, ...]
    pieces: tuple[Piece, ...]
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...] = ()
    lossy: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_file: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(file.nbytes for file in self.files)

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """The files that are read, each once."""
        found = {extent.file: None for piece in self.pieces for extent in piece.extents}
        return tuple(found)


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What was asked of a format.

    Attributes:
        quantize: the type that tensors become, as it is spelled, or None.
        group_size: of that type, or None.
        recipe: a preset, or the path of a file, that decides which tensors; or None.
        dtype: that every float gets: `F32`, `BF16` or `F16`; None for the source's.
        shard_size: bytes of tensors in a file at most, or None for the format's own.
        name: of the model, for formats that write it down.
        imatrix: path of an importance matrix, or None.
        projector: whether the part that sees goes along, in a file of its own.
    """

    quantize: str | None = None
    group_size: int | None = None
    recipe: str | None = None
    dtype: str | None = None
    shard_size: int | None = None
    name: str = "model"
    imatrix: str | None = None
    projector: bool = False


class ExportFormat(Protocol):
    """What another program loads: names, files and headers.

    One file with a class like this, and one line in `importer/exports/formats.py`, are a new
    format. It reads documents and headers and no weights. Which bytes go where is all that it
    decides: the engine reads, converts and writes them.
    """

    def options(self, asked: ExportOptions) -> QuantizeOptions:
        """Return what becomes of the tensors where the user asked for so much.

        Raises:
            UsageError: the format has nothing of the kind.
        """
        ...

    def plan(self, plan: Plan, asked: ExportOptions) -> WritePlan:
        """Decide every file and where each tensor goes.

        Args:
            plan: what becomes of each tensor, by `options`.
            asked: as it was asked.

        Raises:
            InputError: names contradict each other.
            UnsupportedError: the format, or we, cannot hold such a model.
        """
        ...
