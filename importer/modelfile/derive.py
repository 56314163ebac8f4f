"""Make a model of a stored one: its layers are copied, and no weight is read."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from importer.modelfile.layers import applied, configured
from importer.request import Use
from store import Digest, Layer, Manifest, ModelName, Store, limits
from store.catalog import StoredManifest
from store.origins import Origin
from store.writer import Writer


class Derivation(NamedTuple):
    """What making a model of another one did.

    Attributes:
        digest: of the manifest.
        replaced: the digest that the name had before, or None.
        kept: layers that both models have.
        made: layers that the new one has of its own.
        dropped: layers that it does not take over.
    """

    name: ModelName
    digest: Digest
    replaced: Digest | None
    kept: int
    made: tuple[Layer, ...]
    dropped: tuple[Layer, ...]


def derive(
    store: Store, name: ModelName, base: ModelName | StoredManifest, use: Use
) -> Derivation:
    """Give `name` to the layers of `base`, with what a use adds and replaces.

    Where it changes nothing, the new model has the digest of the old one.

    Raises:
        NotFoundError: there is no such model.
        IntegrityError: its manifest, its configuration or a layer cannot be read, or is gone.
    """
    store.catalog.check_settable(name)
    stored = store.catalog.get(base)
    manifest = stored.parse()
    with store.writing(name) as writer:
        # Pinned before they are looked at: gc may run.
        refs = iter(manifest.blobs)
        while batch := list(itertools.islice(refs, _BATCH)):
            writer.reuse(batch)
        made = _manifest(store, writer, manifest, use)
        config = store.blobs.read(made.config.ref, limits.CONFIG_BYTES)
        done = writer.publish(name, made, Origin(store.origins.get(stored.digest), config))
    before, after = (set(map(_identity, one.layers)) for one in (manifest, made))
    return Derivation(
        name,
        done.digest,
        done.previous.digest if done.previous is not None else None,
        sum(_identity(layer) in before for layer in made.layers),
        tuple(layer for layer in made.layers if _identity(layer) not in before),
        tuple(layer for layer in manifest.layers if _identity(layer) not in after),
    )


def _identity(layer: Layer) -> tuple[str, Digest, str]:
    return layer.media_type, layer.digest, layer.name


_BATCH = 200
"""Blobs that are pinned at once; gc waits meanwhile."""


def _manifest(store: Store, writer: Writer, manifest: Manifest, use: Use) -> Manifest:
    def read(layer: Layer) -> bytes:
        return store.blobs.read(layer.ref, limits.CONFIG_BYTES)

    def put(data: bytes) -> Layer:
        ref, _ = writer.put(data)
        return Layer("", ref.digest, ref.size)

    layers = applied(manifest.layers, use, read, put)
    before = read(manifest.config)
    config = configured(before, use)
    if config == before:
        return manifest._replace(layers=layers)
    made = put(config)
    changed = manifest.config._replace(digest=made.digest, size=made.size)
    return manifest._replace(config=changed, layers=layers)
