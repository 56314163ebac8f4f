"""The whole story of an export, on one screen."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from importer.engine.held import pin_sources
from importer.engine.resources import affordable
from importer.engine.space import check_room, telling_room
from importer.events import Listener, Planned, Scanned, silent
from importer.exports.base import ExportOptions, WritePlan
from importer.exports.directory import ExportDirectory
from importer.exports.formats import format_of
from importer.exports.place import check_file_place, check_place
from importer.exports.write import write_export
from importer.planning.outcome import misfits_of, outcomes_of
from importer.planning.plan import Plan
from importer.planning.planner import make_plan
from importer.planning.warnings import misfit_warning
from importer.sources.carried import carried_prefixes
from importer.sources.classification import classify
from importer.sources.cross_check import check_reference
from importer.sources.file import SourceFile, changed, is_unchanged
from importer.sources.inventory import Inventory, read_inventory, take_inventory
from importer.sources.location import HubRepository, Source, StoredModel, check_no_variant
from importer.sources.roles import LeftOut
from store import Manifest, Store
from store.errors import InputError, IntegrityError, UnsupportedError, UsageError
from store.fs import FileSystem
from store.text import printable

_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What the user asked for.

    Attributes:
        source: a stored model, a directory or a file.
        dest: that must not exist, or be an empty directory.
        format: a word of `importer.exports.formats`.
        options: for the format.
        variant: of the weights of a directory, or None.
        threads: that work, if `max_memory`, in bytes, suffices for so many.
        strict: refuse a plan in which something is lost.
        scheduler: address of a Dask cluster whose workers fill the files, or None.
    """

    source: Source
    dest: Path
    format: str
    options: ExportOptions = field(default_factory=ExportOptions)
    variant: str | None = None
    threads: int = 1
    max_memory: int | None = None
    strict: bool = False
    scheduler: str | None = None


class PlannedExport(NamedTuple):
    """An export that is decided.

    Attributes:
        place: where it goes, links resolved.
        write: every file.
        documents: blobs that were read for the plan and are not copied: to be hashed, too.
        quantizes: whether kernels will be loaded.
    """

    place: Path
    write: WritePlan
    documents: tuple[SourceFile, ...] = ()
    quantizes: bool = False


def plan_export(
    request: ExportRequest, store: Store | None, listen: Listener = silent
) -> PlannedExport:
    """Decide everything; read no weight and write nothing.

    Args:
        store: that has the model, or None for a source of files.

    Raises:
        IngotError: it cannot be exported as it was asked.
    """
    place = check_place(request.dest)
    if store is not None:
        _check_apart(place, store.layout.root.resolve())
    planned, misfits = decide(request, store, place, listen)
    if planned.write.is_file:
        check_file_place(place)
        planned = planned._replace(write=_named(planned.write, place.name))
    if request.strict and (planned.write.lossy or misfits):
        shown = "; ".join(planned.write.lossy) or ", ".join(map(printable, misfits[:10]))
        raise InputError(f"the export would lose something: {shown}", code="E_EXPORT_LOSSY")
    return planned


def decide(
    request: ExportRequest, store: Store | None, place: Path, listen: Listener = silent
) -> tuple[PlannedExport, list[str]]:
    """Decide every file of an export, wherever it is; name what does not fit its rule.

    The arguments are those of `plan_export`, and the place.

    Raises:
        IngotError: it cannot be exported as it was asked.
    """
    exported = format_of(request.format)
    options = exported.options(request.options)
    with _inventory(request, store, listen) as (inventory, documents):
        _check_apart(place, _root(request.source, inventory))
        weights = inventory.weights
        nbytes = sum(file.size for file in weights)
        listen(Scanned(len(inventory.tensors), len(weights), nbytes, inventory.model))
        if inventory.model is None:
            check_reference(inventory, lambda _: False)
        facts = classify(inventory)
        recipe = options.resolve(facts)
        if facts.is_packed:
            recipe = recipe.decoding()
        plan = make_plan(inventory, facts, recipe)
        write = exported.plan(plan, replace(request.options, name=_name_of(request.source)))
        warnings = _asked_for(plan, request.options)
        write = replace(write, notes=(*warnings, *write.notes))
    misfits = [one.name for one in misfits_of(plan.blobs)]
    return PlannedExport(place, write, documents, plan.quantizes), misfits


def _named(write: WritePlan, name: str) -> WritePlan:
    """Give the file that is all of an export the name that it is going to have."""
    (file,) = write.files
    rows = tuple(row._replace(file=name) for row in write.rows)
    return replace(write, files=(file._replace(path=name),), rows=rows)


def _asked_for(plan: Plan, options: ExportOptions) -> list[str]:
    """Return the warnings of a plan; of types only where types were asked for.

    What does not fit the rules of the format itself is decoded, and told as a loss.
    """
    if options.quantize is not None or options.recipe is not None:
        return list(plan.warnings)
    misfits = set(misfit_warning(outcomes_of(plan.blobs)))
    return [warning for warning in plan.warnings if warning not in misfits]


