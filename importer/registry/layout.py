"""Models in an OCI image layout, which is a directory or a tar archive of one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, Self

from importer.formats.tar import read_entries
from importer.registry.manifests import OCI_INDEX, Model, model_of
from store import limits
from store.blobs import BlobRef
from store.digest import Digest
from store.errors import InputError, IntegrityError, NotFoundError, UnsupportedError
from store.fs import File, FileSystem
from store.json import Json, JsonError, loads
from store.status import Kind
from store.text import printable

MARK: Final = "oci-layout"
INDEX: Final = "index.json"
VERSION: Final = "1.0.0"
REF_NAME: Final = "org.opencontainers.image.ref.name"
_COMPRESSED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7z": "xz",
    b"\x28\xb5": "zstd",
}
_DEEPEST: Final = 4
"""Indexes in an index."""


class Piece(NamedTuple):
    """Bytes of an open file."""

    file: File
    offset: int
    nbytes: int


class Tagged(NamedTuple):
    """A model of a layout, and what it is called there, if anything."""

    tag: str
    model: Model


class Layout:
    """An OCI image layout (image-spec 1.1). A context manager.

    Attributes:
        fs: that it is read through.
        place: where it is.
    """

    def __init__(self, fs: FileSystem, place: Path) -> None:
        """Look at nothing yet."""
        self.fs: Final = fs
        self.place: Final = place
        self._archive: File | None = None
        self._entries: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> Self:
        seen = self.fs.status(self.place.resolve())
        if seen is None:
            message = f"`{printable(str(self.place))}` does not exist"
            raise NotFoundError(message, code="E_LAYOUT_MISSING", hint="Check the path")
        if seen.kind is not Kind.DIRECTORY:
            self._archive = self.fs.open(self.place.resolve())
            try:
                self._scan(self._archive, seen.size)
            except BaseException:
                self.fs.close(self._archive)
                raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._archive is not None:
            self.fs.close(self._archive)

    def models(self) -> list[Tagged]:
        """Return the models that the layout has, in the order of its index.

        Raises:
            InputError: it is malformed.
            UnsupportedError: something in it is not a model.
        """
        mark = self._json(MARK)
        version = mark.get("imageLayoutVersion")
        if version != VERSION:
            self._bad(f"has the version {printable(str(version))}, expected {VERSION}")
        found = list(self._indexed(self._json(INDEX), 0))
        if not found:
            self._bad("has no model")
        return found

    @contextlib.contextmanager
    def open(self, ref: BlobRef) -> Iterator[Piece]:
        """Open a blob.

        Raises:
            InputError: it is not there, or has another size.
        """
        with self._open(f"blobs/sha256/{ref.digest.hex}") as piece:
            if piece.nbytes != ref.size:
                self._bad(f"has {piece.nbytes} bytes of {ref.digest}, expected {ref.size}")
            yield piece

    def _indexed(self, index: dict[str, Json], depth: int) -> Iterator[Tagged]:
        manifests = index.get("manifests")
        if not isinstance(manifests, list) or depth >= _DEEPEST:
            self._bad("has an index without a list of manifests")
        for descriptor in manifests:
            if not isinstance(descriptor, dict):
                self._bad("has an index with something else than descriptors")
            data = self._read(self._ref(descriptor))
            if descriptor.get("mediaType") == OCI_INDEX:
                yield from self._indexed(self._parsed(data, "an index"), depth + 1)
                continue
            notes = descriptor.get("annotations")
            tag = notes.get(REF_NAME) if isinstance(notes, dict) else None
            model = model_of(data, f"in `{printable(str(self.place))}`", self._read)
            yield Tagged(tag if isinstance(tag, str) else "", model)

    def _ref(self, descriptor: dict[str, Json]) -> BlobRef:
        digest, size = descriptor.get("digest"), descriptor.get("size")
        if not isinstance(digest, str) or type(size) is not int:
            self._bad("has a descriptor without digest and size")
        try:
            return BlobRef(Digest.parse(digest), size)
        except IntegrityError as error:
            raise InputError(str(error), code="E_LAYOUT") from error

    def _read(self, ref: BlobRef) -> bytes:
        if not 0 <= ref.size <= limits.MANIFEST_BYTES:
            message = f"manifest {ref.digest} has {ref.size} bytes"
            raise InputError(message, code="E_LIMIT")
        with self.open(ref) as piece:
            data = self.fs.read(piece.file, piece.nbytes, piece.offset)
        if Digest.of(data) != ref.digest:
            self._bad(f"has {ref.digest} with the hash {Digest.of(data)}")
        return data

    def _json(self, path: str) -> dict[str, Json]:
        with self._open(path) as piece:
            if piece.nbytes > limits.MANIFEST_BYTES:
                message = f"`{path}` has {piece.nbytes} bytes"
                raise InputError(message, code="E_LIMIT")
            data = self.fs.read(piece.file, piece.nbytes, piece.offset)
        return self._parsed(data, f"`{path}`")

    def _parsed(self, data: bytes, what: str) -> dict[str, Json]:
        try:
            document = loads(data)
        except JsonError as error:
            self._bad(f"{what}: {error}")
        if not isinstance(document, dict):
            self._bad(f"{what} is not a JSON object")
        return document

    @contextlib.contextmanager
    def _open(self, path: str) -> Iterator[Piece]:
        if self._archive is not None:
            if path not in self._entries:
                self._bad(f"has no `{path}`, which an OCI image layout has")
            yield Piece(self._archive, *self._entries[path])
            return
        try:
            file = self.fs.open(self.place / path)
        except FileNotFoundError:
            self._bad(f"has no `{path}`, which an OCI image layout has")
        except OSError as error:
            self._bad(f"has a `{path}` that is not a file: {error.strerror}")
        try:
            yield Piece(file, 0, self.fs.status_of(file).size)
        finally:
            self.fs.close(file)

    def _scan(self, archive: File, total: int) -> None:
        def read(offset: int, nbytes: int) -> bytes:
            return self.fs.read(archive, nbytes, offset)

        where, head = str(self.place), read(0, 4)
        for magic, name in _COMPRESSED.items():
            if head.startswith(magic):
                raise UnsupportedError(
                    f"`{printable(where)}` is compressed with {name}, expected a tar archive",
                    code="E_ARCHIVE",
                    hint="Unpack it first",
                )
        for entry in read_entries(read, total, where):
            self._entries[entry.path] = entry.offset, entry.nbytes

    def _bad(self, why: str) -> NoReturn:
        message = f"`{printable(str(self.place))}` {why}"
        raise InputError(message, code="E_LAYOUT")
