"""What a store takes of the disk, in words and as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cli.views.gc import gc_document
from cli.views.table import facts, table
from store import Store
from store.sharing import Partner
from store.text import count, size
from store.usage import ModelUsage, Usage

_BAR: Final = 20
_NAMED: Final = 3
"""Names that are given of those that a model shares blobs with, where there is room."""


def usage_lines(store: Store, usage: Usage, kernels: tuple[Path, int] | None) -> Iterator[str]:
    """Yield the lines that `df` prints."""
    if usage.models:
        lines = _models(usage.models)
        yield from lines
        yield ""
        if any("█" in line or "░" in line for line in lines):  # there was room for bars
            yield "█ own: `ingot rm` and `ingot gc` would free it   ░ shared"
            yield ""
    yield from facts(_totals(store, usage, kernels), 0)


def _models(models: Sequence[ModelUsage]) -> list[str]:
    """Return the table of the models, which names as many partners of each as fit."""
    largest = max(model.apparent for model in models)
    lines: list[str] = []
    for most in range(_NAMED, -1, -1):
        rows = [("NAME", "SIZE", "OWN", "SHARED", "", "SHARED WITH")]
        for model in sorted(models, key=lambda one: (-one.apparent, str(one.stored.name))):
            own, shared = model.sharing.own, model.sharing.shared
            numbers = size(model.apparent), size(own), size(shared)
            partners = _names(model.sharing.partners, most)
            rows.append((str(model.stored.name), *numbers, _picture(model, largest), partners))
        lines = table(rows, right=(1, 2, 3), spare=(4,), cut=(5, 0))
        if all(line.endswith(row[-1]) for line, row in zip(lines, rows, strict=True)):
            break
    return lines


def _picture(model: ModelUsage, largest: int) -> str:
    full = round(_BAR * model.apparent / max(largest, 1))
    own = round(full * model.sharing.own / max(model.apparent, 1))
    return "█" * own + "░" * (full - own)


def _names(partners: Sequence[Partner], most: int = _NAMED) -> str:
    if partners and not most:
        return count(len(partners), "model")
    named = [f"{one.name} ({size(one.nbytes)})" for one in partners[:most]]
    if len(partners) > most:
        named.append(f"{len(partners) - most} more")
    return ", ".join(named)


def _totals(
    store: Store, usage: Usage, kernels: tuple[Path, int] | None
) -> Iterator[tuple[str, str]]:
    free = usage.free
    yield "store", str(store.layout.root)
    saved = usage.apparent - usage.nbytes
    models = count(len(usage.models), "model")
    saves = f", where sharing saves {size(saved)}" if saved else ""
    yield "models", f"{models}, {size(usage.nbytes)} in {count(usage.blobs, 'blob')}{saves}"
    if free.blobs:
        blobs = count(len(free.blobs), "blob")
        were = f"; they were of {_names(usage.owners)}" if usage.owners else ""
        yield "unnamed", f"{size(usage.unnamed)} in {blobs} that no model names{were}"
    for writer in free.unfinished:
        going = f", {size(writer.pinned_bytes)} of finished blobs" if writer.blobs else ""
        what = f"of {writer.purpose}, " if writer.purpose else ""
        yield "unfinished", f"{what}{size(writer.nbytes)} of partial files{going}"
    if free.quarantined:
        files = count(len(free.quarantined), "corrupt blob")
        yield "quarantine", f"{size(usage.quarantined)} in {files}"
    if free.kept:
        yield "in use", f"by {count(len(free.kept), 'writer')}, whose blobs gc keeps"
    yield (
        "gc frees",
        "nothing while a manifest cannot be read"
        if usage.problems
        else (size(free.nbytes) if not free.is_empty else "nothing"),
    )
    caches = [f"{size(usage.memo)} of {store.layout.memo.name}"]
    if kernels is not None and kernels[1]:
        caches.append(f"{size(kernels[1])} of compiled kernels in {kernels[0]}")
    yield "caches", "; ".join(caches)
    yield "disk", f"{size(store.fs.free(store.layout.root).nbytes)} free"


def usage_document(
    store: Store, usage: Usage, kernels: tuple[Path, int] | None
) -> dict[str, object]:
    """Return what `df --json` prints."""
    caches = [{"path": str(store.layout.memo), "bytes": usage.memo}]
    if kernels is not None:
        caches.append({"path": str(kernels[0]), "bytes": kernels[1]})
    return {
        "store": str(store.layout.root),
        "models": [
            {
                "name": str(model.stored.name),
                "digest": str(model.stored.digest),
                "size": model.apparent,
                "own": model.sharing.own,
                "shared": model.sharing.shared,
                "shared_with": [
                    {"name": str(one.name), "bytes": one.nbytes}
                    for one in model.sharing.partners
                ],
            }
            for model in usage.models
        ],
        "apparent": usage.apparent,
        "blobs": usage.blobs,
        "bytes": usage.nbytes,
        "gc": None if usage.problems else gc_document(usage.free, usage.owners),
        "caches": caches,
        "free": store.fs.free(store.layout.root).nbytes,
        "problems": list(usage.problems),
    }
