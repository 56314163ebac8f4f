"""Compare a stored model with the source that it was made from, to the last bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from importer.codecs import registry
from importer.codecs.base import Codec
from importer.codecs.grouped import Grouped
from importer.codecs.registry import codec_for
from importer.codecs.spec import QUANT_TYPES, with_group_size
from importer.engine.paired import beside
from importer.models.provenance import provenance_of
from importer.pipeline import plan_import
from importer.planning.plan import BlobPlan, FilePlan, Plan, TensorPlan
from importer.sources.stored.tensors import StoredTensor, read_layer
from importer.verification.error_bounds import ErrorBoundCheck
from store import BlobRef, Layer, MediaType, ModelName, Store
from store.errors import IngotError, in_words, is_exhausted
from store.findings import Finding, Problem
from store.parallel import Stop, each
from store.verify import Progress


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared and what differs.

    Attributes:
        notes: what is not wrong, and should be known.
        tensors: that were compared.
        nbytes: that were read from the source.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    tensors: int
    files: int
    nbytes: int


@dataclass(slots=True)
class _Pairs:
    """What can be compared: jobs whose source and stored blob are of one kind.

    Attributes:
        is_ours: whether the recipe is known, so that encoding again gives the same bits.
    """

    is_ours: bool
    jobs: list[tuple[BlobPlan | FilePlan, BlobRef]] = field(default_factory=list)
    findings: list[tuple[str, str]] = field(default_factory=list)


def compare(
    store: Store,
    name: ModelName,
    source: Path,
    *,
    jobs: int = 1,
    progress: Progress = lambda _, __: None,
) -> Comparison:
    """Compare every tensor and every kept file of a model with a source.

    What ingot quantized is encoded again and must give the same bits. What others quantized
    is decoded, and must be as near to the source as its type allows.

    Raises:
        NotFoundError: there is no such model or source.
        InputError: the source cannot be read.
    """
    stored = store.catalog.get(name)
    manifest = stored.parse()
    making = provenance_of(store, stored, source)
    (request,) = making.requests(jobs)
    # Of another source a rule may well find nothing; what then differs is what we tell.
    rules = tuple(replace(rule, optional=True) for rule in request.recipe.rules)
    plan = plan_import(replace(request, recipe=replace(request.recipe, rules=rules)), store)
    pairs = _Pairs(making.record.recipe is not None)
    tensors: dict[str, StoredTensor] = {}
    for layer in manifest.layers:
        if layer.media_type == MediaType.TENSOR:
            try:
                tensors |= {one.name: one for one in read_layer(store, layer, headers=True)}
            except (IngotError, OSError) as error:
                pairs.findings.append((layer.name, _told(store, error)))
    _pair_tensors(plan, tensors, {layer.digest: layer.ref for layer in manifest.layers}, pairs)
    _pair_files(plan, {layer.name: layer for layer in manifest.layers if layer.is_file}, pairs)
    compared = [job for job, _ in pairs.jobs if isinstance(job, BlobPlan)]
    total = sum(_source_nbytes(job) for job, _ in pairs.jobs)
    _prepare(compared, is_ours=pairs.is_ours)
    foreign, stop = ErrorBoundCheck(), Stop()

    def tell(nbytes: int) -> None:
        stop.check()
        progress(nbytes, total)

    compare_one = _Comparer(store, foreign, tell, pairs)
    for found in each(lambda pair: list(compare_one(*pair)), pairs.jobs, jobs, stop):
        pairs.findings += found
    return Comparison(
        tuple(
            Finding(Problem.SOURCE, subject, message, (str(name),))
            for subject, message in pairs.findings
        ),
        tuple(foreign.notes()),
        sum(len(job.tensors) for job in compared),
        len(plan.files),
        total,
    )


@dataclass(frozen=True, slots=True)
class _Comparer:
    """Compares one job; a call gives subject and message of each difference."""

    store: Store
    foreign: ErrorBoundCheck
    tell: Callable[[int], None]
    pairs: _Pairs

    def __call__(self, job: BlobPlan | FilePlan, ref: BlobRef) -> Iterator[tuple[str, str]]:
        wrong: set[str] = set()
        try:
            for pair in beside(self.store, job, ref):
                chunk, done, rows, parts = pair
                self.tell(len(rows))
                subject = chunk.tensor.name if chunk.tensor else chunk.file.path
                if subject in wrong:
                    continue
                if not self.pairs.is_ours and isinstance(chunk.codec, Grouped):
                    message = self.foreign.look(pair)
                else:
                    made = chunk.codec.encode(rows).parts if chunk.nbytes else ()
                    # As bytes, which compare at memory speed; views compare item by item.
                    same = [bytes(part) for part in made] == [bytes(part) for part in parts]
                    is_empty = not any(map(len, parts)) and not chunk.nbytes
                    message = None if same or is_empty else _differs(done)
                if message is not None:
                    wrong.add(subject)
                    yield subject, message
        except (IngotError, OSError) as error:
            subject = job.name if isinstance(job, BlobPlan) else job.file.path
            yield subject, _told(self.store, error)


def _told(store: Store, error: IngotError | OSError) -> str:
    """Say what is wrong with a blob; raise what is wrong with the source or the machine."""
    if isinstance(error, OSError):
        inside = error.filename and Path(error.filename).is_relative_to(store.layout.blobs)
        if not inside or is_exhausted(error):
            raise error
    return in_words(error)


def _differs(done: int) -> str:
    return f"differs from the source after byte {done}"


def _prepare(jobs: list[BlobPlan], *, is_ours: bool) -> None:
    work: Counter[Codec] = Counter()
    for plan in (plan for job in jobs for plan in job.tensors if plan.quant is not None):
        work[plan.codec] += plan.source_nbytes
    if is_ours:
        registry.prepare(work, lambda: None)
    elif work:
        from importer.codecs import measure  # noqa: PLC0415 - it imports numpy

        measure.prepare(work, lambda: None)


def _source_nbytes(job: BlobPlan | FilePlan) -> int:
    if isinstance(job, FilePlan):
        return job.nbytes
    return sum(plan.source_nbytes for plan in job.tensors)


def _pair_tensors(
    plan: Plan,
    tensors: Mapping[str, StoredTensor],
    refs: Mapping[object, BlobRef],
    pairs: _Pairs,
) -> None:
    planned = {one.name: one for one in plan.tensors}
    _list(planned, tensors, "a tensor", pairs)
    blobs: dict[tuple[str, BlobRef], list[TensorPlan]] = {}
    for name in sorted(planned.keys() & tensors.keys(), key=str.encode):
        ours, twin = planned[name], tensors[name]
        if not pairs.is_ours:
            ours = _as_stored(ours, twin)
        if (ours.type_name, ours.shape) == (_type_name(twin), twin.shape):
            blobs.setdefault((twin.layer, refs[twin.digest]), []).append(ours)
        else:
            there = f"{ours.type_name} {list(ours.shape)}"
            here = f"{_type_name(twin)} {list(twin.shape)}"
            why = " by its recipe" if ours.target is not None else " in the source"
            pairs.findings.append((name, f"is {there}{why}, {here} here"))
    for (layer, ref), members in blobs.items():
        job = BlobPlan(layer, tuple(members), len(members) > 1, b"", ref.size)
        pairs.jobs.append((job, ref))


def _as_stored(plan: TensorPlan, twin: StoredTensor) -> TensorPlan:
    """Plan a tensor as somebody else has quantized it, as far as that is possible."""
    if twin.quant is None or twin.quant not in QUANT_TYPES or not twin.group_size:
        return plan
    try:
        spec = with_group_size(QUANT_TYPES[twin.quant], twin.group_size)
        codec = codec_for(spec, plan.dtype)
    except IngotError:
        return plan
    if plan.shape != twin.shape or not plan.shape or plan.shape[-1] % spec.group_size:
        return plan
    decision = plan.decision._replace(target=spec)
    return replace(plan, decision=decision, codec=codec, parts=codec.parts(plan.shape))


def _type_name(twin: StoredTensor) -> str:
    if twin.quant is None or twin.quant not in QUANT_TYPES or not twin.group_size:
        return twin.type_name
    try:
        return str(with_group_size(QUANT_TYPES[twin.quant], twin.group_size))
    except IngotError:
        return f"{twin.quant}/{twin.group_size}"


def _pair_files(plan: Plan, layers: Mapping[str, Layer], pairs: _Pairs) -> None:
    kept = {one.file.path: one for one in plan.files}
    _list(kept, layers, "a file", pairs)
    for path in sorted(kept.keys() & layers.keys()):
        job, layer = kept[path], layers[path]
        if job.nbytes == layer.size:
            pairs.jobs.append((job, layer.ref))
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
