"""What need not be made again: blobs whose sources this store has seen before."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping

import xxhash

from importer.codecs.base import REVISION
from importer.codecs.plain import Plain
from importer.planning.plan import BlobPlan, FilePlan, Plan
from importer.sources.file import SourceFile
from store import BlobRef, Store
from store.memo import Pieces

Job = BlobPlan | FilePlan
Piece = tuple[SourceFile, int, int]
"""A part of a source file: the file, offset and size in bytes."""


def pieces_of(job: Job) -> Iterator[Piece]:
    """The parts of the source that a blob is made from, in the order of the plan."""
    if isinstance(job, FilePlan):
        yield job.file, 0, job.file.size
    else:
        for plan in job.tensors:
            for tensor in plan.sources:
                yield tensor.file, tensor.offset, tensor.nbytes


class Reuse:
    """Looks up blobs by the fingerprints of what they would be made from.

    The key of a blob: XXH3-128 of each of its source tensors, seeded by a secret of the store;
    SHA-256 of its header and of all else that decides what becomes of them; the revision of
    the codecs. The header is in the key because equal tensors of different names have
    different blobs.
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
        self._files = (*plan.inventory.weights, *plan.inventory.files)
        self._seed = self._memo.seed(create=False)

    def take_notes(self) -> None:
        """Begin to learn what becomes of the source files as they are now."""
        self._seed = self._memo.seed(create=True)
        now = time.time_ns()
        for file in self._files:
            self._memo.look_at(file.location, _identity(file), now)

    def fingerprint(self) -> xxhash.xxh3_128:
        """Start a fingerprint, to be fed the bytes of one piece."""
        return xxhash.xxh3_128(seed=self._seed or 0)

    def present(self, jobs: Iterable[Job]) -> list[BlobRef | None]:
        """Find the blobs that the store has and knows to be good, and read no source.

        Returns:
            For each job the blob that it would give, or None if that is not known.
        """
        known: dict[str, Pieces] = {}
        if self._trusts and self._seed is not None:
            known = {f.path: self._memo.pieces(f.location, _identity(f)) for f in self._files}
        if not any(known.values()):
            return [None for _ in jobs]
        return [self._present(job, known) for job in jobs]

    def _present(self, job: Job, known: Mapping[str, Pieces]) -> BlobRef | None:
        prints = [known[file.path].get((at, size)) for file, at, size in pieces_of(job)]
        found = [one for one in prints if one is not None]
        ref = self.look_up(job, found) if len(found) == len(prints) else None
        return ref if ref is not None and self._store.blobs.vouches_for(ref) else None

    def expects(self, job: Job) -> bool:
        """Whether it is worth reading a job's source to see if its blob was made before."""
        return self._trusts and self._memo.has_product(self._form(job))

    def look_up(self, job: Job, fingerprints: list[bytes]) -> BlobRef | None:
        """The blob that these fingerprints of a job's pieces gave before, or None."""
        found = self._memo.product(_key(self._form(job), fingerprints))
        # A plan knows every size: another one is no product of this plan.
        return BlobRef(*found) if found is not None and found[1] == job.nbytes else None

    def note(self, job: Job, fingerprints: list[bytes], ref: BlobRef) -> None:
        """Remember what a job gave."""
        for (file, offset, nbytes), found in zip(pieces_of(job), fingerprints, strict=True):
            self._memo.note_piece(file.location, offset, nbytes, found)
        form = self._form(job)
        self._memo.note_product(_key(form, fingerprints), form, ref.digest, ref.size)

    def _form(self, job: Job) -> bytes:
        """What decides, beside the bytes of its source, which blob a job gives."""
        if isinstance(job, FilePlan):
            return hashlib.sha256(b"file").digest()
        form = hashlib.sha256(job.header)
        for tensor in job.tensors:
            if not isinstance(tensor.codec, Plain):
                # The header has the dtype that they became: F16 and BF16 may become one.
                form.update(f"\0{tensor.dtype} {self._allows_nonfinite}".encode())
        return form.digest()


def was_imported(store: Store, file: SourceFile) -> bool:
    """Whether this store has imported something of a source file as it is now."""
    return store.memo.has_pieces(file.location, _identity(file))


def _identity(file: SourceFile) -> tuple[int, int, int, int]:
    seen = file.identity
    # The later of the two times: `cp -p` and `touch` set the one back, not the other.
    return seen.device, seen.inode, seen.size, max(seen.mtime_ns, seen.ctime_ns)


def _key(form: bytes, fingerprints: list[bytes]) -> bytes:
    revision = REVISION.to_bytes(4, "little")
    return hashlib.sha256(revision + form + b"".join(fingerprints)).digest()
