"""Measure some tensors of a stored model against the source that it was made from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from importer.codecs.base import Runtime
from importer.codecs.runtime import prepare
from importer.engine.measure import RoundedBlob, kernels_for, measure_blob
from importer.engine.paired import read_pairs
from importer.models.provenance import provenance_of
from importer.models.quality import Quality
from importer.pipeline import plan_import
from importer.planning.plan import Plan
from importer.sources.location import Source, StoredModel
from store import Manifest, MediaType, Store
from store.catalog import StoredManifest
from store.errors import IngotError, NotFoundError, in_words
from store.parallel import Stop
from store.text import printable

_DIFFERS: Final = "or the stored model has changed since"


class AtSource(NamedTuple):
    """What was measured.

    Attributes:
        source: that was read, or None where none is at hand.
        found: by name, the tensors that were rounded.
        why: no source could be read, or empty.
    """

    source: Source | None
    found: dict[str, Quality]
    why: str = ""


def measure_at_source(
    store: Store, stored: StoredManifest, wanted: Collection[str]
) -> AtSource:
    """Compare some tensors with what they were made from, if that is on this machine.

    Nothing is fetched. What a model was made from may have changed since: then nothing of it is
    told.

    Args:
        store: that has the model.
        stored: the manifest of the model.
        wanted: names of tensors.
    """
    provenance = provenance_of(store, stored)
    why = "nothing tells where the model was made from"
    for source in provenance.sources:
        if isinstance(source, Path) and not source.exists():
            why = f"{source} is not there"
            continue
        if not isinstance(source, (Path, StoredModel)):
            continue  # fetching is not what was asked for
        try:
            (request,) = replace(provenance, sources=(source,)).requests(1)
            plan = plan_import(request, store)
            return AtSource(source, _measured(store, stored.parse(), plan, wanted))
        except (IngotError, OSError) as error:
            said = in_words(error)
            why = f"{source} {said}" if said.startswith(_DIFFERS) else said
    return AtSource(None, {}, why)


def _check_same(store: Store, job: RoundedBlob, runtime: Runtime) -> None:
    """Raise NotFoundError where the source, encoded again, does not give what the blob has.

    Neither names nor sizes nor times tell whether a source is still what it was.
    """
    for pair in read_pairs(store, job.layer, job.tensors, job.ref):
        if not pair.is_same(runtime):
            assert pair.chunk.tensor is not None, "files are not rounded"
            name = printable(pair.chunk.tensor.name)
            raise NotFoundError(
                f"{_DIFFERS}: `{name}` comes out of it otherwise", code="E_SRC_CHANGED"
            )


def _measured(
    store: Store, manifest: Manifest, plan: Plan, wanted: Collection[str]
) -> dict[str, Quality]:
    refs = {
        layer.name: layer.ref
        for layer in manifest.layers
        if layer.media_type == MediaType.TENSOR
    }
    jobs = []
    for blob in plan.blobs:
        found = tuple(one for one in blob.tensors if one.name in wanted and one.rounded_to)
        if found and blob.name not in refs:
            message = f"the source gives a layer `{printable(blob.name)}` that the model lacks"
            raise NotFoundError(message, code="E_SRC_CHANGED")
        if found:
            jobs.append(RoundedBlob(blob.name, found, refs[blob.name]))
    tensors = [tensor for job in jobs for tensor in job.tensors]
    work = kernels_for(tensors)
    for tensor in tensors:
        work.update(dict.fromkeys(tensor.transcoder.kernels(), tensor.source_nbytes))
    runtime, stop = prepare(work, lambda: None), Stop()
    for job in jobs:
        _check_same(store, job, runtime)
    return {
        quality.name: quality
        for job in jobs
        for quality in measure_blob(store, job, runtime, stop)
    }
