"""One blob from the store into a registry: mounted, or sent in chunks that are resumed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from importer.http.ranges import UnreachableError
from importer.registry.client import Call, Registry
from importer.registry.errors import beginning, odd_answer
from importer.registry.transfer import Tally, Tell
from store.blobs import BlobRef, BlobStore
from store.errors import IntegrityError
from store.parallel import StoppedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from store.fs import File

CHUNK_BYTES: Final = 64 << 20
"""Of one request: below what proxies admit (Cloudflare: 100 MB)."""
_PIECE: Final = 256 << 10
_SENT: Final = 1 << 20
"""Bytes of a request that went out before its connection broke: then somebody took them."""
_HASHED_A_SECOND: Final = 20e6
"""Bytes; a registry reads a whole blob again before it answers the last request."""
LOST: Final = frozenset({400, 404, 409, 416})
"""What registries say of an upload that they do not have as we think they have it."""
_RANGE: Final = re.compile(r"(?:bytes=)?0-(\d{1,18})")
_CREATED, _ACCEPTED, _STATUS = 201, 202, 204


def has_blob(registry: Registry, ref: BlobRef) -> bool:
    """Return whether a registry has a blob."""
    call = Call("HEAD", f"blobs/{ref.digest}", "blob", admits=frozenset({404}))

    def look() -> bool:
        with registry.ask(call) as response:
            return response.status_code == 200  # noqa: PLR2004 - it is there

    return registry.retried(look)


class Upload:
    """An upload as OCI's and Docker's registries know it."""

    def __init__(
        self, registry: Registry, blobs: BlobStore, ref: BlobRef, file: File, tell: Tell
    ) -> None:
        """Send nothing yet."""
        self._registry, self._blobs, self._ref, self._file = registry, blobs, ref, file
        self._tell = tell
        self._location = ""
        self._offset = self._told = 0
        self._chunk = CHUNK_BYTES

    def mount(self, other: str) -> bool:
        """Have the registry take the blob from another of its repositories, if it can."""
        query = urlencode({"mount": str(self._ref.digest), "from": other})
        return self._registry.retried(
            lambda: self._begin(f"?{query}", frozenset({400, 403, 404}))
        )

    def run(self) -> None:
        """Send the blob, going on where the connection breaks."""
        patience, cuts = self._registry.patience(), self._registry.patience_with_cuts()
        is_done, farthest = False, 0
        while not is_done:
            begun = self._offset
            try:
                is_done = self._step()
            except UnreachableError as error:
                # Not everybody keeps what came of a chunk; that it came tells of a registry.
                has_sent = self._told - begun >= _SENT
                (cuts if has_sent else patience).wait(error)
                self._registry.retried(self._recover)
            if self._offset > farthest:
                farthest, patience.failures, cuts.failures = self._offset, 0, 0

    def _step(self) -> bool:
        """Send one request; return whether the registry has the blob now."""
        if not self._location:
            return self._begin("")
        left = self._ref.size - self._offset
        if self._offset == 0 and left <= self._chunk:
            return self._finish(left)
        if left == 0:
            return self._finish(0)
        self._send(min(left, self._chunk))
        return False

    def _begin(self, query: str, admits: frozenset[int] = frozenset()) -> bool:
        """Begin an upload; return whether none is needed."""
        call = Call("POST", f"blobs/uploads/{query}", self._what, EMPTY, admits=admits)
        with self._registry.ask(call) as response:
            beginning(response)
            if response.status_code == _ACCEPTED:
                self._follow(response.headers)
                least = response.headers.get("OCI-Chunk-Min-Length", "")
                if least.isdigit():
                    self._chunk = max(CHUNK_BYTES, int(least[:15]))
            return response.status_code == _CREATED

    def _send(self, nbytes: int) -> None:
        start, end = self._offset, self._offset + nbytes
        headers = {"Content-Range": f"{start}-{end - 1}", **sized(nbytes)}
        with self._registry.ask(
            self._call("PATCH", self._location, headers, nbytes)
        ) as response:
            beginning(response)
            if response.status_code in LOST:
                raise self._lost(response.status_code)
            self._follow(response.headers)
            said = _RANGE.fullmatch(response.headers.get("Range", ""))
            self._offset = min(int(said[1]) + 1, end) if said else end
            self._count_to(self._offset)

    def _finish(self, nbytes: int, more: str = "") -> bool:
        parts = urlsplit(self._location)
        query = "&".join(filter(None, (parts.query, f"digest={self._ref.digest}", more)))
        address = urlunsplit(parts._replace(query=query))
        with self._registry.ask(self._call("PUT", address, sized(nbytes), nbytes)) as response:
            body = beginning(response)
            if response.status_code in LOST:
                if b"DIGEST_INVALID" in body and not self._blobs.vouch(self._ref):
                    raise IntegrityError(
                        f"blob {self._ref.digest} is damaged", code="E_BLOB_DIGEST"
                    )
                raise self._lost(response.status_code)
            said = response.headers.get("Docker-Content-Digest", "")
            if said not in {"", str(self._ref.digest)}:
                what = f"it took {self._ref.digest} for {said}"
                raise odd_answer(self._registry.reference.host, what)
        return True

    def _recover(self) -> None:
        """Find out what the registry has of the upload, or begin again."""
        location, self._location = self._location, ""
        self._offset = 0
        if location:
            call = Call("GET", location, self._what, admits=LOST | {403, 405, 501})
            with self._registry.ask(call) as response:
                said = _RANGE.fullmatch(response.headers.get("Range", ""))
                if response.status_code == _STATUS and said is not None and int(said[1]):
                    self._location = location
                    self._follow(response.headers)
                    self._offset = min(int(said[1]) + 1, self._ref.size)
        self._count_to(self._offset)

    def _follow(self, headers: Mapping[str, str]) -> None:
        """Take the address for the next request, which Ollama's registry also gives so."""
        location = headers.get("Docker-Upload-Location") or headers.get("Location", "")
        if location:
            self._location = self._registry.resolved(location)
        elif not self._location:
            host = self._registry.reference.host
            raise odd_answer(host, "it does not say where to send the blob")

    def _call(self, method: str, address: str, headers: Mapping[str, str], nbytes: int) -> Call:
        return Call(
            method,
            address,
            self._what,
            headers,
            lambda: self._pieces(nbytes),
            LOST,
            self._ref.size / _HASHED_A_SECOND,
        )

    def _pieces(self, nbytes: int) -> Iterator[bytes]:
        """Yield the next bytes of the blob, and count them."""
        position, end = self._offset, self._offset + nbytes
        while position < end:
            if self._registry.stop.is_set():
                raise StoppedError
            self._count_to(position)  # back, where they are sent again
            piece = self._blobs.fs.read(self._file, min(_PIECE, end - position), position)
            if not piece:
                message = f"blob {self._ref.digest} ends after {position} bytes"
                raise IntegrityError(message, code="E_BLOB_SIZE")
            yield piece
            position += len(piece)
        self._count_to(end)

    def _count_to(self, position: int) -> None:
        self._tell(position - self._told)
        self._told = position

    @property
    def _what(self) -> str:
        return f"blob {self._ref.digest}"

    def _lost(self, status: int) -> UnreachableError:
        return UnreachableError(
            f"the registry `{self._registry.reference.host}` does not go on with "
            f"{self._what}: status {status}",
            code="E_REGISTRY_UPLOAD",
            hint="Run the command again: blobs that have arrived whole are kept",
        )


def upload(  # noqa: PLR0913 - each is another side of it
    registry: Registry,
    blobs: BlobStore,
    ref: BlobRef,
    mounts: Sequence[str],
    tally: Tally,
    *,
    kind: type[Upload] = Upload,
) -> None:
    """Have a blob in a registry that lacks it.

    Args:
        registry: to put it into.
        blobs: of the store.
        ref: the blob.
        mounts: repositories that may have it.
        tally: of what moves.
        kind: how this registry wants to have it.

    Raises:
        IntegrityError: the store does not have it, or has it damaged.
        IngotError: the registry does not take it.
    """
    with blobs.open(ref.digest) as file, tally.counting(ref) as tell:
        transfer = kind(registry, blobs, ref, file, tell)
        if any(transfer.mount(other) for other in mounts):
            tally.is_mounted(ref)
            return
        transfer.run()
    tally.has_moved(ref)


EMPTY: Final = {"Content-Length": "0"}


def sized(nbytes: int) -> dict[str, str]:
    """Return the headers of a body of so many bytes."""
    return {"Content-Type": "application/octet-stream", "Content-Length": str(nbytes)}
