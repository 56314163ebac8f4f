"""The models of a store as a table, and as a document."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.views.table import table
from cli.views.text import ago, rfc3339
from store.text import size

if TYPE_CHECKING:
    from importer.models.summary import Summary
    from store import Manifest
    from store.catalog import StoredManifest

    Listed = tuple[StoredManifest, Manifest, Summary]

_HEAD = ("NAME", "ID", "SIZE", "MODIFIED", "TYPE", "PARAMETERS", "ARCHITECTURE")


def list_lines(models: Sequence[Listed]) -> list[str]:
    """Return the lines that `list` prints: as Ollama's, and what else there is room for."""
    now = time.time()
    rows = [
        (
            str(model.name),
            model.digest.short,
            size(manifest.nbytes),
            ago(model.mtime_ns, now),
            summary.type or "-",
            summary.parameters or "-",
            summary.architecture or "-",
        )
        for model, manifest, summary in models
    ]
    return table([_HEAD, *rows], spare=(6, 5, 4), cut=(0,))


def list_document(models: Sequence[Listed]) -> list[dict[str, object]]:
    """Return the models as `list --json` has them."""
    return [
        {
            "name": str(model.name),
            "digest": str(model.digest),
            "size": manifest.nbytes,
            "modified": rfc3339(model.mtime_ns),
            "type": summary.type or None,
            "parameter_size": summary.parameters or None,
            "architecture": summary.architecture or None,
        }
        for model, manifest, summary in models
    ]
