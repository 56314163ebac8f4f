"""Paths: where things are in a store, and which relative paths are safe anywhere."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from store import limits
from store.text import is_printable

_RESERVED = frozenset({"con", "prn", "aux", "nul", "conin$", "conout$"}) | {
    port + number for port in ("com", "lpt") for number in "0123456789¹²³"
}
_WINDOWS_REFUSES = frozenset('<>:"|?*\\')


class Layout:
    """The paths of a store; each is joined once, because every blob needs some of them."""

    def __init__(self, root: Path) -> None:
        self.root: Final = root

    @functools.cached_property
    def blobs(self) -> Path:
        """Immutable files named by digest."""
        return self.root / "blobs"

    @functools.cached_property
    def manifests(self) -> Path:
        """`<host>/<namespace>/<model>/<tag>`."""
        return self.root / "manifests"

    @functools.cached_property
    def tmp(self) -> Path:
        """One folder per live writer."""
        return self.root / "tmp"

    @functools.cached_property
    def quarantine(self) -> Path:
        """Corrupt blobs, kept until gc."""
        return self.root / "quarantine"

    @functools.cached_property
    def locks(self) -> Path:
        """The two lock files, `gate` and `store`."""
        return self.root / "locks"

    @functools.cached_property
    def origins(self) -> Path:
        """Where models were made from; private to the owner of the store."""
        return self.root / "origins"

    @functools.cached_property
    def history(self) -> Path:
        """What names stood for before, until gc; below it the paths are as in `manifests`."""
        return self.root / "history"

    @functools.cached_property
    def directories(self) -> tuple[Path, ...]:
        """Everything that a writer needs below the root."""
        shared = (self.blobs, self.manifests, self.tmp, self.quarantine, self.locks)
        return (*shared, self.origins, self.history)

    @functools.cached_property
    def memo(self) -> Path:
        """A cache that may be deleted at any time."""
        return self.root / "memo.sqlite"

    @functools.cached_property
    def version(self) -> Path:
        """The version of the store's format, in decimal."""
        return self.root / "VERSION"


def is_reserved(part: str) -> bool:
    """Return whether Windows reserves a file name for a device, or would change it."""
    stem = part.split(".", 1)[0].rstrip(" ")
    return part.endswith((".", " ")) or stem.lower() in _RESERVED


def why_unsafe(path: str) -> str | None:  # noqa: PLR0911 - a list of reasons
    """Return why `path` is not a relative path inside any root on any system, or None.

    POSIX and Windows rules both apply on every platform: rules of one platform alone were
    bypassed three times in huggingface_hub (#1429, #3896, #4540).
    """
    if not path:
        return "is empty"
    if len(path.encode("utf-8", "surrogatepass")) > limits.PATH_BYTES:
        return f"is longer than {limits.PATH_BYTES} bytes"
    if not is_printable(path):
        return "has characters that cannot be printed"
    if bad := sorted(_WINDOWS_REFUSES.intersection(path)):
        return f"has `{bad[0]}`"
    for part in path.split("/"):
        if not part:
            return "is absolute or has an empty part"
        if part in {".", ".."}:
            return f"has a part `{part}`"
        if is_reserved(part):
            return f"has a part `{part}` that is reserved on Windows"
    return None
