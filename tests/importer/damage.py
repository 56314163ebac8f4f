"""What may happen to a blob, and which blobs a model has."""

from __future__ import annotations

import os
import shutil

from store import ModelName


def flip(path, place=-1):
    """Change one bit; inode and size stay."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)


def cut(path):
    path.chmod(0o600)
    os.truncate(path, path.stat().st_size // 2)


def extend(path):
    path.chmod(0o600)
    with path.open("ab") as file:
        file.write(b"x")


def lose(path):
    path.unlink()


def become_directory(path):
    path.unlink()
    path.mkdir()
    (path / "file").write_bytes(b"x")


def become_link(path):
    """To a file outside, with the very content."""
    target = path.parents[2] / "outside"
    shutil.copy(path, target)
    path.unlink()
    path.symlink_to(target)


def become_fifo(path):
    path.unlink()
    os.mkfifo(path)


DAMAGES = (flip, cut, extend, lose, become_directory, become_link, become_fifo)


def blob_of(store, layer, name="m"):
    """The path of the blob of one layer, `` for the configuration."""
    manifest = store.catalog.get(ModelName.parse(name)).parse()
    layers = {part.name: part for part in (manifest.config, *manifest.layers)}
    return store.blobs.path(layers[layer].digest)
