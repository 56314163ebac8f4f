"""Take a GGUF model apart: Hugging Face's tensors, and the files that describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from importer.sources.base import Contents
from importer.sources.containers.gguf_activations import activations_of
from importer.sources.containers.gguf_documents import documents_of
from importer.sources.containers.gguf_facts import facts_of
from importer.sources.containers.gguf_tensors import rename
from importer.sources.document import Document
from importer.sources.file import SourceFile
from importer.sources.tensor import SourceTensor
from store import MediaType
from store.text import printable

_NOTE: Final = 2000
"""Characters of a note, in which there are names of the file."""


class TakenApart(NamedTuple):
    """What the files of one GGUF model become.

    Attributes:
        tensors: under Hugging Face's names, where these are known.
        files: made of the metadata.
        configs: as `Inventory` has them.
        notes: what the user should know, a sentence each.
    """

    tensors: tuple[SourceTensor, ...]
    files: tuple[SourceFile, ...]
    configs: Mapping[str, Document]
    notes: tuple[str, ...]


def take_apart(contents: Contents, *, has_config: bool) -> TakenApart:
    """Take the files of a model, and of its projector, apart.

    Args:
        contents: of the files, with their headers.
        has_config: whether the source has a config.json of its own, which then holds.

    Raises:
        InputError: metadata and shapes contradict each other.
        UnsupportedError: something in them cannot be read in bounded memory.
    """
    kinds = {layer.file.path: layer.media_type for layer in contents.whole.layers}  # type: ignore[union-attr] # only such contents are taken apart
    main = [file for file in contents.files if kinds[file.path] == MediaType.MODEL]
    others = [file for file in contents.files if file not in main]
    if not main:
        note = f"the tensors of `{printable(others[0].path)}` keep the names of the GGUF"
        return TakenApart(contents.tensors, (), {}, (note,))
    first = min(main, key=lambda file: contents.headers[file.path].integer("split.no") or 0)
    header = contents.headers[first.path]
    paths = {file.path for file in main}
    mine = [tensor for tensor in contents.tensors if tensor.file.path in paths]
    renamed = rename(facts_of(first, header), mine)
    shapes = {
        tensor.name: tensor.shape for path in paths for tensor in contents.headers[path].tensors
    }
    made = documents_of(first, header, renamed.apart.variant, shapes)
    rest = tuple(tensor for tensor in contents.tensors if tensor.file.path not in paths)
    notes = [*renamed.notes, *made.notes]
    if rest:
        name = printable(rest[0].file.path)
        notes.append(f"the {len(rest)} tensors of `{name}` keep the names of the GGUF")
    config = {} if made.config is None or has_config else {"": made.config}
    activations = activations_of(first, header) if renamed.apart.variant == "apertus" else ()
    return TakenApart(
        (*renamed.tensors, *activations, *rest),
        made.files,
        config,
        tuple(printable(note, _NOTE) for note in notes),
    )
