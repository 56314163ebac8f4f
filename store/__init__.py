"""Bytes that never change, and names that do: blobs, manifests, locks, gc, verify."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from store.blobs import BlobRef, CommitOutcome
    from store.digest import Digest
    from store.errors import IngotError
    from store.manifest import Layer, Manifest, MediaType
    from store.names import ModelName
    from store.store import Store

__all__ = [
    "BlobRef",
    "CommitOutcome",
    "Digest",
    "IngotError",
    "Layer",
    "Manifest",
    "MediaType",
    "ModelName",
    "Store",
]

_HOMES: Final = {
    "BlobRef": "store.blobs",
    "Digest": "store.digest",
    "IngotError": "store.errors",
    "CommitOutcome": "store.blobs",
    "Layer": "store.manifest",
    "Manifest": "store.manifest",
    "MediaType": "store.manifest",
    "ModelName": "store.names",
    "Store": "store.store",
}


def __getattr__(name: str) -> object:
    # On first use, because the help of a command needs `store.errors` alone, and all of
    # the package takes 15 ms of the 30 that are left beside typer.
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(_HOMES[name]), name)
