"""Read an importance matrix from a file."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from importer.formats.imatrix.matrix import ImportanceMatrix
from importer.formats.imatrix.read import read_matrix
from importer.sources.file import SourceFile, find, opened, read_bytes
from importer.sources.roles import IMATRIX, FileRole
from store import Digest, MediaType, Store
from store.errors import IntegrityError, NotFoundError
from store.text import printable

_PIECE: Final = 1 << 20


class MatrixFile(NamedTuple):
    """An importance matrix and the file that holds it.

    Attributes:
        digest: of the file.
    """

    matrix: ImportanceMatrix
    file: SourceFile
    digest: Digest


def read_imatrix(path: Path, where: str = "") -> MatrixFile:
    """Return the matrix in a file, of GGUF, of the older format, or of safetensors.

    Args:
        path: of the file.
        where: what to call it in a message; its path where that is not told.

    Raises:
        NotFoundError: there is no such file.
        InputError: it is malformed.
    """
    where = where or f"`{printable(str(path))}`"
    if not path.is_file():
        raise NotFoundError(
            f"there is no file {where}", code="E_NOT_FOUND", hint="Check the path"
        )
    file = find(IMATRIX, path.resolve(), FileRole(media_type=MediaType.IMATRIX))
    with opened(file) as descriptor:
        read = partial(read_bytes, file, descriptor)
        matrix = read_matrix(where, file.size, read)
        digest = hashlib.sha256()
        for start in range(0, file.size, _PIECE):
            digest.update(read(start, min(start + _PIECE, file.size)))
    return MatrixFile(matrix, file, Digest(digest.hexdigest()))


def find_matrix(store: Store, place: Path | Digest) -> MatrixFile:
    """Return the matrix in a file, or one that models of the store were made with.

    Raises:
        NotFoundError: there is no such file, or the store does not have it.
        InputError: it is malformed.
        IntegrityError: its blob is damaged.
    """
    if isinstance(place, Path):
        return read_imatrix(place)
    digest = place
    path = store.blobs.path(digest)
    if not path.is_file():
        raise NotFoundError(
            f"the recipe goes by the importance matrix {digest}, which the store does not have",
            code="E_IMATRIX_GONE",
        )
    found = read_imatrix(path, f"blob {digest}")
    if found.digest != digest:
        raise IntegrityError(f"blob {digest} is damaged", code="E_BLOB_DIGEST")
    return found._replace(file=replace(found.file, is_blob=True))
