"""One blob from a registry into the store: resumed where it was interrupted, and verified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING, Final

from importer.http.ranges import Answer, UnreachableError, first_byte, received
from importer.registry.client import Call, Registry
from importer.registry.errors import beginning, odd_answer
from importer.registry.transfer import Tally
from store.blob_writer import BlobWriter
from store.blobs import BlobRef
from store.digest import Digest
from store.errors import InputError, NetworkError
from store.parallel import StoppedError

if TYPE_CHECKING:
    from store.writer import Writer

_REHASH: Final = 1 << 20


def download(registry: Registry, writer: Writer, ref: BlobRef, tally: Tally) -> None:
    """Fetch a blob and put it into the store.

    Raises:
        IngotError: it cannot be had; what has arrived stays for the next run.
        OSError: writing failed; likewise.
    """
    # A second time from the start: the part of an earlier run may have been bad.
    for _ in range(2):
        path = writer.partials.resume(ref.digest)
        with closing(BlobWriter(writer.fs, path)) as blob:
            have = blob.take_over(memoryview(bytearray(_REHASH)))
            made = _fill(registry, blob, ref, tally) if have <= ref.size else None
        if made == ref:
            writer.commit(path, ref)
            tally.has_moved(ref, have)
            return
        writer.discard(path)
    raise NetworkError(
        f"blob {ref.digest} arrived damaged: its hash is not its name",
        code="E_REGISTRY_DAMAGED",
        hint="Whoever put it into the registry has to put it there again",
    )


def read_blob(registry: Registry, ref: BlobRef, limit: int) -> bytes:
    """Read a small blob.

    Raises:
        InputError: it is larger than `limit`, or has another hash.
        IngotError: it cannot be had.
    """
    if ref.size > limit:
        message = f"blob {ref.digest} has {ref.size} bytes, expected at most {limit}"
        raise InputError(message, code="E_LIMIT")

    def read() -> bytes:
        with registry.ask(_call(ref)) as response:
            return beginning(response, limit)

    data = registry.retried(read)
    if Digest.of(data) != ref.digest:
        raise odd_answer(registry.reference.host, f"{ref.digest} hashes to {Digest.of(data)}")
    return data


def _fill(registry: Registry, blob: BlobWriter, ref: BlobRef, tally: Tally) -> BlobRef:
    """Add to a partial file what it lacks; return what it then holds."""
    have = blob.size
    tally.kept(ref, have)
    blob.reserve(ref.size)

    def ask(start: int) -> AbstractContextManager[Answer]:
        return _answer(registry, ref, start)

    def cut(position: int) -> UnreachableError:
        return UnreachableError(
            f"blob {ref.digest} ended after {position} of {ref.size} bytes",
            code="E_REGISTRY_CUT",
            hint="Run the command again: what has arrived is kept",
        )

    with (
        tally.counting(ref) as tell,
        closing(received(ask, have, ref.size, registry.patience(), cut)) as chunks,
    ):
        for chunk in chunks:
            blob.write(chunk)
            tell(len(chunk))
        made = blob.finish()
        if made != ref:
            tell(-ref.size)
        return made


@contextmanager
def _answer(registry: Registry, ref: BlobRef, start: int) -> Iterator[Answer]:
    call = _call(ref)
    if start > 0:
        call = call._replace(headers={"Range": f"bytes={start}-{ref.size - 1}"})
    with registry.ask(call) as response:
        first = first_byte(response.status_code, response.headers, start, ref.size)
        if first is None:
            said = response.headers.get("Content-Range", "")
            what = f"blob {ref.digest} from byte {start} on has the range `{said}`"
            raise odd_answer(registry.reference.host, what)
        yield Answer(first, _until_stopped(registry, response.iter_bytes()))


def _until_stopped(registry: Registry, chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        if registry.stop.is_set():
            raise StoppedError
        yield chunk


def _call(ref: BlobRef) -> Call:
    return Call("GET", f"blobs/{ref.digest}", f"blob {ref.digest}")
