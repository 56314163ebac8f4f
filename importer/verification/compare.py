"""Compare a stored model with the source that it was made from, to the last bit."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from importer.codecs.base import KernelSpec, Runtime
from importer.codecs.registry import transcoder_for
from importer.codecs.runtime import KernelRuntime, prepare
from importer.codecs.spec import QUANT_TYPES, with_group_size
from importer.engine.paired import read_pairs
from importer.events import Compared, Listener, silent
from importer.models.provenance import provenance_of
from importer.pipeline import plan_import
from importer.planning.kept_files import files_by_name, layers_by_name
from importer.planning.plan import FilePlan, Plan, TensorPlan
from importer.sources.carried import carried_prefixes
from importer.sources.file_metadata import told
from importer.sources.location import Source
from importer.sources.stored.record import ModelRecord
from importer.sources.stored.tensors import StoredTensor, read_layer
from importer.verification.comparison import Comparison
from importer.verification.error_bounds import ErrorBoundCheck
from store import BlobRef, Digest, Layer, MediaType, ModelName, Store
from store.catalog import StoredManifest
from store.errors import IngotError, in_words, is_exhausted
from store.findings import Finding, Problem
from store.parallel import Stop, each


class _Pair(NamedTuple):
    """What is compared together: tensors of one stored blob, or a file.

    Attributes:
        name: of the layer.
        plans: what the source gives.
        ref: the stored blob.
    """

    name: str
    plans: Sequence[TensorPlan] | FilePlan
    ref: BlobRef

    @property
    def tensors(self) -> Sequence[TensorPlan]:
        """The tensors, if it is not a file."""
        return () if isinstance(self.plans, FilePlan) else self.plans

    @property
    def nbytes(self) -> int:
        """Bytes to read of the source."""
        if isinstance(self.plans, FilePlan):
            return self.plans.nbytes
        return sum(plan.source_nbytes for plan in self.plans)


@dataclass(slots=True)
class _Pairs:
    """What can be compared, and what differs already.

    Attributes:
        is_ours: whether the recipe is known, so that encoding again gives the same bits.
        findings: subject and message.
    """

    is_ours: bool
    found: list[_Pair] = field(default_factory=list)
    findings: list[tuple[str, str]] = field(default_factory=list)


def compare(  # noqa: PLR0913 - each is another side of it
    store: Store,
    name: ModelName | StoredManifest,
    source: Source,
    *,
    damaged: Collection[Digest] = (),
    threads: int = 1,
    listen: Listener = silent,
) -> Comparison:
    """Compare every tensor and every kept file of a model with a source.

    What ingot quantized is encoded again and must give the same bits. What others quantized
    is decoded, and must be as near to the source as its type allows.

    Args:
        damaged: blobs that cannot be read, of which others have told.

    Raises:
        NotFoundError: there is no such model or source.
        InputError: the source cannot be read.
    """
    stored = store.catalog.get(name)
    manifest = stored.parse()
    provenance = provenance_of(store, stored, source)
    (request,) = provenance.requests(threads)
    # Of another source a rule may well find nothing; what then differs is what we tell.
    rules = tuple(replace(rule, optional=True) for rule in request.recipe.rules)
    plan = plan_import(request._replace(recipe=replace(request.recipe, rules=rules)), store)
    pairs = _Pairs(provenance.record.recipe is not None)
    tensors: dict[str, StoredTensor] = {}
    unread = {layer.name for layer in manifest.layers if layer.digest in damaged}
    for layer in manifest.layers:
        if layer.media_type == MediaType.TENSOR and layer.name not in unread:
            try:
                tensors |= {one.name: one for one in read_layer(store, layer, headers=True)}
            except (IngotError, OSError) as error:
                unread.add(layer.name)
                pairs.findings.append((layer.name, _told(store, error)))
    files = layers_by_name(manifest.layers)
    # A draft or an adapter came from elsewhere, unless the source is a model that carries it.
    if carried := carried_prefixes(files.keys() - {file.name for file in plan.files}):
        folders = tuple(f"{prefix.removesuffix('.')}/" for prefix in carried)
        files = {name: one for name, one in files.items() if not name.startswith(folders)}
        tensors = {name: one for name, one in tensors.items() if not name.startswith(carried)}
    planned = {
        one.name: one for blob in plan.blobs if blob.name not in unread for one in blob.tensors
    }
    refs = {layer.digest: layer.ref for layer in manifest.layers}
    _pair_tensors(planned, tensors, refs, pairs)
    _pair_files(plan, files, pairs)
    pairs.found = [pair for pair in pairs.found if pair.ref.digest not in damaged]
    _compare_metadata(plan, provenance.record, pairs)
    total = sum(pair.nbytes for pair in pairs.found)
    runtime = _prepare(pairs)
    check, stop = ErrorBoundCheck(runtime), Stop()

    telling = threading.Lock()

    def tell(nbytes: int) -> None:
        stop.check()
        with telling:
            listen(Compared(nbytes, total))

    compare_one = _Comparer(store, runtime, check, tell, is_ours=pairs.is_ours)
    for found in each(lambda pair: list(compare_one(pair)), pairs.found, threads, stop):
        pairs.findings += found
    return Comparison(
        tuple(
            Finding(Problem.SOURCE, subject, message, (str(stored.name),))
            for subject, message in pairs.findings
        ),
        tuple(check.notes()),
        sum(len(pair.tensors) for pair in pairs.found),
        len(plan.files),
        total,
        differing=len(
            {subject for subject, _ in pairs.findings} & (planned.keys() | tensors.keys())
        ),
    )


def _compare_metadata(plan: Plan, record: ModelRecord, pairs: _Pairs) -> None:
    if record.metadata is None or plan.inventory.is_apart:
        return  # a model of an earlier version kept none
    ours, theirs = record.metadata, told(plan.inventory.metadata)
    for path in sorted(ours.keys() | theirs.keys()):
        if ours.get(path) != theirs.get(path):
            pairs.findings.append((path, "what the file says about itself differs"))


@dataclass(frozen=True, slots=True)
class _Comparer:
    """Compares what a call brings, and gives subject and message of each difference."""

    store: Store
    runtime: Runtime
    error_bounds: ErrorBoundCheck
    tell: Callable[[int], None]
    is_ours: bool

    def __call__(self, pair: _Pair) -> Iterator[tuple[str, str]]:
        wrong: set[str] = set()
        try:
            for chunks in read_pairs(self.store, pair.name, pair.plans, pair.ref):
                tensor = chunks.chunk.tensor
                self.tell(chunks.chunk.nbytes)
                subject = tensor.name if tensor else pair.name
                if subject in wrong:
                    continue
                if not self.is_ours and tensor is not None and tensor.codec is not None:
                    message = self.error_bounds.look(chunks)
                else:
                    same = chunks.is_same(self.runtime)
                    message = (
                        None if same else f"differs from the source at or after {chunks.place}"
                    )
                if message is not None:
                    wrong.add(subject)
                    yield subject, message
        except (IngotError, OSError) as error:
            yield pair.name, _told(self.store, error)


def _told(store: Store, error: IngotError | OSError) -> str:
    """Say what is wrong with a blob; raise what is wrong with the source or the machine."""
    if isinstance(error, OSError):
        inside = error.filename and Path(error.filename).is_relative_to(store.layout.blobs)
        if not inside or is_exhausted(error):
            raise error
    return in_words(error)


def _prepare(pairs: _Pairs) -> KernelRuntime:
    work: Counter[KernelSpec] = Counter()
    for plan in (plan for pair in pairs.found for plan in pair.tensors):
        if pairs.is_ours:
            kernels = plan.transcoder.kernels()
        elif plan.codec is not None:
            from importer.codecs import measure  # noqa: PLC0415 - it imports numpy

            kernels = measure.kernels(plan.codec)
        else:
            continue
        for kernel in kernels:
            work[kernel] += plan.source_nbytes
    return prepare(work, lambda: None)


def _pair_tensors(
    planned: Mapping[str, TensorPlan],
    tensors: Mapping[str, StoredTensor],
    refs: Mapping[Digest, BlobRef],
    pairs: _Pairs,
) -> None:
    _list(planned, tensors, "a tensor", pairs)
    blobs: dict[tuple[str, BlobRef], list[TensorPlan]] = {}
    for name in sorted(planned.keys() & tensors.keys(), key=str.encode):
        ours, stored = planned[name], tensors[name]
        if not pairs.is_ours:
            ours = _as_stored(ours, stored)
        if (ours.type_name, ours.shape) == (_type_name(stored), stored.shape):
            blobs.setdefault((stored.layer, refs[stored.digest]), []).append(ours)
        else:
            there = f"{ours.type_name} {list(ours.shape)}"
            here = f"{_type_name(stored)} {list(stored.shape)}"
            why = " by its recipe" if ours.target is not None else " in the source"
            pairs.findings.append((name, f"is {there}{why}, {here} here"))
    pairs.found += [_Pair(layer, members, ref) for (layer, ref), members in blobs.items()]


def _as_stored(plan: TensorPlan, stored: StoredTensor) -> TensorPlan:
    """Plan a tensor as somebody else has quantized it, as far as that is possible."""
    if stored.quant is None or stored.quant not in QUANT_TYPES or not stored.group_size:
        return plan
    try:
        spec = with_group_size(QUANT_TYPES[stored.quant], stored.group_size)
        transcoder = transcoder_for(spec, plan.sources[0].decoder)
    except IngotError:
        return plan
    if plan.shape != stored.shape or not plan.shape or plan.shape[-1] % spec.group_size:
        return plan
    return plan.made_by(transcoder, plan.decision._replace(target=spec))


def _type_name(stored: StoredTensor) -> str:
    if stored.quant is None or stored.quant not in QUANT_TYPES or not stored.group_size:
        return stored.type_name
    try:
        return str(with_group_size(QUANT_TYPES[stored.quant], stored.group_size))
    except IngotError:
        return f"{stored.quant}/{stored.group_size}"


def _pair_files(plan: Plan, layers: Mapping[str, Layer], pairs: _Pairs) -> None:
    kept = files_by_name(plan.files)
    _list(kept, layers, "a file", pairs)
    for path in sorted(kept.keys() & layers.keys()):
        job, layer = kept[path], layers[path]
        if job.nbytes == layer.size:
            pairs.found.append(_Pair(path, job, layer.ref))
        else:
            message = f"has {job.nbytes} bytes in the source, {layer.size} here"
            pairs.findings.append((path, message))


def _list(
    source: Mapping[str, object], here: Mapping[str, object], what: str, pairs: _Pairs
) -> None:
    for name in sorted(source.keys() - here.keys()):
        pairs.findings.append((name, f"is {what} of the source that the model lacks"))
    for name in sorted(here.keys() - source.keys()):
        pairs.findings.append((name, f"is {what} that the source lacks"))
