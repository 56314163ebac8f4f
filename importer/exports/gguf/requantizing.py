"""GGUF files that are there already: kept, or made into others as `llama-quantize` does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from importer.codecs.ggml.decoder import Ggml
from importer.codecs.ggml.types import GgmlType
from importer.codecs.plain import Plain
from importer.exports.base import ExportOptions, WritePlan
from importer.exports.gguf.file import Content, Copied, Typed, assemble
from importer.exports.gguf.losses import again
from importer.exports.gguf.mixing import facts_of, fallen_back, mixed, moved_last
from importer.exports.gguf.parameters import Metadata
from importer.exports.gguf.split import PREFIX, published
from importer.exports.gguf.tensors import Member, Tensor
from importer.exports.gguf.types import FILE_TYPES
from importer.exports.gguf.weighting import keys_of
from importer.formats.gguf.header import Header, TensorInfo
from importer.formats.gguf.metadata import Array, Value, read_array
from importer.formats.gguf.writer import Values
from importer.formats.imatrix.matrix import ImportanceMatrix
from importer.sources.containers.gguf import read_file_header
from importer.sources.containers.gguf_model import layer_type
from importer.sources.file import Extent, SourceFile, opened, read_bytes
from importer.sources.inventory import Inventory
from importer.sources.roles import LeftOut
from store import MediaType
from store.errors import UnsupportedError
from store.text import printable

_ALIGNMENT: Final = "general.alignment"
"""A key that is not taken over: what we write begins at multiples of 32."""
_VERSION: Final = 2


class Whole(NamedTuple):
    """The GGUF files of a model.

    Attributes:
        parts: of the model itself: one, or those of a split in order.
        others: files beside it: of its projector, or an adapter.
    """

    parts: tuple[SourceFile, ...]
    others: tuple[SourceFile, ...]


def whole_files(inventory: Inventory) -> Whole | None:
    """Return the GGUF files that all weights of a model are in, or None where they are not."""
    if not inventory.is_apart:
        return None
    parts: dict[int, SourceFile] = {}
    others = []
    for file in inventory.weights:
        header = read_file_header(file)
        if layer_type(header, file.path) == MediaType.MODEL:
            parts[header.integer(f"{PREFIX}no") or 0] = file
        else:
            others.append(file)
    model = tuple(parts[number] for number in sorted(parts))
    return Whole(model, tuple(others)) if model else Whole(tuple(others), ())


def copied(name: str, whole: Whole, left_out: tuple[LeftOut, ...]) -> WritePlan:
    """Return the plan of files that stay what they are, byte for byte."""
    parts = [
        Copied(f"{name}.gguf" if len(whole.parts) == 1 else file.name, file)
        for file in whole.parts
    ]
    files = [*parts, *_beside(name, whole)]
    return assemble(files, left_out, is_file=len(files) == 1)


def requantized(
    asked: ExportOptions,
    whole: Whole,
    word: str,
    matrix: ImportanceMatrix | None,
    left_out: tuple[LeftOut, ...],
) -> WritePlan:
    """Return the plan of a model whose tensors get other types, or other files.

    Args:
        asked: with the name of the model, and the bytes of a file of a split.
        whole: its files.
        word: for the type of the file; empty where tensors keep theirs.
        matrix: how much columns count, or None where all count alike.
        left_out: what the export does not have.

    Raises:
        UnsupportedError: it is of another byte order, or has a type that is not decoded.
    """
    metadata: Metadata = {}
    typed: list[Typed] = []
    for number, file in enumerate(whole.parts):
        header = read_file_header(file)
        if header.is_big:
            raise UnsupportedError(
                f"`{printable(file.path)}` is big-endian: its tensors are given other types "
                "only after they are taken out of it",
                code="E_EXPORT_FORMAT",
            )
        if not number:
            metadata = _metadata(header, file)
        typed += (Typed(_tensor(one, file), one.kind) for one in header.tensors)
    if word:
        metadata["general.quantization_version"] = Value("u32", _VERSION)
        metadata["general.file_type"] = Value("u32", FILE_TYPES[word].number)
        typed = mixed(typed, word, facts_of(metadata), matrix)
        metadata = moved_last(metadata, word) | keys_of(matrix)
    model = Content(f"{asked.name}.gguf", metadata, typed)
    notes = (*fallen_back(typed, word, facts_of(metadata)), *(again(typed) if word else ()))
    return replace(published(asked, model, _beside(asked.name, whole), left_out), notes=notes)


def _beside(name: str, whole: Whole) -> list[Copied]:
    """Return the files beside a model under their own names; blobs have none."""
    return [
        Copied(f"mmproj-{name}.gguf" if file.is_blob else file.name, file)
        for file in whole.others
    ]


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
            if key.startswith(PREFIX) or key == _ALIGNMENT:
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
