"""Compare everything that a store claims with its bytes, and report every difference."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from store import limits
from store.blobs import BlobRef
from store.catalog import IGNORED, StoredManifest
from store.digest import Digest
from store.errors import IngotError, is_exhausted
from store.findings import Finding, Problem, Report
from store.fs import File
from store.json import JsonError, loads
from store.manifest import Layer, Manifest, MediaType
from store.names import ModelName
from store.parallel import Stop, each
from store.status import Kind, Status
from store.store import Store
from store.tensorblob import layer_mismatches, read_header
from store.text import count, printable, size
from store.writer_folder import WriterId

Progress = Callable[[int, int], None]
"""Called with the bytes that were just read and those to read in all, from several threads."""


def verify(
    store: Store,
    names: Iterable[ModelName] = (),
    *,
    quick: bool = False,
    jobs: int = 1,
    progress: Progress = lambda _, __: None,
) -> Report:
    """Verify the models `names`, or the whole store when there are none.

    Changes nothing in the store. Takes no lock: manifests are read before blobs, and again
    before a blob is called missing, so a gc or rm beside us is no finding.

    Args:
        quick: look at sizes and headers, hash nothing.
        jobs: threads that hash.
    """
    return _Verification(store, tuple(names), quick, jobs, progress).run()


@dataclass(frozen=True, slots=True)
class _Use:
    """One blob as one manifest uses it; `layer` is None for the configuration."""

    name: ModelName
    manifest: StoredManifest
    ref: BlobRef
    layer: Layer | None


def _what(uses: list[_Use]) -> str:
    # What a blob is for, so that the user knows what is lost.
    titles = {use.layer.title if use.layer else "configuration" for use in uses}
    if not titles:
        return "(unnamed)"
    # Names, which are in backticks, come first.
    first = min(titles, key=lambda title: (not title.startswith("`"), title))
    more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
    return f"({first}{more})"


def _claim(use: _Use) -> tuple[object, ...]:
    # What one use of a blob says of it; the same blob in ten models is looked at once.
    layer = use.layer
    return (layer.media_type, layer.name, layer.dtype, layer.shape) if layer else ()


class _Verification:
    def __init__(
        self,
        store: Store,
        names: tuple[ModelName, ...],
        quick: bool,  # noqa: FBT001 - private, called once, by name order
        jobs: int,
        progress: Progress,
    ) -> None:
        self.store, self.names, self.quick, self.jobs = store, names, quick, jobs
        self.progress = progress
        self.total = 0
        self.notes: list[str] = []
        self.nbytes = 0
        self.mutex = threading.Lock()
        self.stop = Stop()

    def run(self) -> Report:
        findings: list[Finding] = []
        uses: dict[Digest, list[_Use]] = {}
        models = 0
        for use in self._uses(findings):
            uses.setdefault(use.ref.digest, []).append(use)
            models += use.layer is None
        unnamed = dict(self._unnamed(uses, findings))
        if unnamed:
            nbytes = sum(unnamed.values())
            self.notes.append(
                f"{count(len(unnamed), 'blob')} ({size(nbytes)}) named by no model, such as "
                f"{min(unnamed, key=str)}; gc frees them"
            )
            self.total += nbytes
        uses |= {digest: [] for digest in unnamed}
        self.total += sum(use[0].ref.size for use in uses.values() if use)
        # In the order of the digests, so that two runs print the same.
        order = sorted(uses.items(), key=lambda pair: pair[0].hex)
        for found in each(lambda pair: self._check_blob(*pair), order, self.jobs, self.stop):
            findings += found
        if not self.names:
            self._look_at_the_rest()
        return Report(tuple(findings), tuple(self.notes), models, len(uses), self.nbytes)

    def _uses(self, findings: list[Finding]) -> Iterator[_Use]:
        for stored in self._manifests(findings):
            try:
                manifest = stored.parse()
            except IngotError as error:
                name = str(stored.name)
                findings.append(Finding(Problem.MANIFEST, name, str(error), (name,)))
                continue
            findings += _manifest_findings(stored.name, manifest)
            yield _Use(stored.name, stored, manifest.config.ref, None)
            for layer in manifest.layers:
                yield _Use(stored.name, stored, layer.ref, layer)

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
        self, uses: dict[Digest, list[_Use]], findings: list[Finding]
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
                message = f"a {kind} that is no blob"
                findings.append(Finding(Problem.FOREIGN, f"blobs/{printable(name)}", message))

    def _check_blob(self, digest: Digest, uses: list[_Use]) -> list[Finding]:
        names = tuple(sorted({str(use.name) for use in uses}))
        seen = self.store.blobs.status(digest)
        if seen is None:
            return self._missing(digest, uses)
        if seen.kind is not Kind.FILE:
            message = f"{_what(uses)} is a {seen.kind}, expected a file"
            return [Finding(Problem.KIND, str(digest), message, names)]
        sizes = {use.ref.size for use in uses}
        if wrong := sorted(sizes - {seen.size}):
            message = f"{_what(uses)} has {seen.size} bytes, expected {wrong[0]}"
            return [Finding(Problem.SIZE, str(digest), message, names)]
        try:
            with self.store.blobs.open(digest) as file:
                return list(self._check_content(digest, file, seen, uses, names))
        except IngotError:  # gone since we looked
            return self._missing(digest, uses)
        except OSError as error:
            if is_exhausted(error):
                raise
            message = f"{_what(uses)} cannot be read: {error.strerror or error}"
            return [Finding(Problem.UNREADABLE, str(digest), message, names)]

    def _missing(self, digest: Digest, uses: list[_Use]) -> list[Finding]:
        # Only if the manifest that named it still stands: else it went with its model.
        names = tuple(sorted({str(use.name) for use in uses if self._stands(use)}))
        if not names:
            return []
        return [Finding(Problem.MISSING, str(digest), f"{_what(uses)} is missing", names)]

    def _stands(self, use: _Use) -> bool:
        found = self.store.catalog.find(use.name)
        return found is not None and found.data == use.manifest.data

    def _check_content(
        self, digest: Digest, file: File, seen: Status, uses: list[_Use], names: tuple[str, ...]
    ) -> Iterator[Finding]:
        if not self.quick:
            actual = self._hash(file)
            if actual != digest:
                self.store.memo.forget(digest)
                message = f"{_what(uses)} has content that hashes to {actual}"
                yield Finding(Problem.DIGEST, str(digest), message, names)
                return
        claims: dict[tuple[object, ...], list[_Use]] = {}
        for use in uses:
            claims.setdefault(_claim(use), []).append(use)
        for use, *others in claims.values():
            problem = Problem.LAYER
            try:
                if use.layer is None:
                    problem = Problem.CONFIG
                    self._check_config(file, seen.size)
                elif use.layer.media_type == MediaType.TENSOR:
                    models = sorted({str(same.name) for same in (use, *others)})
                    yield from self._check_tensor(use, file, seen.size, tuple(models))
            except IngotError as error:
                problem = Problem.HEADER if problem is Problem.LAYER else problem
                yield Finding(problem, str(digest), str(error), names)
            except JsonError as error:
                yield Finding(problem, str(digest), f"configuration: {error}", names)

    def _hash(self, file: File) -> Digest:
        actual = self.store.blobs.digest_of(file, self._tell)
        with self.mutex:
            self.nbytes += self.store.fs.status_of(file).size
        return actual

    def _tell(self, nbytes: int) -> None:
        self.stop.check()
        self.progress(nbytes, self.total)

    def _check_config(self, file: File, size: int) -> None:
        if size > limits.CONFIG_BYTES:
            message = f"{size} bytes, the limit is {limits.CONFIG_BYTES}"
            raise JsonError(message)
        if not isinstance(loads(self.store.fs.read(file, size, 0), floats=True), dict):
            raise JsonError("is no object")

    def _check_tensor(
        self, use: _Use, file: File, size: int, models: tuple[str, ...]
    ) -> Iterator[Finding]:
        assert use.layer is not None
        header = read_header(self.store, file, size, f"`{printable(use.layer.name)}`")
        for message in layer_mismatches(use.layer, header):
            yield Finding(Problem.LAYER, str(use.ref.digest), message, models)

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
