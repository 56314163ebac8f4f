"""Read importance matrices of safetensors: an array for each weight, of its name."""

from __future__ import annotations

from typing import Final

from importer.formats.imatrix.matrix import FLOAT, ImportanceMatrix, malformed
from importer.formats.window import ReadRange
from store.errors import IngotError
from store.tensorfile import LENGTH_BYTES, header_length, parse_header

CHUNKS: Final = "chunks"
"""Key of the metadata: how many pieces of text were read."""
TEXT: Final = "text"
"""Key of the metadata: the name of the text."""
_MOST_DIMENSIONS: Final = 2


def is_safetensors(head: bytes) -> bool:
    """Return whether a file begins as safetensors do."""
    return head[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{"


def read_safetensors(where: str, size: int, read: ReadRange) -> ImportanceMatrix:
    """Read an importance matrix by Hugging Face's names of weights.

    Layout: F32 arrays of shape `[columns]`, or `[experts, columns]` of stacked experts, named
    as the weights are.

    Raises:
        InputError: it is malformed, or has arrays of other dtypes or shapes.
    """
    try:
        length = header_length(read(0, LENGTH_BYTES), size, where)
        header = parse_header(read(LENGTH_BYTES, LENGTH_BYTES + length), size, where)
    except IngotError as error:
        malformed(where, str(error).removeprefix(f"{where}: "))
    entries: dict[str, bytes] = {}
    same: dict[bytes, bytes] = {}
    for entry in header.entries:
        if entry.dtype != "F32" or not 0 < len(entry.shape) <= _MOST_DIMENSIONS:
            malformed(
                where,
                f"`{entry.name}` is {entry.dtype} {list(entry.shape)}, expected F32 [columns] "
                "or [experts, columns]",
            )
        data = read(start := header.nbytes + entry.begin, start + entry.nbytes)
        if not data or len(data) % FLOAT:
            malformed(where, f"`{entry.name}` has no numbers")
        entries[entry.name] = same.setdefault(data, data)
    if not entries:
        malformed(where, "there is no entry")
    chunks, text = header.metadata.get(CHUNKS, ""), header.metadata.get(TEXT)
    return ImportanceMatrix(
        entries,
        (text,) if text else (),
        int(chunks) if chunks.isascii() and chunks.isdigit() and len(chunks) < 10 else 0,  # noqa: PLR2004
        is_gguf=False,
    )
