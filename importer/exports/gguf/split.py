"""Whether an export is one GGUF file or several, cut as `llama-gguf-split` cuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from importer.exports.base import ExportOptions, WritePlan
from importer.exports.gguf.file import Content, Copied, Typed, assemble, infos_of
from importer.exports.gguf.mixtures import trimmed
from importer.exports.gguf.parameters import Metadata
from importer.formats.gguf.metadata import Value
from importer.formats.gguf.writer import padded
from importer.sources.roles import LeftOut
from store.errors import UsageError

PREFIX: Final = "split."
"""Before the keys that say which part of a split a file is."""
_MOST: Final = (1 << 16) - 1
"""Files that can be counted: their number has 16 bits."""


def published(
    asked: ExportOptions,
    model: Content,
    others: Sequence[Content | Copied],
    left_out: tuple[LeftOut, ...],
) -> WritePlan:
    """Return the plan of a model's file, or of a directory with all its files.

    Args:
        asked: with the bytes of a file of a split, if it is to be one.
        model: the whole of it.
        others: files beside it.
        left_out: what the export does not have.
    """
    parts = [model] if asked.shard_size is None else split(model, asked.shard_size)
    is_file = asked.shard_size is None and not others
    return assemble([*parts, *others], left_out, is_file=is_file)


def split(content: Content, limit: int) -> list[Content]:
    """Return the files of a split: all keys are in the first one.

    Args:
        content: of the whole.
        limit: bytes of tensors in a file, padding included; one that is larger is alone.

    Raises:
        UsageError: there would be more files than can be counted.
    """
    parts: list[list[Typed]] = [[]]
    size = 0
    for typed, info in zip(content.typed, infos_of(content.typed), strict=True):
        size += padded(info.nbytes)
        if size > limit and parts[-1]:
            parts.append([])
            size = padded(info.nbytes)
        # llama.cpp does not keep dimensions of 1 before all others.
        tensor = typed.tensor._replace(shape=trimmed(typed.tensor.shape))
        parts[-1].append(typed._replace(tensor=tensor))
    count = len(parts)
    if count > _MOST:
        raise UsageError(
            f"the export would have {count} files, the limit of a split is {_MOST}",
            code="E_EXPORT_SPLIT",
        )
    stem = content.path.removesuffix(".gguf")
    made = []
    for number, part in enumerate(parts):
        metadata: Metadata = {} if number else dict(content.metadata)
        metadata[f"{PREFIX}no"] = Value("u16", number)
        metadata[f"{PREFIX}tensors.count"] = Value("i32", len(content.typed))
        metadata[f"{PREFIX}count"] = Value("u16", count)
        path = f"{stem}-{number + 1:05}-of-{count:05}.gguf"
        made.append(Content(path, metadata, part))
    return made
