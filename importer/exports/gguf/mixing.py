"""Give the tensors of a file the types of a mixture, all in `llama-quantize`'s order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from importer.codecs.base import Shape
from importer.codecs.ggml.types import NAMED
from importer.exports.gguf.file import Typed
from importer.exports.gguf.mixtures import (
    Facts,
    by_block,
    is_quantized,
    mixed_types,
    trimmed,
    wanted_types,
)
from importer.exports.gguf.parameters import Metadata
from importer.exports.gguf.types import FILE_TYPES, is_plain
from importer.exports.gguf.weighting import importance_of
from importer.formats.gguf.metadata import Value
from importer.formats.imatrix.matrix import ImportanceMatrix
from store.text import count

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


def fallen_back(typed: Sequence[Typed], word: str, facts: Facts) -> Iterator[str]:
    """Yield how many tensors have another type because blocks do not fill their rows.

    Args:
        typed: with the types that they get.
        word: for the type of the file, that was asked for.
        facts: about the model.
    """
    if not word:
        return
    kind = FILE_TYPES[word].kind
    named = [(one.tensor.name, one.tensor.shape) for one in typed]
    if FILE_TYPES[word].is_mixture and not NAMED[kind].is_plain:
        wanted = wanted_types(named, word, kind, facts)
    else:
        wanted = [None if is_plain(name, shape) else kind for name, shape in named]
    found = Counter(
        (asked, one.kind.name)
        for one, asked in zip(typed, wanted, strict=True)
        if asked is not None and one.tensor.shape[-1] % NAMED[asked].elements
    )
    for (asked, got), number in sorted(found.items()):
        yield (
            f"{count(number, 'tensor')} in {got} instead of {asked}: their rows are not "
            f"multiples of {NAMED[asked].elements}"
        )


def moved_last(metadata: Metadata, word: str) -> Metadata:
    """Return the keys as `llama-quantize` writes them: those that it sets come last.

    Args:
        metadata: of the converter's file, which need not have a type.
        word: for the type of the file.
    """
    last: Metadata = {
        "general.quantization_version": metadata["general.quantization_version"],
        "general.file_type": Value("u32", FILE_TYPES[word].number),
    }
    return {key: value for key, value in metadata.items() if key not in last} | last


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
        is_falcon=architecture == "falcon",
    )
