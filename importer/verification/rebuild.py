"""Make damaged blobs again from what their models were made from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from importer.engine.ledger import Written
from importer.engine.measure import measure
from importer.engine.resources import affordable
from importer.engine.reuse import Reuse
from importer.engine.space import check_space
from importer.engine.write import write_blobs
from importer.events import Listener, Planned
from importer.models.config import config_bytes
from importer.models.provenance import Provenance, provenance_of
from importer.models.quality import quality_bytes
from importer.pipeline import planned
from importer.planning.kept_files import files_by_name, layers_by_name
from importer.planning.plan import Job, Plan
from importer.request import ImportRequest
from importer.sources.location import HubRepository, Source
from importer.verification.blame import is_of_the_source
from importer.verification.damaged import DamagedModel, Repaired
from importer.verification.missing import fetch_parts, lacks_much
from importer.verification.reasons import Reasons
from store import CommitOutcome, Digest, Layer, MediaType, Store
from store.errors import IngotError, NoSpaceError, in_words
from store.writer import Writer

if TYPE_CHECKING:
    from importer.registry.reference import Reference


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One model, made again from one source, as far as it lacks something."""

    model: DamagedModel
    request: ImportRequest
    plan: Plan


class Rebuilder:
    """Makes blobs again, and puts those that come out as they were into their places.

    Attributes:
        reasons: why blobs could not be made again.
    """

    def __init__(
        self,
        store: Store,
        damaged: Iterable[Digest],
        source: Source | None,
        threads: int,
        listen: Listener,
    ) -> None:
        """Begin with everything damaged.

        Args:
            store: that the blobs are in.
            damaged: blobs whose files are bad or missing.
            source: to make them from, instead of what they were made from.
            threads: that write.
            listen: told of the work.
        """
        self.reasons = Reasons()
        self._store, self._source = store, source
        self._threads, self._listen = threads, listen
        self._waiting = set(damaged)
        self._repaired: list[Repaired] = []

    def run(self, models: Sequence[DamagedModel]) -> tuple[Repaired, ...]:
        """Make again what the sources of the models still give.

        Raises:
            NoSpaceError: it does not fit.
            OSError: the store could not be written.
        """
        wanted = frozenset(
            ref for model in models for ref in model.manifest.blobs if self._lacks(ref.digest)
        )
        for ref in wanted:
            # It may know a file that was good once and cannot be read now.
            self._store.memo.forget(ref.digest)
        with self._store.writing("") as writer:
            writer.accept_only(wanted)
            tried: dict[Digest, DamagedModel] = {}
            for model in models:
                # A second name of a model has the same sources.
                first = tried.setdefault(model.stored.digest, model)
                if first is model:
                    self._rebuild(model, writer)
                else:
                    self.reasons.share(str(model.stored.name), str(first.stored.name))
            writer.sync()
        self._store.memo.save()
        return tuple(self._repaired)

    def _note_reason(self, model: DamagedModel, reason: str) -> None:
        self.reasons.note(str(model.stored.name), reason)

    def _differs(self, attempt: _Attempt, reason: str) -> None:
        name = str(attempt.model.stored.name)
        self.reasons.differs(name, attempt.request.source, reason)

    def _lacks(self, digest: Digest) -> bool:
        return digest in self._waiting

    def _lacking(self, model: DamagedModel) -> list[Layer]:
        return model.among(self._waiting)

    def _rebuild(self, model: DamagedModel, writer: Writer) -> None:
        self._restore_configuration(model, writer)
        if not self._lacking(model):
            return
        try:
            made = provenance_of(self._store, model.stored, self._source)
        except IngotError as error:
            self._note_reason(model, str(error))
            return
        if made.is_recipe_lost:
            self.reasons.lose_recipe(str(model.stored.name))
        if made.was_pulled:
            # Fetching is less work than making, and needs nothing else.
            self._fetch(model, made.registry, writer)
        self._make_all(model, made, writer)
        if not made.was_pulled:
            self._fetch(model, made.registry, writer)

    def _restore_configuration(self, model: DamagedModel, writer: Writer) -> None:
        stored, config = model.stored, model.manifest.config
        copy = self._store.origins.config(stored.digest, config.digest)
        if copy is not None and self._lacks(config.digest):
            writer.put(copy)
            self._note_repaired(model, config, f"origins/{stored.digest.file_name}")

    def _note_repaired(self, model: DamagedModel, layer: Layer, source: Source | str) -> None:
        self._waiting.discard(layer.digest)
        what = model.what(layer)
        self._repaired.append(Repaired(layer.digest, layer.size, what, source))

    def _fetch(self, model: DamagedModel, registry: Reference | None, writer: Writer) -> None:
        lacking = self._lacking(model)
        if registry is None or not lacking:
            return
        from importer.verification.refetch import refetch  # noqa: PLC0415 - 60 ms of HTTP

        layers = {layer.ref: layer for layer in lacking}
        check_space(self._store, [ref.size for ref in layers])
        found, reasons = refetch(registry, list(layers), writer, self._listen)
        for ref in found:
            self._note_repaired(model, layers[ref], registry.address)
        for reason in reasons:
            self._note_reason(model, reason)

    def _make_all(self, model: DamagedModel, made: Provenance, writer: Writer) -> None:
        try:
            requests = made.requests(self._threads)
        except IngotError as error:
            self._note_reason(model, str(error))
            return
        if not requests and made.registry is None:
            self._note_reason(model, "its source was not recorded")
        for request in requests:
            lacking = self._lacking(model)
            if not lacking:
                return
            # A report of quality is of all tensors.
            has_report = any(layer.media_type == MediaType.QUALITY for layer in lacking)
            is_remote = isinstance(request.source, HubRepository)
            self._try(model, request, writer, in_parts=is_remote and not has_report)

    def _try(
        self, model: DamagedModel, request: ImportRequest, writer: Writer, *, in_parts: bool
    ) -> None:
        with contextlib.ExitStack() as opened:
            try:
                plan = opened.enter_context(
                    planned(request, self._store, self._listen, only_headers=in_parts)
                )
            except NoSpaceError:
                raise
            except (IngotError, OSError) as error:
                self._note_reason(model, in_words(error))
            else:
                self._make(_Attempt(model, request, plan), writer)

    def _make(self, attempt: _Attempt, writer: Writer) -> None:
        plan, manifest = attempt.plan, attempt.model.manifest
        blobs = {blob.name: blob for blob in plan.blobs}
        files = files_by_name(plan.files)
        names = {layer.digest: name for name, layer in layers_by_name(manifest.layers).items()}
        todo: list[tuple[Layer, Job]] = []
        for layer in self._lacking(attempt.model):
            if layer is manifest.config:
                self._note(attempt, layer, Written(*writer.put(config_bytes(attempt.plan))))
                continue
            if layer.media_type == MediaType.QUALITY:
                continue  # when the tensors are whole
            is_tensor = layer.media_type == MediaType.TENSOR
            name = layer.name if is_tensor else names.get(layer.digest, layer.media_type)
            job: Job | None = blobs.get(name) if is_tensor else files.get(name)
            if job is None:
                self._differs(attempt, f"has no `{name}`")
            elif job.nbytes != layer.size:
                sizes = f"{job.nbytes} bytes there, {layer.size} in the model"
                self._differs(attempt, f"changed: `{name}` has {sizes}")
            else:
                todo.append((layer, job))
        jobs = [job for _, job in todo]
        if lacks_much(jobs):
            self._try(attempt.model, attempt.request, writer, in_parts=False)
            return
        try:
            fetch_parts(jobs)
        except (IngotError, OSError) as error:
            self._note_reason(attempt.model, in_words(error))
            return
        sizes_of_jobs = [job.nbytes for _, job in todo]
        check_space(self._store, sizes_of_jobs)
        self._listen(Planned(len(todo), sum(sizes_of_jobs), 0))
        try:
            self._write(attempt, todo, writer)
        except (IngotError, OSError) as error:
            if not is_of_the_source(self._store, error):
                raise
            self._write_each(attempt, todo, writer)
        self._measure(attempt, writer)

    def _measure(self, attempt: _Attempt, writer: Writer) -> None:
        """Make a lost report again, of the tensors that the model has."""
        lacking = self._lacking(attempt.model)
        reports = [layer for layer in lacking if layer.media_type == MediaType.QUALITY]
        if not reports:
            return
        layers = {
            layer.name: layer
            for layer in attempt.model.manifest.layers
            if layer.media_type == MediaType.TENSOR and layer not in lacking
        }
        blobs = attempt.plan.blobs
        if any(blob.name not in layers for blob in blobs):
            self._note_reason(attempt.model, "gives no report of quality: tensors are missing")
            return
        refs = [layers[blob.name].ref for blob in blobs]
        try:
            found = measure(self._store, attempt.plan, refs, self._threads, self._listen)
        except (IngotError, OSError) as error:
            if not is_of_the_source(self._store, error):
                raise
            self._note_reason(attempt.model, f"`{attempt.request.source}` {in_words(error)}")
            return
        made = Written(*writer.put(quality_bytes(found)))
        for layer in reports:
            self._note(attempt, layer, made)

    def _write_each(
        self, attempt: _Attempt, todo: Sequence[tuple[Layer, Job]], writer: Writer
    ) -> None:
        # One file of the source that cannot be read must not keep the others.
        for one in todo:
            if not self._lacks(one[0].digest):
                continue
            try:
                self._write(attempt, [one], writer)
            except (IngotError, OSError) as error:
                if not is_of_the_source(self._store, error):
                    raise
                self._note_reason(attempt.model, in_words(error))

    def _write(
        self, attempt: _Attempt, todo: Sequence[tuple[Layer, Job]], writer: Writer
    ) -> None:
        # Nothing is recalled: every blob is made of the bytes that the source has now.
        reuse = Reuse(self._store, attempt.plan, trusts=False)
        if not any(file.rest for file in attempt.plan.inventory.all_files):
            reuse.take_notes()  # of files that will be there again
        jobs = [job for _, job in todo]
        written = write_blobs(
            jobs,
            writer,
            reuse,
            affordable(self._threads, None, quantizes=attempt.plan.quantizes),
            self._listen,
            allow_nonfinite=attempt.plan.recipe.allow_nonfinite,
        )
        for (layer, _), done in zip(todo, written, strict=True):
            self._note(attempt, layer, done)

    def _note(self, attempt: _Attempt, layer: Layer, done: Written) -> None:
        ref = done.ref
        if done.installed is CommitOutcome.REFUSED:
            what = f"`{attempt.model.what(layer)}` gives {ref.digest} there"
            self._differs(attempt, f"changed: {what}, {layer.digest} in the model")
        elif self._lacks(ref.digest):
            self._note_repaired(attempt.model, layer, attempt.request.source)
