"""What is damaged of a model, and what is good again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from importer.sources.location import Source
from store import Digest, Layer, Manifest
from store.catalog import StoredManifest


class Repaired(NamedTuple):
    """A blob that is good again.

    Attributes:
        size: bytes.
        what: the layer's name.
        source: that it was made from, or the address in a registry that it came from.
    """

    digest: Digest
    size: int
    what: str
    source: Source | str


@dataclass(frozen=True, slots=True)
class DamagedModel:
    """A model that uses damaged blobs."""

    stored: StoredManifest
    manifest: Manifest

    def uses(self, digest: Digest) -> bool:
        """Whether a blob is one of its own."""
        return any(ref.digest == digest for ref in self.manifest.blobs)

    def among(self, digests: Collection[Digest]) -> list[Layer]:
        """Return its layers whose blobs are among some, each blob once."""
        layers = (self.manifest.config, *self.manifest.layers)
        return list({one.digest: one for one in layers if one.digest in digests}.values())

    def what(self, layer: Layer) -> str:
        """Return what a layer of its own is called."""
        is_config = layer is self.manifest.config
        return layer.name or ("configuration" if is_config else layer.title)
