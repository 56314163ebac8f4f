"""A GGUF file that is there already: as it is, or as `llama-quantize` makes another of it."""

from __future__ import annotations

from functools import partial
from typing import Final

from importer.codecs.ggml.decoder import Ggml
from importer.codecs.ggml.types import GgmlType
from importer.codecs.plain import Plain
from importer.codecs.transcode import Copy
from importer.exports.base import ExportFile, Piece, Row, WritePlan
from importer.exports.gguf.file import Typed, assemble
from importer.exports.gguf.mixing import facts_of, mixed, moved_last
from importer.exports.gguf.parameters import Metadata
from importer.exports.gguf.tensors import Member, Tensor
from importer.exports.gguf.types import FILE_TYPES
from importer.exports.gguf.weighting import keys_of
from importer.formats.gguf.header import Header, TensorInfo
from importer.formats.gguf.metadata import Array, Value, read_array
from importer.formats.gguf.writer import Values
from importer.formats.imatrix.matrix import ImportanceMatrix
from importer.sources.containers.gguf import read_file_header
from importer.sources.file import Extent, SourceFile, opened, read_bytes
from importer.sources.inventory import Inventory
from importer.sources.roles import LeftOut
from store.errors import UnsupportedError
from store.text import printable

_SPLIT: Final = "split."
_VERSION: Final = 2


def whole_file(inventory: Inventory) -> SourceFile | None:
    """Return the GGUF file that all weights of a model are in, or None where there is none."""
    is_one = inventory.is_apart and len(inventory.weights) == 1
    return inventory.weights[0] if is_one else None


def copied(name: str, file: SourceFile, left_out: tuple[LeftOut, ...]) -> WritePlan:
    """Return the plan of a file, byte for byte."""
    header = read_file_header(file)
    path = f"{name}.gguf"
    rows = [
        Row(one.name, one.shape, one.kind.name, one.kind.name, path, one.nbytes)
        for one in header.tensors
    ]
    whole = (Extent(file, 0, file.size),)
    piece = Piece(path, (file.size,), whole, Copy("U8"), 0, ((0, file.size),))
    return WritePlan(
        (ExportFile(path, file.size),),
        (piece,),
        tuple(sorted(rows, key=lambda row: row.name)),
        left_out,
        is_file=True,
    )


def requantized(
    name: str,
    file: SourceFile,
    word: str,
    matrix: ImportanceMatrix | None,
    left_out: tuple[LeftOut, ...],
) -> WritePlan:
    """Return the plan of a file whose tensors get other types.

    Args:
        name: of the file, without its ending.
        file: that is there.
        word: for the type of the file.
        matrix: how much columns count, or None where all count alike.
        left_out: what the file does not have.

    Raises:
        UnsupportedError: it is of another byte order, or has a type that is not decoded.
    """
    header = read_file_header(file)
    if header.is_big:
        raise UnsupportedError(
            f"`{printable(file.path)}` is big-endian: its tensors are given other types only "
            "after they are taken out of it",
            code="E_EXPORT_FORMAT",
        )
    metadata = _metadata(header, file)
    metadata["general.quantization_version"] = Value("u32", _VERSION)
    metadata["general.file_type"] = Value("u32", FILE_TYPES[word].number)
    typed = [Typed(_tensor(one, file), one.kind) for one in header.tensors]
    made = mixed(typed, word, facts_of(metadata), matrix)
    return assemble(name, moved_last(metadata) | keys_of(matrix), made, left_out)


def _tensor(info: TensorInfo, file: SourceFile) -> Tensor:
    extents = (Extent(file, info.offset, info.nbytes),)
    decoder = _decoder(info.kind)
    return Tensor(
        info.name, info.shape, (Member(info.shape, extents, decoder),), info.kind.name
    )


def _decoder(kind: GgmlType) -> Plain | Ggml:
    if not kind.is_plain:
        return Ggml(kind.name)
    return Plain(kind.name)


def _metadata(header: Header, file: SourceFile) -> Metadata:
    made: Metadata = {}
    with opened(file) as descriptor:
        read = partial(read_bytes, file, descriptor)
        for key, value in header.metadata.items():
            if key.startswith(_SPLIT):
                continue
            if isinstance(value, Array):
                if value.kind == "array":
                    raise UnsupportedError(
                        f"`{key}` is an array of arrays", code="E_EXPORT_FORMAT"
                    )
                elements = list(read_array(value, read, file.size, file.path))
                made[key] = Values(value.kind, elements)  # type: ignore[arg-type]  # no arrays
            else:
                made[key] = value
    return made
