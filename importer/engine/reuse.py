"""What need not be made again: blobs whose sources this store has seen before."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from importer.codecs.base import REVISION, Transcoder
from importer.codecs.transcode import Copy
from importer.planning.plan import FilePlan, Job, Plan
from importer.sources.file import Extent, SourceFile
from store import BlobRef, Store
from store.digest import Digest
from store.memo import Pieces, SourceIdentity
from store.sha256 import sha256
from store.status import Status


class Fingerprint(NamedTuple):
    """What tells the bytes of one stored array or file from others.

    Attributes:
        digest: XXH3-128, seeded by a secret of the store.
        is_in_order: whether the bytes were hashed as they follow each other in the file. Of
            an array that is read in strides they were not, and so nothing is noted of it.
    """

    digest: bytes
    is_in_order: bool = True


def extents_of(job: Job) -> Iterator[Extent]:
    """Yield what a blob is made from, each stored array or file, in the order of the plan."""
    if isinstance(job, FilePlan):
        yield Extent(job.file, 0, job.file.size)
    else:
        for plan in job.tensors:
            for tensor in plan.sources:
                for array in tensor.arrays:
                    yield array.extent


class Reuse:
    """Looks up blobs by the fingerprints of what they would be made from.

    The key of a blob: the fingerprint of each stored array that it is made from; SHA-256 of
    its header and of the transcoders that make it; the revision of the codecs. The header is
    in the key because equal tensors of different names have different blobs.

    Attributes:
        seed: of fingerprints; a secret of the store.
    """

    def __init__(self, store: Store, plan: Plan, *, trusts: bool = True) -> None:
        """Ask for the blobs of a plan; nothing is written.

        Args:
            trusts: believe earlier notes.
        """
        self._store = store
        self._memo = store.memo
        self._trusts = trusts
        self._allows_nonfinite = plan.recipe.allow_nonfinite
        self._files = plan.inventory.all_files
        self._seed = self._memo.seed(create=False)

    def take_notes(self) -> None:
        """Begin to learn what becomes of the source files as they are now."""
        self._seed = self._memo.seed(create=True)
        now = time.time_ns()
        for file in self._files:
            self._memo.look_at(file.location, identity_of(file), now)

    @property
    def seed(self) -> int:
        """What fingerprints are seeded with."""
        return self._seed or 0

    def present(self, jobs: Iterable[Job]) -> list[BlobRef | None]:
        """Find the blobs that the store has and knows to be good, and read no source.

        Returns:
            For each job the blob that it would give, or None if that is not known.
        """
        known: dict[str, Pieces] = {}
        if self._trusts and self._seed is not None:
            known = {f.path: self._memo.pieces(f.location, identity_of(f)) for f in self._files}
        if not any(known.values()):
            return [None for _ in jobs]
        noted = [(job, self._noted(job, known)) for job in jobs]
        keys = [_key(self._form(job), found) for job, found in noted if found is not None]
        products = iter(self._memo.products(keys))
        refs = [
            None if found is None else _product_of(job, next(products)) for job, found in noted
        ]
        good = iter(self._store.blobs.known_good([ref for ref in refs if ref is not None]))
        return [ref if ref is not None and next(good) else None for ref in refs]

    def _noted(self, job: Job, known: Mapping[str, Pieces]) -> list[Fingerprint] | None:
        """Return the fingerprints of all of a job's sources, or None if one is not known."""
        noted = [known.get(file.path, {}).get((at, size)) for file, at, size in extents_of(job)]
        found = [Fingerprint(digest) for digest in noted if digest is not None]
        return found if len(found) == len(noted) else None

    def expected(self, jobs: Sequence[Job]) -> list[bool]:
        """Return for each job whether its blob may have been made before, by its header."""
        if not self._trusts:
            return [False for _ in jobs]
        return self._memo.have_products([self._form(job) for job in jobs])

    def look_up(self, job: Job, fingerprints: Sequence[Fingerprint]) -> BlobRef | None:
        """Return the blob that these fingerprints of a job's sources gave before, or None."""
        return _product_of(job, self._memo.product(_key(self._form(job), fingerprints)))

    def note(self, job: Job, fingerprints: Sequence[Fingerprint], ref: BlobRef) -> None:
        """Remember what a job gave."""
        for extent, found in zip(extents_of(job), fingerprints, strict=True):
            if found.is_in_order and extent.file.maker is None:
                place = extent.file.location, extent.offset, extent.nbytes
                self._memo.note_piece(*place, found.digest)
        form = self._form(job)
        self._memo.note_product(_key(form, fingerprints), form, ref.digest, ref.size)

    def saw(self, ref: BlobRef, status: Status) -> None:
        """Remember that this file of a blob was written and synced, by another writer."""
        self._memo.note(ref.digest, status)

    def is_there(self, ref: BlobRef) -> bool:
        """Whether the store has a blob, of its size; ask after it was pinned."""
        return self._store.blobs.holds(ref)

    def _form(self, job: Job) -> bytes:
        """Return what decides, besides the bytes of its sources, which blob a job gives."""
        if isinstance(job, FilePlan):
            return sha256(b"file")
        form = [job.header]
        transcoders = [tensor.transcoder for tensor in job.tensors]
        if not all(isinstance(transcoder, Copy) for transcoder in transcoders):
            # The header has what they became: F16 and BF16, or two schemes, may become one
            # type. Of every tensor, or two of a group might change places unseen.
            allows = self._allows_nonfinite
            form += [_text(transcoder, allows=allows) for transcoder in transcoders]
        return sha256(b"".join(form))


def _product_of(job: Job, found: tuple[Digest, int] | None) -> BlobRef | None:
    # A plan knows every size: one of another size is not of this plan.
    return BlobRef(*found) if found is not None and found[1] == job.nbytes else None


@functools.lru_cache(4096)
def _text(transcoder: Transcoder, *, allows: bool) -> bytes:
    return f"\0{transcoder!r} {allows}".encode()


def was_imported(store: Store, file: SourceFile) -> bool:
    """Whether this store has imported something of a source file as it is now."""
    return store.memo.has_pieces(file.location, identity_of(file))


def identity_of(file: SourceFile) -> SourceIdentity:
    """Return what tells whether a source file is still the one that was read."""
    seen = file.identity
    changed_ns = max(seen.mtime_ns, seen.ctime_ns)
    return SourceIdentity(seen.device, seen.inode, seen.size, changed_ns)


def _key(form: bytes, fingerprints: Iterable[Fingerprint]) -> bytes:
    revision, prints = (
        REVISION.to_bytes(4, "little"),
        b"".join(one.digest for one in fingerprints),
    )
    return sha256(revision + form + prints)
