"""Models as an OCI image layout: a directory, or an archive with the same bytes each time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from importer.events import Listener, Moving
from importer.exports.directory import ExportDirectory
from importer.exports.place import check_file_place, check_place, taken
from importer.formats.tar import BLOCK, END, header_of, padding_of
from importer.registry.layout import INDEX, MARK, REF_NAME, VERSION
from importer.registry.manifests import OCI_INDEX, OCI_MANIFEST, Model, artifact_of
from importer.registry.transfer import Amount, Tally
from store import Store
from store.blobs import BlobRef
from store.catalog import StoredManifest
from store.digest import Digest
from store.errors import IntegrityError, UnsupportedError
from store.fs import File
from store.json import Json, dumps
from store.text import printable

_CHUNK: Final = 1 << 20
_BLOBS: Final = "blobs/sha256/"
_ARCHIVE: Final = ".tar"
_COMPRESSED: Final = frozenset(
    (".gz", ".tgz", ".bz2", ".tbz", ".tbz2", ".xz", ".txz", ".zst", ".tzst", ".lz4", ".zip")
)


class Saved(NamedTuple):
    """What was saved.

    Attributes:
        models: their names and digests.
        blobs: of all of them, each once, with the manifests.
        nbytes: of the archive, or of the files in the directory.
    """

    models: tuple[tuple[str, Digest], ...]
    blobs: Amount
    nbytes: int


class _File(NamedTuple):
    """A file of the layout: bytes that are at hand, or a blob of the store."""

    path: str
    data: bytes
    ref: BlobRef | None = None

    @property
    def nbytes(self) -> int:
        return len(self.data) if self.ref is None else self.ref.size


def is_archive(place: Path) -> bool:
    """Whether models are saved to a place as one tar archive."""
    return place.name.endswith(_ARCHIVE)


def save(
    models: Sequence[StoredManifest], place: Path, store: Store, listen: Listener
) -> Saved:
    """Write an OCI image layout of models, which appears whole or not at all.

    Args:
        models: of the store.
        place: that nothing has yet; an archive where it ends with `.tar`.
        store: that has them.
        listen: hears how far it is.

    Raises:
        UsageError: something is at the place, or its name is that of a compressed archive.
        IntegrityError: a blob is missing or damaged.
    """
    if place.suffix.lower() in _COMPRESSED:
        hint = f"Name it `{printable(place.name.partition('.')[0])}.tar`, and compress that"
        taken(place, "would be a compressed archive, expected a .tar or a directory", hint)
    checked, tally = check_place(place), Tally(listen)
    if is_archive(place):
        check_file_place(checked)
    named = tuple(sorted((str(one.name), one) for one in models))
    files = _files([(name, _model(one)) for name, one in named])
    refs = [file.ref for file in files if file.ref is not None]
    tally.listen(Moving("saving", str(place), len(refs), sum(ref.size for ref in refs)))
    only, write = ("archive", _write_archive) if is_archive(place) else (None, _write_directory)
    with ExportDirectory(store.fs, checked, only) as directory:
        nbytes = write(directory, files, store, tally)
        directory.publish()
    return Saved(tuple((name, one.digest) for name, one in named), tally.moved, nbytes)


def _model(stored: StoredManifest) -> Model:
    model = Model(stored.data, stored.parse())
    if not model.manifest.is_supported:
        kind = model.manifest.media_type
        message = f"`{stored.name}` has a manifest of type `{kind}`"
        raise UnsupportedError(message, code="E_MANIFEST")
    return model


def _files(models: Sequence[tuple[str, Model]]) -> list[_File]:
    """Return the files of a layout, in the order of their names."""
    files: dict[str, _File] = {}
    manifests: list[Json] = []
    for name, model in models:
        artifact = artifact_of(model)
        for data in (artifact, model.data):
            path = _BLOBS + Digest.of(data).hex
            files[path] = _File(path, data)
        for ref in model.manifest.blobs:
            path = _BLOBS + ref.digest.hex
            files.setdefault(path, _File(path, b"", ref))
        manifests.append(
            {
                "mediaType": OCI_MANIFEST,
                "digest": str(Digest.of(artifact)),
                "size": len(artifact),
                "annotations": {REF_NAME: name},
            }
        )
    index: Json = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests}
    files[INDEX] = _File(INDEX, dumps(index))
    files[MARK] = _File(MARK, dumps({"imageLayoutVersion": VERSION}))
    return [files[path] for path in sorted(files)]


def _write_directory(
    directory: ExportDirectory, files: Sequence[_File], store: Store, tally: Tally
) -> int:
    for file in files:
        known = [(0, file.data)] if file.data else ()
        directory.make(file.path, file.nbytes, known)
        if file.ref is not None:
            target = directory.open(file.path)
            try:
                _copy(file.ref, target, 0, store, tally)
            finally:
                directory.fs.close(target)
        directory.commit(file.path, file.nbytes)
    return sum(file.nbytes for file in files)


def _write_archive(
    directory: ExportDirectory, files: Sequence[_File], store: Store, tally: Tally
) -> int:
    total = sum(BLOCK + file.nbytes + padding_of(file.nbytes) for file in files)
    total += 2 * BLOCK + len(END)
    directory.make("archive", total, ())
    target, offset = directory.open("archive"), 0
    try:
        for parent in ("blobs/", _BLOBS):
            directory.fs.write_at(target, header_of(parent, 0, is_directory=True), offset)
            offset += BLOCK
        for file in files:
            directory.fs.write_at(target, header_of(file.path, file.nbytes) + file.data, offset)
            offset += BLOCK
            if file.ref is not None:
                _copy(file.ref, target, offset, store, tally)
            offset += file.nbytes
            padding = bytes(padding_of(file.nbytes))
            directory.fs.write_at(target, padding, offset)
            offset += len(padding)
        directory.fs.write_at(target, END, offset)
    finally:
        directory.fs.close(target)
    directory.commit("archive", total)
    return total


def _copy(ref: BlobRef, target: File, offset: int, store: Store, tally: Tally) -> None:
    """Copy a blob, and hash it on the way: what is saved is not seen again for long."""
    sha256 = hashlib.sha256()
    with store.blobs.open(ref.digest) as source, tally.counting(ref) as tell:
        for position, chunk in _chunks(lambda at: store.fs.read(source, _CHUNK, at), ref.size):
            sha256.update(chunk)
            store.fs.write_at(target, chunk, offset + position)
            tell(len(chunk))
    if sha256.hexdigest() != ref.digest.hex:
        raise IntegrityError(f"blob {ref.digest} is damaged", code="E_BLOB_DIGEST")
    tally.has_moved(ref)


def _chunks(read: Callable[[int], bytes], nbytes: int) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < nbytes and (chunk := read(position)[: nbytes - position]):
        yield position, chunk
        position += len(chunk)
