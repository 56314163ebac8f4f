"""Compare everything that a store claims with its bytes, and report every difference."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from store.blob_check import BlobCheck, Use
from store.catalog import IGNORED, StoredManifest
from store.digest import Digest
from store.errors import IngotError, is_exhausted
from store.findings import Finding, Problem, Report
from store.manifest import Manifest, MediaType
from store.names import ModelName
from store.parallel import Stop, each
from store.status import Kind
from store.store import Store
from store.text import count, printable, size
from store.writer_folder import WriterId

Progress = Callable[[int, int], None]
"""Called with the number of bytes just read and of those to read in all, by several threads."""


def verify(
    store: Store,
    names: Iterable[ModelName | StoredManifest] = (),
    *,
    quick: bool = False,
    threads: int = 1,
    progress: Progress = lambda _, __: None,
) -> Report:
    """Verify the models `names`, or the whole store when there are none.

    Changes nothing in the store. Takes no lock: manifests are read before blobs, and again
    before a blob is called missing, so a gc or rm that runs meanwhile is not a finding.

    Args:
        store: to verify.
        names: of models, or manifests that they have or had.
        quick: look at sizes and headers and hash nothing.
        threads: that hash.
        progress: is told of what was hashed.

    Raises:
        NotFoundError: one of `names` is not there.
        OSError: the process has no descriptors or memory left.
    """
    return _Verification(store, tuple(names)).run(threads, progress, quick=quick)


_OF_MANIFESTS: Final = frozenset({Problem.MANIFEST, Problem.UNREADABLE, Problem.FOREIGN})
"""What gc stops at, too, while only manifests were looked at."""


class _Verification:
    def __init__(self, store: Store, names: tuple[ModelName | StoredManifest, ...]) -> None:
        self.store, self.names = store, names
        self.notes: list[str] = []

    def run(self, threads: int, progress: Progress, *, quick: bool) -> Report:
        findings: list[Finding] = []
        uses: dict[Digest, list[Use]] = {}
        models = 0
        for use in self._uses(findings):
            uses.setdefault(use.ref.digest, []).append(use)
            models += use.layer is None
        hides = any(finding.problem in _OF_MANIFESTS for finding in findings)
        unnamed = dict(self._unnamed(uses, findings))
        if unnamed:
            these = f"{count(len(unnamed), 'blob')} ({size(sum(unnamed.values()))})"
            first = f"such as {min(unnamed, key=str)}"
            # A manifest that cannot be read may name them.
            self.notes.append(
                f"{these} named by no model that can be read, {first}; gc keeps them until "
                "every manifest can be read or is removed"
                if hides
                else f"{these} named by no model, {first}; gc frees them"
            )
        uses |= {digest: [] for digest in unnamed}
        total = sum(unnamed.values()) + sum(use[0].ref.size for use in uses.values() if use)
        stop = Stop()

        def tell(nbytes: int) -> None:
            stop.check()
            progress(nbytes, total)

        blobs = BlobCheck(self.store, quick, tell)
        # In the order of the digests, so that two runs print the same.
        order = sorted(uses.items(), key=lambda pair: pair[0].hex)
        hashed = 0
        for found, nbytes in each(lambda pair: blobs.check(*pair), order, threads, stop):
            findings += found
            hashed += nbytes
        if not self.names:
            self._look_at_the_rest()
        return Report(tuple(findings), tuple(self.notes), models, len(uses), hashed)

    def _uses(self, findings: list[Finding]) -> Iterator[Use]:
        for stored in self._manifests(findings):
            try:
                manifest = stored.parse()
            except IngotError as error:
                name = str(stored.name)
                message = str(error).removeprefix(f"manifest of `{name}`: ")
                findings.append(Finding(Problem.MANIFEST, name, message, (name,)))
                continue
            findings += _manifest_findings(stored.name, manifest)
            yield Use(stored.name, stored, manifest.config.ref, None)
            for layer in manifest.layers:
                yield Use(stored.name, stored, layer.ref, layer)

    def _manifests(self, findings: list[Finding]) -> Iterator[StoredManifest]:
        if self.names:
            yield from map(self.store.catalog.get, self.names)
            return
        for entry in self.store.catalog.entries():
            path = printable(str(entry.path.relative_to(self.store.layout.root)))
            if entry.name is None:
                findings.append(Finding(Problem.FOREIGN, path, entry.why))
                continue
            try:
                found = self.store.catalog.find(entry.name)
            except IngotError as error:
                name = str(entry.name)
                findings.append(Finding(Problem.UNREADABLE, path, str(error), (name,)))
            except OSError as error:
                if is_exhausted(error):
                    raise
                name, message = str(entry.name), f"cannot be read: {error.strerror or error}"
                findings.append(Finding(Problem.UNREADABLE, path, message, (name,)))
                continue
            if found is not None:  # else removed since it was listed
                yield found

    def _unnamed(
        self, uses: dict[Digest, list[Use]], findings: list[Finding]
    ) -> Iterator[tuple[Digest, int]]:
        if self.names or self.store.fs.status(self.store.layout.blobs) is None:
            return
        for name, digest, kind in self.store.blobs.digests():
            if digest is not None:
                seen = self.store.blobs.status(digest)
                if digest not in uses and seen is not None:
                    yield digest, seen.size
            elif name in IGNORED or _is_partial(name):
                self.notes.append(f"`blobs/{printable(name)}` was left behind")
            else:
                message = (
                    f"is a {kind} that is not a blob: no model needs it, move it elsewhere"
                )
                findings.append(Finding(Problem.FOREIGN, f"blobs/{printable(name)}", message))

    def _look_at_the_rest(self) -> None:
        layout = self.store.layout
        host, boot = self.store.fs.machine()
        for folder, _ in self._entries(layout.tmp):
            identity = WriterId.parse(folder)
            if identity is None or (identity.host, identity.boot) != (host, boot):
                self.notes.append(f"`tmp/{printable(folder)}` was left behind")
        for name, _ in self._entries(layout.quarantine):
            self.notes.append(f"`quarantine/{printable(name)}` is kept until gc")
        # They are private: whoever may only read the store cannot list them.
        with contextlib.suppress(PermissionError):
            for name, digest in self.store.origins.digests():
                if digest is None and name not in IGNORED:
                    self.notes.append(f"`origins/{printable(name)}` was left behind")

    def _entries(self, directory: Path) -> list[tuple[str, Kind]]:
        # Ollama's stores have none of these directories, a half-made one has some.
        if self.store.fs.status(directory) is None:
            return []
        return self.store.fs.entries(directory)


def _manifest_findings(name: ModelName, manifest: Manifest) -> Iterator[Finding]:
    subject, models = str(name), (str(name),)
    if not manifest.is_supported:
        message = "schema or media type is not known"
        yield Finding(Problem.MANIFEST, subject, message, models)
    seen: set[tuple[str, str]] = set()
    for layer in manifest.layers:
        key = (layer.media_type, layer.name)
        if layer.name and key in seen:
            message = f"two layers are named `{printable(layer.name)}`"
            yield Finding(Problem.MANIFEST, subject, message, models)
        if layer.media_type == MediaType.TENSOR and not layer.name:
            yield Finding(Problem.MANIFEST, subject, "a tensor layer has no name", models)
        seen.add(key)


_OLLAMA_PARTIAL: Final = "-partial"


def _is_partial(name: str) -> bool:
    # Ollama's own leavings: `sha256-<digits>` while writing, `sha256-<hex>-partial[-N]`.
    stem, _, rest = name.partition(_OLLAMA_PARTIAL)
    if _OLLAMA_PARTIAL in name and Digest.from_file_name(stem):
        return not rest or rest[1:].isdigit()
    return name.startswith("sha256-") and name.removeprefix("sha256-").isdigit()
