"""One blob into Ollama's registry, as `ollama` sends it: to a storage, or in parts with MD5."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from typing import Final

from importer.http.ranges import UnreachableError
from importer.registry.client import Call
from importer.registry.errors import beginning
from importer.registry.upload import EMPTY, LOST, Upload, sized

_PARTS: Final = 16
_SMALLEST: Final = 100 << 20
_LARGEST: Final = 1000 << 20
_REDIRECTED: Final = 307
_SIGNED: Final = "x-signed-header-"


class OllamaUpload(Upload):
    """An upload in Ollama's dialect.

    The registry says where the storage is that takes the whole blob, or it takes parts itself,
    or it says for each part where that goes. Of parts it wants to know the MD5 in the end.
    """

    def run(self) -> None:
        """Send the blob, from the start after each failure but of a part."""
        patience = self._registry.patience()
        while True:
            try:
                self._once()
            except UnreachableError as error:
                patience.wait(error)
            else:
                return

    def _once(self) -> None:
        self._location, self._offset = "", 0
        headers = {"X-Redirect-Uploads": "2", "X-Content-Length": str(self._ref.size)}
        address = f"blobs/uploads/?digest={self._ref.digest}"
        call = Call("POST", address, self._what, EMPTY | headers)
        with self._registry.ask(call) as response:
            beginning(response)
            if response.status_code == 201:  # noqa: PLR2004 - it has it
                self._count_to(self._ref.size)
                return
            self._follow(response.headers)
            direct = response.headers.get("X-Direct-Upload-URL", "")
            signed = {
                name[len(_SIGNED) :]: value
                for name, value in response.headers.items()
                if name.lower().startswith(_SIGNED)
            }
        if direct:
            self._put(direct, self._ref.size, signed)
            self._offset = self._ref.size
            self._finish(0)
        else:
            self._send_parts()

    def _send_parts(self) -> None:
        size, hashes = min(max(self._ref.size // _PARTS, _SMALLEST), _LARGEST), []
        while self._offset < self._ref.size:
            nbytes = min(size, self._ref.size - self._offset)
            self._registry.retried(functools.partial(self._send_part, nbytes))
            hashes.append(self._md5.digest())
            self._offset += nbytes
        total = hashlib.md5(b"".join(hashes), usedforsecurity=False).hexdigest()
        self._finish(0, f"etag={total}-{len(hashes)}")

    def _send_part(self, nbytes: int) -> None:
        start, place = self._offset, ""
        headers = {"Content-Range": f"{start}-{start + nbytes - 1}", "X-Redirect-Uploads": "1"}
        call = self._call("PATCH", self._location, headers | sized(nbytes), nbytes)
        with self._registry.ask(call._replace(follows=False)) as response:
            beginning(response)
            if response.status_code in LOST:
                raise self._lost(response.status_code)
            following = response.headers
            if response.status_code == _REDIRECTED:
                place = following.get("Location", "")
        if place:
            self._put(place, nbytes, {})
        if not place or "Docker-Upload-Location" in following:
            self._follow(following)

    def _put(self, address: str, nbytes: int, headers: dict[str, str]) -> None:
        """Send the next bytes to a storage, which knows us by its address alone."""
        place = self._registry.resolved(address)
        call = self._call("PUT", place, sized(nbytes) | headers, nbytes)
        with self._registry.ask(call) as response:
            beginning(response)
            if response.status_code in LOST:
                raise self._lost(response.status_code)

    def _pieces(self, nbytes: int) -> Iterator[bytes]:
        self._md5 = md5 = hashlib.md5(usedforsecurity=False)
        for piece in super()._pieces(nbytes):
            md5.update(piece)
            yield piece
