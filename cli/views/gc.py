"""What gc removes, in words and as a document."""

from __future__ import annotations

from collections.abc import Sequence

from store.mark import GcPlan
from store.sharing import Partner
from store.text import count, size

_NAMED = 8


def gc_lines(plan: GcPlan, owners: Sequence[Partner], *, would: bool) -> list[str]:
    """Return the lines that `gc` prints.

    Args:
        plan: what goes, or has gone.
        owners: the names that needed some of it.
        would: whether nothing was removed.
    """
    lines = []
    for writer in plan.unfinished:
        if writer.purpose:
            going = f", {size(writer.pinned_bytes)} of finished blobs" if writer.blobs else ""
            lines.append(f"unfinished import of {writer.purpose}{going}")
    lines += [
        f"kept what writers on {host} may need; `--forget {host}` if they are dead"
        for host in sorted({writer.host for writer in plan.foreign})
    ]
    if plan.is_empty:
        return [*lines, "nothing to free"]
    parts = [count(len(plan.blobs), "blob")]
    if plan.unfinished:
        parts.append(count(len(plan.unfinished), "unfinished writer"))
    if plan.quarantined:
        parts.append(f"{len(plan.quarantined)} from quarantine")
    if plan.former:
        parts.append(count(len(plan.former), "former version"))
    verb = "would free" if would else "freed"
    lines.append(f"{verb} {size(plan.nbytes)}: {', '.join(parts)}")
    lines += [f"  {size(one.nbytes)} of former {one.name}" for one in owners[:_NAMED]]
    if len(owners) > _NAMED:
        lines.append(f"  and of {count(len(owners) - _NAMED, 'other name')}")
    if sum(one.nbytes for one in owners) > plan.nbytes:
        lines.append("  blobs that several of these had are counted for each")
    return lines


def gc_document(plan: GcPlan, owners: Sequence[Partner]) -> dict[str, object]:
    """Return what `gc --json` says of it."""
    return {
        "bytes": plan.nbytes,
        "owners": [{"name": str(one.name), "bytes": one.nbytes} for one in owners],
        "blobs": [{"digest": str(blob.digest), "bytes": blob.size} for blob in plan.blobs],
        "unfinished": [
            {
                "purpose": writer.purpose,
                "partial_bytes": writer.nbytes,
                "blobs": writer.blobs,
                "blob_bytes": writer.pinned_bytes,
            }
            for writer in plan.unfinished
        ],
        "quarantined": [{"name": name, "bytes": nbytes} for name, nbytes in plan.quarantined],
        "origins": [str(digest) for digest in plan.origins],
        "history": [{"name": str(one.name), "digest": str(one.digest)} for one in plan.former],
        "kept_writers": [{"host": writer.host, "pid": writer.pid} for writer in plan.kept],
    }
