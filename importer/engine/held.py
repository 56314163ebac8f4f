"""Hold the sources of an import: they must be the same when it ends as when it began."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from importer.codecs.transcode import Copy, CopyParts
from importer.planning.plan import FilePlan, Job, Plan
from importer.sources.file import SourceFile, changed, is_unchanged, opened
from store import BlobRef, Digest, Store
from store.errors import IntegrityError
from store.parallel import Stop, each
from store.writer import Writer

_AT_ONCE: Final = 256
"""Blobs that are pinned under one lock, which gc waits for: that takes 5 ms."""

_Item = TypeVar("_Item")


def check_readable(files: Iterable[SourceFile]) -> None:
    """Open files whose content nothing has looked at yet: weights were, when they were listed.

    Raises:
        OSError: one cannot be read; that is known before hours of work, and not after them.
    """
    for file in files:
        if file.maker is None:
            with opened(file):
                pass


def hold_sources(
    store: Store,
    writer: Writer,
    files: Iterable[SourceFile],
    threads: int,
    *,
    trusts: bool = True,
) -> None:
    """Keep gc off blobs, and hash those that nobody has seen to be good.

    Args:
        store: that has the blobs.
        writer: whose pins keep them.
        files: blobs, as files of a source.
        threads: that hash.
        trusts: pass over those that were seen to be good.

    Raises:
        IntegrityError: one is damaged or gone; what would be made of it is wrong.
    """
    files = tuple(files)
    unseen = pin_sources(writer, files)
    if not trusts:
        unseen = list(dict.fromkeys(_refs(files)))
    if not unseen:
        return
    from store.quarantine import examine  # noqa: PLC0415 - few sources are models of a store

    stop = Stop()
    for suspect in each(lambda ref: examine(store, ref.digest, stop), unseen, threads, stop):
        if suspect is not None:
            raise IntegrityError(
                f"blob {suspect.digest} of the stored model is damaged",
                code="E_BLOB_DIGEST",
            )


def pin_sources(writer: Writer, files: Iterable[SourceFile]) -> list[BlobRef]:
    """Keep gc off blobs, and return those that nobody has seen to be good.

    Args:
        writer: whose pins keep them.
        files: blobs, as files of a source.
    """
    unseen: list[BlobRef] = []
    for some in _batches(dict.fromkeys(_refs(files))):
        vouched = writer.reuse(some)
        unseen += [ref for ref, is_good in zip(some, vouched, strict=True) if not is_good]
    return unseen


def check_sources(
    store: Store, writer: Writer, files: Iterable[SourceFile], threads: int
) -> None:
    """Check that files are still those that were scanned, before a model of them is published.

    Args:
        store: that has the blobs among them.
        writer: that holds these.
        files: of a source.
        threads: that hash.

    Raises:
        InputError: one has changed.
        IntegrityError: another file took the place of a blob, and is not that blob.
    """
    others = [file for file in files if not is_unchanged(file)]
    for file in others:
        if not file.is_blob:
            changed(file)
    hold_sources(store, writer, others, threads)


def blobs_that_stay(store: Store, plan: Plan) -> list[BlobRef | None]:
    """Find the blobs of a stored model that a plan would only make again.

    A blob whose tensors are all kept is the same blob if it has the header that is planned:
    header and arrays then have the same bytes in the same places. Reads headers alone.

    Args:
        store: that has the source.
        plan: of an import from a stored model.

    Returns:
        For each of `plan.jobs` the blob that it would give, or None.
    """
    return [_blob_that_stays(store, job) for job in plan.jobs]


def _blob_that_stays(store: Store, job: Job) -> BlobRef | None:
    if isinstance(job, FilePlan):
        return next(_refs([job.file]), None) if job.file.maker is None else None
    arrays = [array for tensor in job.tensors for one in tensor.sources for array in one.arrays]
    is_kept = all(isinstance(tensor.transcoder, Copy | CopyParts) for tensor in job.tensors)
    file = arrays[0].file
    is_whole = file.size == job.nbytes and all(array.file == file for array in arrays)
    if not is_kept or not is_whole or not file.is_blob:
        return None
    (ref,) = _refs([file])
    with store.blobs.open(ref.digest) as blob:
        return ref if store.fs.read(blob, len(job.header), 0) == job.header else None


def _refs(files: Iterable[SourceFile]) -> Iterator[BlobRef]:
    # A draft or an adapter that is added to a stored model lies elsewhere.
    for file in (file for file in files if file.is_blob):
        digest = Digest.from_file_name(file.location.name)
        assert digest is not None, f"{file.location} is not a blob"
        yield BlobRef(digest, file.size)


def _batches(items: Iterable[_Item]) -> Iterator[Sequence[_Item]]:
    rest = iter(items)
    while some := list(itertools.islice(rest, _AT_ONCE)):
        yield some
