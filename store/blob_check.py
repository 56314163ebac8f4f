"""Compare one blob with everything that manifests say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from store import limits
from store.blobs import BlobRef
from store.catalog import StoredManifest
from store.digest import Digest
from store.errors import IngotError, is_exhausted
from store.findings import Finding, Problem
from store.fs import File
from store.json import JsonError, loads
from store.manifest import Layer, MediaType
from store.names import ModelName
from store.status import Kind, Status
from store.store import Store
from store.tensorblob import layer_mismatches, read_header
from store.text import printable


@dataclass(frozen=True, slots=True)
class Use:
    """One blob as one manifest uses it.

    Attributes:
        name: of the model.
        manifest: as it was when the use was found.
        ref: the digest and size that the manifest gives.
        layer: what the manifest says of it, or None for the configuration.
    """

    name: ModelName
    manifest: StoredManifest
    ref: BlobRef
    layer: Layer | None

    @property
    def claim(self) -> tuple[object, ...]:
        """What this use says of the content: equal claims are checked once."""
        layer = self.layer
        return (layer.media_type, layer.name, layer.dtype, layer.shape) if layer else ()


@dataclass(frozen=True, slots=True)
class BlobCheck:
    """Checks blobs of a store, in any thread.

    Attributes:
        quick: look at sizes and headers and hash nothing.
        tell: called with the number of bytes that were just hashed; may raise to stop.
    """

    store: Store
    quick: bool
    tell: Callable[[int], None]

    def check(self, digest: Digest, uses: Sequence[Use]) -> tuple[list[Finding], int]:
        """Compare a blob with its uses.

        Args:
            digest: that names it.
            uses: what manifests say of it; none for a blob that no manifest names.

        Returns:
            What is wrong, and how many bytes were hashed.

        Raises:
            OSError: the process has no descriptors or memory left.
        """
        names = _names(uses)
        seen = self.store.blobs.status(digest)
        if seen is None:
            return self._missing(digest, uses), 0
        if seen.kind is not Kind.FILE:
            message = f"{_what(uses)} is a {seen.kind}, expected a file"
            return [Finding(Problem.KIND, str(digest), message, names)], 0
        sizes = {use.ref.size for use in uses}
        if wrong := sorted(sizes - {seen.size}):
            message = f"{_what(uses)} has {seen.size} bytes, expected {wrong[0]}"
            return [Finding(Problem.SIZE, str(digest), message, names)], 0
        try:
            with self.store.blobs.open(digest) as file:
                return self._check_content(digest, file, seen, uses)
        except IngotError:  # gone since we looked
            return self._missing(digest, uses), 0
        except OSError as error:
            if is_exhausted(error):
                raise
            message = f"{_what(uses)} cannot be read: {error.strerror or error}"
            return [Finding(Problem.UNREADABLE, str(digest), message, names)], 0

    def _missing(self, digest: Digest, uses: Sequence[Use]) -> list[Finding]:
        # Only if the manifest that named it still stands: else it went with its model.
        names = _names([use for use in uses if self._stands(use)])
        if not names:
            return []
        return [Finding(Problem.MISSING, str(digest), f"{_what(uses)} is missing", names)]

    def _stands(self, use: Use) -> bool:
        found = self.store.catalog.find(use.name)
        standing = [*([found] if found else ()), *self.store.history.read(use.name)]
        return any(one.data == use.manifest.data for one in standing)

    def _check_content(
        self, digest: Digest, file: File, seen: Status, uses: Sequence[Use]
    ) -> tuple[list[Finding], int]:
        hashed = 0
        if not self.quick:
            actual = self.store.blobs.digest_of(file, self.tell)
            hashed = self.store.fs.status_of(file).size
            if actual != digest:
                self.store.memo.forget(digest)
                message = f"{_what(uses)} has content that hashes to {actual}"
                return [Finding(Problem.DIGEST, str(digest), message, _names(uses))], hashed
        claims: dict[tuple[object, ...], list[Use]] = {}
        for use in uses:
            claims.setdefault(use.claim, []).append(use)
        findings: list[Finding] = []
        for same in claims.values():
            findings += self._check_claim(digest, file, seen.size, same, _names(uses))
        return findings, hashed

    def _check_claim(
        self,
        digest: Digest,
        file: File,
        nbytes: int,
        same: Sequence[Use],
        names: tuple[str, ...],
    ) -> Iterator[Finding]:
        layer = same[0].layer
        try:
            if layer is None:
                self._check_config(file, nbytes)
            elif layer.media_type == MediaType.TENSOR:
                header = read_header(self.store, file, nbytes, f"`{printable(layer.name)}`")
                for message in layer_mismatches(layer, header):
                    yield Finding(Problem.LAYER, str(digest), message, _names(same))
        except IngotError as error:
            problem = Problem.CONFIG if layer is None else Problem.HEADER
            yield Finding(problem, str(digest), str(error), names)
        except JsonError as error:
            problem = Problem.CONFIG if layer is None else Problem.LAYER
            yield Finding(problem, str(digest), f"configuration: {error}", names)

    def _check_config(self, file: File, nbytes: int) -> None:
        if nbytes > limits.CONFIG_BYTES:
            message = f"{nbytes} bytes, the limit is {limits.CONFIG_BYTES}"
            raise JsonError(message)
        if not isinstance(loads(self.store.fs.read(file, nbytes, 0), floats=True), dict):
            raise JsonError("is not an object")


def _names(uses: Sequence[Use]) -> tuple[str, ...]:
    return tuple(sorted({str(use.name) for use in uses}))


def _what(uses: Sequence[Use]) -> str:
    # What a blob is for, so that the user knows what is lost.
    titles = {use.layer.title if use.layer else "configuration" for use in uses}
    if not titles:
        return "(unnamed)"
    # Names, which are in backticks, come first.
    first = min(titles, key=lambda title: (not title.startswith("`"), title))
    more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
    return f"({first}{more})"
