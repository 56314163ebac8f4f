"""What `push` and `pull` say of what moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.text import count, size

if TYPE_CHECKING:
    from importer.registry.pull import Pulled
    from importer.registry.push import Pushed
    from importer.registry.transfer import Amount


def push_lines(done: Pushed) -> Iterator[str]:
    """Yield what a push would do."""
    yield f"would push {done.name} to {done.reference} ({done.digest})"
    yield f"{_amount(done.moved)} would move, {_amount(done.present)} are there"


def push_summary(done: Pushed) -> Iterator[str]:
    """Yield what a push did."""
    mounted = f", mounted {_amount(done.mounted)}" if done.mounted.blobs else ""
    yield f"pushed {_amount(done.moved)}{mounted}; {_amount(done.present)} were there"
    if not done.is_new:
        yield f"{done.reference} is unchanged"


def push_document(done: Pushed, *, dry_run: bool) -> dict[str, object]:
    """Return what a push did, or would do, for `--json`."""
    return {
        "name": str(done.name),
        "reference": str(done.reference),
        "digest": str(done.digest),
        "dry_run": dry_run,
        "unchanged": not done.is_new,
        "moved": _document(done.moved),
        "mounted": _document(done.mounted),
        "present": _document(done.present),
    }


def pull_lines(done: Pulled) -> Iterator[str]:
    """Yield what a pull would do."""
    yield f"would pull {done.reference} as {done.name} ({done.digest})"
    yield f"{_amount(done.moved)} would move, {_amount(done.present)} are there"


def pull_summary(done: Pulled) -> Iterator[str]:
    """Yield what a pull did."""
    yield f"pulled {_amount(done.moved)}; {_amount(done.present)} were there"
    if done.replaced == done.digest:
        yield f"{done.name} is unchanged"
    elif done.replaced is not None:
        yield f"replaced {done.name} (was {done.replaced.short})"


def pull_document(done: Pulled, *, dry_run: bool) -> dict[str, object]:
    """Return what a pull did, or would do, for `--json`."""
    return {
        "reference": str(done.reference),
        "name": str(done.name),
        "digest": str(done.digest),
        "dry_run": dry_run,
        "replaced": str(done.replaced) if done.replaced is not None else None,
        "moved": _document(done.moved),
        "present": _document(done.present),
    }


def _amount(amount: Amount) -> str:
    return f"{count(amount.blobs, 'blob')} ({size(amount.nbytes)})"


def _document(amount: Amount) -> dict[str, int]:
    return {"blobs": amount.blobs, "bytes": amount.nbytes}
