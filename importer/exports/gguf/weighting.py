"""The importance matrix that was asked for: where it counts, and what a file says of it."""

from __future__ import annotations

import math
from typing import Final

from importer.codecs.base import Shape
from importer.exports.gguf.parameters import Metadata
from importer.formats.gguf.metadata import Value
from importer.formats.imatrix.matrix import ImportanceMatrix
from store.errors import InputError, UsageError
from store.text import printable

_ENDS: Final = frozenset({"token_embd.weight", "per_layer_token_embd.weight", "output.weight"})
_NEEDS: Final = "Q2_K_S"
_TEXT_BYTES: Final = 127
"""Of a value that llama-quantize sets, at most."""


def importance_of(
    matrix: ImportanceMatrix | None, name: str, shape: Shape, word: str, kind: str
) -> tuple[bytes, ...] | None:
    """Return how much columns count, for each matrix of a tensor; None where all count alike.

    Args:
        matrix: that was asked for.
        name: GGUF's, of the tensor.
        shape: of the tensor.
        word: for the type of the file.
        kind: that the tensor gets.

    Raises:
        UsageError: the type of the file is not made without a matrix.
        InputError: the matrix is of another model.
    """
    is_needed = word == _NEEDS and kind == "Q2_K" and name not in _ENDS
    if matrix is None:
        if is_needed:
            raise UsageError(
                f"{_NEEDS} is made with an importance matrix alone: llama-quantize refuses it "
                "without, too",
                code="E_EXPORT_TYPE",
            )
        return None
    try:
        found = matrix.of(name, math.prod(shape[:-2]), shape[-1])
    except InputError:
        if name not in _ENDS:
            raise
        return None  # of the embeddings there may be one for each token
    if found is None and is_needed:
        raise InputError(
            f"the importance matrix has nothing for `{printable(name)}`, which Q2_K needs",
            code="E_IMATRIX_SHAPE",
        )
    return found


def keys_of(matrix: ImportanceMatrix | None) -> Metadata:
    """Return the keys that tell of a matrix; not its path, which is nobody else's business."""
    if matrix is None:
        return {}
    made: Metadata = {}
    if matrix.datasets:
        text = matrix.datasets[0].encode()[:_TEXT_BYTES].decode(errors="ignore")
        made["quantize.imatrix.dataset"] = Value("string", text)
    made["quantize.imatrix.entries_count"] = Value("u32", len(matrix.entries))
    if matrix.chunks > 0:
        made["quantize.imatrix.chunks_count"] = Value("u32", matrix.chunks)
    return made
