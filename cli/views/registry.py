"""What `push`, `pull`, `save` and `load` say of what moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from store.text import count, size

if TYPE_CHECKING:
    from importer.exports.layout import Saved
    from importer.registry.load import Loaded
    from importer.registry.pull import Pulled
    from importer.registry.push import Pushed
    from importer.registry.transfer import Amount
    from store import Digest, ModelName


def push_lines(done: Pushed) -> Iterator[str]:
    """Yield what a push would do."""
    yield f"would push {done.name} to {done.reference} ({done.digest})"
    yield f"{_amount(done.moved)} would move, {_amount(done.present)} are there"


def push_summary(done: Pushed) -> Iterator[str]:
    """Yield what a push did."""
    mounted = f", mounted {_amount(done.mounted)}" if done.mounted.blobs else ""
    yield f"pushed {_amount(done.moved)}{mounted}; {_amount(done.present)} already present"
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
    yield f"pulled {_amount(done.moved)}; {_amount(done.present)} already present"
    yield from _replaced(done.name, done.digest, done.replaced)


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


def save_summary(done: Saved, *, is_archive: bool) -> str:
    """Return what was saved: the blobs, and what the files with them and their index take."""
    where = "an archive" if is_archive else "files"
    return f"saved {_amount(done.blobs)} in {where} of {size(done.nbytes)}"


def save_document(done: Saved, place: str) -> dict[str, object]:
    """Return what was saved, for `--json`."""
    return {
        "path": place,
        "models": [{"name": name, "digest": str(digest)} for name, digest in done.models],
        "blobs": done.blobs.blobs,
        "bytes": done.nbytes,
    }


def load_document(done: Sequence[Loaded]) -> dict[str, object]:
    """Return what was loaded, for `--json`."""
    return {
        "models": [
            {
                "name": str(one.name),
                "digest": str(one.digest),
                "replaced": str(one.replaced) if one.replaced is not None else None,
                "moved": _document(one.moved),
                "present": _document(one.present),
            }
            for one in done
        ]
    }


def load_summary(done: Sequence[Loaded]) -> Iterator[str]:
    """Yield what loading did."""
    for one in done:
        yield f"loaded {one.name}: {_amount(one.moved)}; {_amount(one.present)} already present"
        yield from _replaced(one.name, one.digest, one.replaced)


def _replaced(name: ModelName, digest: Digest, replaced: Digest | None) -> Iterator[str]:
    if replaced == digest:
        yield f"{name} is unchanged"
    elif replaced is not None:
        yield f"replaced {name} (was {replaced.short})"


def _amount(amount: Amount) -> str:
    return f"{count(amount.blobs, 'blob')} ({size(amount.nbytes)})"


def _document(amount: Amount) -> dict[str, int]:
    return {"blobs": amount.blobs, "bytes": amount.nbytes}