def export_model(
    request: ExportRequest,
    planned: PlannedExport,
    store: Store | None,
    listen: Listener = silent,
) -> None:
    """Carry out a plan: files first, the one rename last.

    Raises:
        IngotError: nothing is published.
        OSError: likewise.
    """
    write, place = planned.write, planned.place
    threads = affordable(request.threads, request.max_memory, quantizes=planned.quantizes)
    fs = store.fs if store is not None else FileSystem()
    sizes = [file.nbytes for file in write.files]
    check_room(fs, place.parent, sizes, "export")
    listen(Planned(len(write.files), write.nbytes, 0, "file"))
    blobs = [file for file in (*write.sources, *planned.documents) if file.is_blob]
    with (
        _held(store, request.source, blobs),
        telling_room(fs, place.parent, sizes, "export"),
        ExportDirectory(fs, place, write.files[0].path if write.is_file else None) as directory,
    ):
        write_export(
            write,
            directory,
            threads,
            listen,
            hashed=planned.documents,
            scheduler=request.scheduler,
        )
        for file in write.sources:
            if not file.is_blob and not is_unchanged(file):
                changed(file)
        directory.publish()


@contextlib.contextmanager
def _inventory(
    request: ExportRequest, store: Store | None, listen: Listener
) -> Iterator[tuple[Inventory, tuple[SourceFile, ...]]]:
    """Yield what is exported, and the blobs that tell about it."""
    source = request.source
    if isinstance(source, StoredModel):
        assert store is not None, "a stored model is in a store"
        from importer.sources.stored.source import layer_file, read_stored  # noqa: PLC0415

        check_no_variant(source, request.variant)
        manifest = store.catalog.get(source.manifest).parse()
        try:
            inventory = _alone(read_stored(store, source.manifest))
            stored = (file for file in inventory.files if file.maker is None)
            yield inventory, (*stored, layer_file(store, manifest.config))
        except (InputError, UnsupportedError):
            _check_blobs(store, manifest)  # what it says may not be what was stored
            raise
    elif isinstance(source, HubRepository):
        from importer.hub.fetch import fetched  # noqa: PLC0415 - 5 ms that few exports need

        with fetched(source, request.variant, listen, only_headers=False) as tree:
            yield take_inventory(tree, request.variant), ()
    else:
        yield read_inventory(source, request.variant), ()


def _alone(inventory: Inventory) -> Inventory:
    """Leave out a draft or an adapter that the model carries: no format holds two models."""
    carried = carried_prefixes({file.path for file in inventory.files})
    if not carried:
        return inventory
    folders = tuple(f"{prefix.removesuffix('.')}/" for prefix in carried)
    return inventory._replace(
        tensors=tuple(one for one in inventory.tensors if not one.name.startswith(carried)),
        files=tuple(one for one in inventory.files if not one.path.startswith(folders)),
        left_out=(*inventory.left_out, *(LeftOut(one, _CARRIED) for one in folders)),
    )


_CARRIED: Final = "a model that this one carries"


def _check_blobs(store: Store, manifest: Manifest) -> None:
    from store.quarantine import examine  # noqa: PLC0415 - few stores are damaged

    for ref in dict.fromkeys(manifest.blobs):
        if examine(store, ref.digest) is not None:
            raise IntegrityError(
                f"blob {ref.digest} of the stored model is damaged", code="E_BLOB_DIGEST"
            )


@contextlib.contextmanager
def _held(store: Store | None, source: Source, files: Sequence[SourceFile]) -> Iterator[None]:
    """Keep gc off the blobs that are read, where that is possible."""
    with contextlib.ExitStack() as stack:
        if store is not None and files:
            try:
                writer = stack.enter_context(store.writing(f"the export of {source}"))
                pin_sources(writer, files)
            except OSError as error:
                # In a store that nobody of us can write to, none of us runs gc either.
                if error.errno not in _READ_ONLY:
                    raise
        yield


def _name_of(source: Source) -> str:
    """Return what a model is called: in the store, on the Hub, or as a directory."""
    if isinstance(source, StoredModel):
        return source.name.model
    if isinstance(source, HubRepository):
        return source.repository.rpartition("/")[2]
    path = source.resolve()
    return path.stem if path.is_file() else path.name or "model"


def _root(source: Source, inventory: Inventory) -> Path:
    """Return what an export must not be written into, nor around: the directory, or a file."""
    is_file = isinstance(source, Path) and source.is_file()
    return source.resolve() if is_file else inventory.root  # type: ignore[union-attr]  # a path


def _check_apart(place: Path, other: Path) -> None:
    if place.is_relative_to(other) or other.is_relative_to(place):
        raise UsageError(
            f"the export's place `{printable(str(place))}` and `{printable(str(other))}` are "
            "inside each other",
            code="E_EXPORT_PLACE",
        )
