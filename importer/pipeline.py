"""The whole story of an import, on one screen."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from importer.engine.growth import configuration, known_blobs
from importer.engine.held import check_readable, check_sources, hold_sources
from importer.engine.ledger import Written, put_noted
from importer.engine.resources import affordable
from importer.engine.reuse import Reuse, was_imported
from importer.engine.space import check_space, telling_space
from importer.engine.write import write_blobs
from importer.events import Listener, Planned, Published, Scanned, silent
from importer.modelfile.layers import inherited, use_layers
from importer.models.quality import Quality, longest_report, quality_bytes
from importer.planning.layers import layer_of
from importer.planning.outcome import check_fits
from importer.planning.plan import FilePlan, Plan
from importer.planning.planner import make_plan
from importer.planning.unused import unused
from importer.recipes.options import QuantizeOptions
from importer.recipes.recipe import Recipe
from importer.request import ImportRequest
from importer.sources.carried import Role
from importer.sources.classification import classify
from importer.sources.cross_check import check_reference
from importer.sources.inventory import Inventory, read_inventory, take_inventory
from importer.sources.location import HubRepository, StoredModel, check_no_variant
from store import BlobRef, CommitOutcome, Digest, Layer, Manifest, MediaType, ModelName, Store
from store.errors import UsageError
from store.manifest import CONFIG_MEDIA_TYPE
from store.origins import Origin
from store.text import printable
from store.writer import BlobsGoneError

if TYPE_CHECKING:  # few imports have a matrix
    from importer.sources.imatrix import MatrixFile


class ImportResult(NamedTuple):
    """What an import did.

    Attributes:
        digest: of the manifest.
        replaced: the digest that the name had before, or None.
        written: the blob of each tensor and file with what became of it.
        documents: what was made of the plan itself: the configuration, a report, what a
            Modelfile says.
        quality: of the quantized tensors, where that was asked for.
    """

    name: ModelName
    digest: Digest
    replaced: Digest | None
    written: tuple[Written, ...]
    documents: tuple[Written, ...]
    quality: tuple[Quality, ...] = ()

    def tally(self, *outcomes: CommitOutcome) -> tuple[int, int]:
        """Count the distinct blobs that ended in one of `outcomes`, and their bytes."""
        everything = (*self.written, *self.documents)
        refs = {done.ref for done in everything if done.installed in outcomes}
        return len(refs), sum(ref.size for ref in refs)


def plan_import(
    request: ImportRequest,
    store: Store,
    listen: Listener = silent,
    *,
    only_headers: bool = False,
) -> Plan:
    """Decide everything; read no weight and write nothing to the store.

    Args:
        only_headers: fetch no weights from the Hub; the plan can then not be carried out.

    Raises:
        IngotError: the source cannot be imported as it was asked.
    """
    with planned(request, store, listen, only_headers=only_headers) as plan:
        return plan


@contextlib.contextmanager
def planned(
    request: ImportRequest, store: Store, listen: Listener, *, only_headers: bool
) -> Iterator[Plan]:
    """Yield what `plan_import` returns; files that stand for those of the Hub last as long."""
    request.check_name(store)
    # Here already, because a source on the Hub is fetched before its tensors are known.
    affordable(request.threads, request.max_memory, quantizes=False)
    # What types would lose is measured, also where nothing is to be written.
    only_headers = only_headers and request.budget is None
    with _inventory(request, store, listen, only_headers=only_headers) as inventory:
        if inventory.model is None:
            _check_apart(_place(request, inventory), store.layout.root.resolve())
            check_reference(
                inventory, lambda file: not request.rehash and was_imported(store, file)
            )
        counts = len(inventory.tensors), len(inventory.weights)
        listen(Scanned(*counts, sum(one.size for one in inventory.weights), inventory.model))
        facts = classify(inventory, inherited(request.use, inventory.words).parser)
        recipe = request.recipe
        if isinstance(recipe, QuantizeOptions):
            recipe = recipe.resolve(facts)
            if facts.is_packed:
                recipe = recipe.decoding()
        matrix = None
        if request.imatrix is not None or recipe.imatrix:
            from importer.sources.imatrix import find_matrix  # noqa: PLC0415 - few have one

            matrix = find_matrix(store, request.imatrix or Digest.parse(recipe.imatrix))
            recipe = replace(recipe, imatrix=str(matrix.digest))

        def make(recipe: Recipe, matrix: MatrixFile | None) -> Plan:
            return _with_attachments(make_plan(inventory, facts, recipe, matrix), request)

        if request.budget is None:
            plan = make(recipe, matrix)
        else:
            from importer.budget.search import Sought, plan_within  # noqa: PLC0415 - few ask for one

            plan = plan_within(Sought(recipe, make, matrix, request), store, listen)
        if request.strict:
            check_fits(plan.blobs)
        asked = request.recipe
        notes = unused(
            plan,
            stacks=isinstance(asked, QuantizeOptions) and asked.stacked is True,
            unpacks=request.unpack,
            reports=request.report,
        )
        yield plan._replace(warnings=(*plan.warnings, *notes))


def import_model(
    request: ImportRequest, plan: Plan, store: Store, listen: Listener = silent
) -> ImportResult:
    """Carry out a plan: blobs first, the manifest last.

    Raises:
        IngotError: nothing is published, the name is as it was.
        OSError: likewise.
    """
    store.catalog.check_settable(request.name)
    threads = affordable(request.threads, request.max_memory, quantizes=plan.quantizes)
    jobs = plan.jobs
    reuse = Reuse(store, plan, trusts=not request.rehash)
    known = known_blobs(plan, store, reuse)
    sizes = [job.nbytes for job, ref in zip(jobs, known, strict=True) if ref is None]
    config_document, use = configuration(request, plan)
    room = [*sizes, len(config_document)]
    if request.report and plan.rounds:
        room.append(longest_report(plan))
    check_space(store, room)
    check_readable(
        job.file
        for job, ref in zip(jobs, known, strict=True)
        if ref is None and isinstance(job, FilePlan)
    )
    listen(_outlook(plan, known, reuse))
    with telling_space(store, room), store.writing(request.name) as writer:
        if request.rehash:
            writer.distrust()
        files = plan.inventory.all_files
        hold_sources(store, writer, files, threads, trusts=not request.rehash)
        reuse.take_notes()
        write = functools.partial(
            write_blobs,
            writer=writer,
            reuse=reuse,
            threads=threads,
            listen=listen,
            allow_nonfinite=plan.recipe.allow_nonfinite,
            scheduler=request.scheduler,
        )
        written = write(jobs, known=known)
        layers = [layer_of(job, done.ref) for job, done in zip(jobs, written, strict=True)]
        documents = [config_document]
        quality: tuple[Quality, ...] = ()
        if request.report and plan.rounds:
            quality = _measured(store, plan, written, threads, listen)
            documents.append(quality_bytes(quality))
        made = [Written(*writer.put(document)) for document in documents]
        config, *reports = [done.ref for done in made]
        layers += [Layer(MediaType.QUALITY, ref.digest, ref.size) for ref in reports]
        say = functools.partial(put_noted, writer, made)
        layers += use_layers(say, plan.inventory.use, use)
        origin = Origin(_place_of(request, plan), config_document)
        manifest = Manifest(Layer(CONFIG_MEDIA_TYPE, config.digest, config.size), tuple(layers))
        check_sources(store, writer, files, threads)
        request.check_name(store)
        request.check_manifest(manifest)
        try:
            digest, previous = writer.publish(request.name, manifest, origin)
        except BlobsGoneError as error:
            # Another program removed blobs behind our back: make them again, once.
            gone = set(error.gone)
            write([job for job, done in zip(jobs, written, strict=True) if done.ref in gone])
            for document, ref in zip(documents, (config, *reports), strict=True):
                if ref in gone:
                    writer.put(document)
            use_layers(say, plan.inventory.use, use)
            digest, previous = writer.publish(request.name, manifest, origin)
    store.memo.save()
    was = previous.digest if previous is not None else None
    listen(Published(digest, is_new=digest != was))
    return ImportResult(request.name, digest, was, tuple(written), tuple(made), quality)


def _outlook(plan: Plan, known: Sequence[BlobRef | None], reuse: Reuse) -> Planned:
    """Return how many blobs there are, how many are known, and how many may be there, too."""
    left = [job for job, ref in zip(plan.jobs, known, strict=True) if ref is None]
    expected = sum(reuse.expected(left))
    return Planned(len(known), plan.nbytes, len(known) - len(left), expected=expected)


def _with_attachments(plan: Plan, request: ImportRequest) -> Plan:
    if request.draft is None and request.adapter is None:
        return plan
    from importer.modelfile.adapter import read_adapter  # noqa: PLC0415 - few models have one
    from importer.planning.attachments import attach, check_draft  # noqa: PLC0415

    shapes = {tensor.name: tensor.shape for tensor in plan.inventory.tensors}
    if request.draft is not None:
        draft = read_inventory(request.draft, as_arrays=True)
        check_draft(draft)
        plan = attach(plan, Role.DRAFT, draft)
    if request.adapter is not None:
        plan = attach(plan, Role.ADAPTER, read_adapter(request.adapter, shapes))
    return plan


@contextlib.contextmanager
def _inventory(
    request: ImportRequest, store: Store, listen: Listener, *, only_headers: bool
) -> Iterator[Inventory]:
    source, variant, apart = request.source, request.variant, request.takes_apart
    if isinstance(source, StoredModel):
        from importer.sources.stored.source import read_stored  # noqa: PLC0415 - as below

        check_no_variant(source, variant)
        yield read_stored(store, source.manifest, apart=apart)
        return
    if isinstance(source, HubRepository):
        variant = _one_variant(source, variant)
        from importer.hub.fetch import fetched  # noqa: PLC0415 - 5 ms that few imports need

        with fetched(source, variant, listen, only_headers=only_headers) as tree:
            yield take_inventory(tree, variant, as_arrays=request.as_arrays, apart=apart)
    else:
        yield read_inventory(source, variant, as_arrays=request.as_arrays, apart=apart)


def _measured(
    store: Store, plan: Plan, written: Sequence[Written], threads: int, listen: Listener
) -> tuple[Quality, ...]:
    from importer.engine.measure import measure  # noqa: PLC0415 - few imports are measured

    refs = [done.ref for done in written[: len(plan.blobs)]]
    return tuple(measure(store, plan, refs, threads, listen))


def _one_variant(source: HubRepository, asked: str | None) -> str | None:
    if source.variant is not None and asked not in {None, source.variant}:
        raise UsageError(
            f"two variants are asked for, `{printable(source.variant)}` and "
            f"`{printable(str(asked))}`",
            code="E_USAGE",
        )
    return asked or source.variant


def _place_of(request: ImportRequest, plan: Plan) -> Path | None:
    source = request.source
    if isinstance(source, Path) and source.is_file():
        return source.absolute()  # its directory would be another source
    # Of a stored model the configuration tells which it was.
    return None if plan.inventory.model is not None else plan.inventory.root


def _place(request: ImportRequest, inventory: Inventory) -> Path:
    """Return what the source is on disk: a single file may lie beside the store."""
    source = request.source
    return source.resolve() if isinstance(source, Path) and source.is_file() else inventory.root


def _check_apart(source: Path, store: Path) -> None:
    if source.is_relative_to(store) or store.is_relative_to(source):
        raise UsageError(
            f"source `{source}` and store `{store}` are inside each other",
            code="E_STORE_OVERLAP",
        )
