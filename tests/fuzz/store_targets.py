"""Targets for what a store of another hand holds: its memo, pins and configurations."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cli.views.remake import again_command
from importer.models.description import describe
from importer.models.provenance import provenance_of
from store import Digest, Layer, Manifest, ModelName, Store
from store.errors import IngotError
from store.fs import FileSystem
from store.manifest import CONFIG_MEDIA_TYPE
from store.mark import Marking
from store.memo import Memo, SourceIdentity
from store.text import is_printable
from store.writer_folder import PINS, PURPOSE
from tests.fuzz.scratch import SCRATCH

DIGEST = Digest("0123456789abcdef" * 4)
NAME = ModelName.parse("m")
PATH = Path("/models/m/model.safetensors")
IDENTITY = SourceIdentity(1, 2, 3, 4)


def memo(data: bytes) -> None:
    """A memo's database: whatever is in it, answers are of their type or "not known"."""
    path = SCRATCH / f"{os.getpid()}.sqlite"
    path.write_bytes(data)
    found = Memo(path)
    try:
        assert isinstance(found.knows(DIGEST, FileSystem().status(SCRATCH)), bool)
        assert isinstance(found.seed(create=False), int | None)
        for (offset, nbytes), fingerprint in found.pieces(PATH, IDENTITY).items():
            assert (type(offset), type(nbytes), type(fingerprint)) == (int, int, bytes)
        product = found.product(b"key")
        assert product is None or [type(part) for part in product] == [Digest, int]
        found.have_products([b"form"])
        found.has_pieces(PATH, IDENTITY)
    finally:
        found.close()


def pins(data: bytes) -> None:
    """What a dead writer left: gc reads its pins and purpose."""
    store = _store()
    host, _ = store.fs.machine()
    folder = store.layout.tmp / f"{host}.boot.1.ab"
    folder.mkdir(exist_ok=True)
    for name in (PINS, PURPOSE):
        (folder / name).write_bytes(data)
    (found,) = Marking(store, frozenset()).run(None).unfinished
    assert is_printable(found.purpose)
    assert found.blobs <= len(data.split())


def origin(data: bytes) -> None:
    """Where a model came from: an absolute path, an address, or "not known"."""
    store = _store()
    (store.layout.origins / DIGEST.file_name).write_bytes(data)
    found = store.origins.get(DIGEST)
    assert store.origins.config(DIGEST, DIGEST) is None
    if isinstance(found, str):
        assert found.encode("ascii") == data.partition(b"\0")[0]
        assert is_printable(found)
    else:
        assert found is None or (found.is_absolute() and os.fsencode(found) != b"")


def record(data: bytes) -> None:
    """A configuration: how the model was made, and what it is."""
    store = _store()
    config = Layer(CONFIG_MEDIA_TYPE, DIGEST, len(data))
    manifest = store.catalog.path(NAME)
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_bytes(Manifest(config, ()).to_bytes())
    store.blobs.path(DIGEST).write_bytes(data)
    found = provenance_of(store, store.catalog.get(NAME))
    assert again_command(found).startswith("ingot create m:latest")
    try:
        found.requests(1)
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
    model = describe(store, NAME)
    assert isinstance(model.architecture, str)
    assert all(isinstance(word, str) for word in model.capabilities)


def _store() -> Store:
    store = Store(SCRATCH / f"{os.getpid()}.store")
    store.prepare()
    return store


TARGETS: dict[str, Callable[[bytes], None]] = {
    "memo": memo,
    "origin": origin,
    "pins": pins,
    "record": record,
}
