"""Bytes that never change, and names that do: blobs, manifests, locks, gc, verify."""

from store.blobs import BlobRef, Installed
from store.digest import Digest
from store.errors import IngotError
from store.manifest import Layer, Manifest, MediaType
from store.names import ModelName
from store.store import Store

__all__ = [
    "BlobRef",
    "Digest",
    "IngotError",
    "Installed",
    "Layer",
    "Manifest",
    "MediaType",
    "ModelName",
    "Store",
]
