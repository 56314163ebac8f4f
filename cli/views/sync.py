"""What became of a list of models, in words and as a document, and what is said of each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cli.views.console import talk, warn
from cli.views.created import remarks, warnings_of
from cli.views.table import fitted

if TYPE_CHECKING:
    from importer.pipeline import ImportResult
    from importer.planning.plan import Plan
    from importer.sync.sync import Synced
    from store import ModelName

_NOTE: Final = "note: "


class Remarks:
    """Warnings and notes of models, which are told as each is made.

    Attributes:
        warnings: by the name of the model.
    """

    def __init__(self) -> None:
        """Begin with nothing that was told."""
        self.warnings: Final[dict[ModelName, tuple[str, ...]]] = {}

    def tell(self, name: ModelName, plan: Plan, result: ImportResult | None) -> None:
        """Say what `create` says of a model, and of which one."""
        self.warnings[name] = warnings_of(plan, result)
        for warning in self.warnings[name]:
            warn(f"`{name}`: {warning}")
        named = (_named(name, line) for line in remarks(plan, "`ingot create --dry-run`"))
        for line in fitted(named, sys.stderr):
            talk(line)


def _named(name: ModelName, line: str) -> str:
    kind = _NOTE if line.startswith(_NOTE) else ""
    return f"{kind}`{name}`: {line.removeprefix(kind)}"


def sync_lines(done: Synced, *, dry_run: bool) -> Iterator[str]:
    """Yield the lines that `sync` prints."""
    for one in done.models:
        if one.action == "unknown":
            yield f"would be made to see whether it differs: {one.name}"
            continue
        would = "would be " if dry_run and one.action != "unchanged" else ""
        digest = f" {one.digest}" if one.digest is not None else ""
        commit = f" at {one.commit[:12]}" if one.commit else ""
        yield f"{would}{one.action}: {one.name}{digest}{commit}"
    for name in done.unlisted:
        if name in done.removed:
            yield f"{'would be ' if dry_run else ''}removed: {name}"
        else:
            yield f"not listed: {name}"


def sync_document(done: Synced, told: Remarks, *, dry_run: bool) -> dict[str, object]:
    """Return the document that `sync --json` prints."""
    return {
        "dry_run": dry_run,
        "models": [
            {
                "name": str(one.name),
                "action": str(one.action),
                "digest": str(one.digest) if one.digest is not None else None,
                "commit": one.commit,
                "warnings": list(told.warnings.get(one.name, ())),
            }
            for one in done.models
        ],
        "unlisted": [str(name) for name in done.unlisted],
        "removed": [str(name) for name in done.removed],
    }
