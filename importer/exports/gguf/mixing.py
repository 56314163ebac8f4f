"""Give the tensors of a file the types of a mixture, all in `llama-quantize`'s order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from importer.codecs.base import Shape
from importer.codecs.ggml.types import NAMED
from importer.exports.gguf.file import Typed
from importer.exports.gguf.mixtures import Facts, by_block, is_quantized, mixed_types, trimmed
from importer.exports.gguf.parameters import Metadata
from importer.exports.gguf.types import FILE_TYPES
from importer.exports.gguf.weighting import importance_of
from importer.formats.gguf.metadata import Value
from importer.formats.imatrix.matrix import ImportanceMatrix

_BY_BLOCKS: Final = frozenset({"llama", "qwen2", "deci", "olmo"})
"""Of these, models with 80 blocks are those with 70 billion parameters to llama.cpp."""


def mixed(
    typed: Sequence[Typed], word: str, facts: Facts, matrix: ImportanceMatrix | None = None
) -> list[Typed]:
    """Return tensors as `llama-quantize` sorts and types them.

    Args:
        typed: as the converter writes them.
        word: for the type of the file.
        facts: about the model.
        matrix: how much columns count, or None where all count alike.

    Raises:
        UsageError: the type needs an importance matrix.
        InputError: the matrix is of another model.
    """
    ranked = sorted(typed, key=lambda one: by_block(one.tensor.name))
    named = [(one.tensor.name, one.tensor.shape) for one in ranked]
    made = []
    kinds = _kinds(named, word, facts._replace(is_weighted=matrix is not None))
    for (tensor, own, _), kind in zip(ranked, kinds, strict=True):
        importance = None
        if kind is not None:
            own = NAMED[kind]  # noqa: PLW2901 - what it becomes
            importance = importance_of(matrix, tensor.name, tensor.shape, word, kind)
        made.append(Typed(tensor._replace(shape=trimmed(tensor.shape)), own, importance))
    return made


def _kinds(named: Sequence[tuple[str, Shape]], word: str, facts: Facts) -> Sequence[str | None]:
    kind = FILE_TYPES[word].kind
    if NAMED[kind].is_plain:
        return [kind if is_quantized(name, shape) else None for name, shape in named]
    return mixed_types(named, word, kind, facts)


def moved_last(metadata: Metadata) -> Metadata:
    """Return the keys as `llama-quantize` writes them: those that it sets come last."""
    last = ("general.quantization_version", "general.file_type")
    made = {key: value for key, value in metadata.items() if key not in last}
    return made | {key: metadata[key] for key in last}


def facts_of(metadata: Metadata) -> Facts:
    """Return what a mixture asks about the model of a file, by its keys."""
    told = metadata.get("general.architecture")
    architecture = str(told.value) if isinstance(told, Value) else ""

    def number(key: str) -> int:
        found = metadata.get(f"{architecture}.{key}")
        return found.integer or 0 if isinstance(found, Value) else 0

    heads, shared = number("attention.head_count"), number("attention.head_count_kv")
    return Facts(
        number("block_count"),
        number("expert_count"),
        heads // shared if shared else 1,
        is_llama=architecture in _BY_BLOCKS,
    )
