"""Heal what a verification found; quarantine what nothing heals, and tell what is lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from importer.events import Listener, silent
from importer.models.provenance import Provenance, provenance_of
from importer.verification.rebuild import DamagedModel, Rebuilder, Repaired
from store import Digest, ModelName, Store
from store.errors import BusyError, IngotError, IntegrityError, UnsupportedError, in_words
from store.findings import Finding, Problem, Report
from store.parallel import Stop, each
from store.quarantine import Suspect, examine, quarantine
from store.verify import verify

_OF_THE_FILE: Final = frozenset({Problem.DIGEST, Problem.UNREADABLE})
"""What a quick look does not see again."""


class Quarantined(NamedTuple):
    """A bad file that no longer has a digest for its name.

    Attributes:
        models: that use the blob.
    """

    digest: Digest
    models: tuple[str, ...]


class Unrepaired(NamedTuple):
    """A model that is still damaged.

    Attributes:
        provenance: how it was made, and so could be made again.
        reasons: why the repair could not.
    """

    model: str
    provenance: Provenance
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair did.

    Attributes:
        remaining: findings that still hold.
        losses: the models of these, sorted by name.
        hindrance: why nothing could be put into quarantine, or empty.
    """

    repaired: tuple[Repaired, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    remaining: tuple[Finding, ...] = ()
    losses: tuple[Unrepaired, ...] = ()
    hindrance: str = ""


@dataclass(frozen=True, slots=True)
class Repairer:
    """One repair of a store.

    Attributes:
        source: to heal from, instead of what each model was made from.
        threads: that hash and write.
        listen: is told of the work.
    """

    store: Store
    source: Path | None = None
    threads: int = 1
    listen: Listener = silent

    def run(self, report: Report, names: Sequence[ModelName] = ()) -> Repair:
        """Heal the blobs that a verification found damaged.

        A blob is made again from the source of any model that uses it, and takes its place
        only if it has its digest. What nothing heals goes into quarantine.

        Args:
            report: of the verification.
            names: the models that were verified; the whole store when there are none.

        Raises:
            NoSpaceError: it does not fit; nothing was moved.
        """
        if not report.findings:
            return Repair()
        found = map(_digest, report.findings)
        suspects = self._examine({digest for digest in found if digest is not None})
        models = self._models(suspects, names)
        healing = Rebuilder(self.store, suspects, self.source, self.threads, self.listen)
        repaired = healing.run(models) if models else ()
        healed = {blob.digest for blob in repaired}
        sick = {digest: found for digest, found in suspects.items() if digest not in healed}
        moved: tuple[Digest, ...] = ()
        hindrance = ""
        try:
            moved = quarantine(self.store, sick.values())
        except (BusyError, UnsupportedError) as error:
            hindrance = str(error)  # what was found and healed is to be told all the same
        # What was not moved, another process may have healed meanwhile.
        still = self._examine(sick.keys() - set(moved)).keys()
        lost = {*moved, *still}
        remaining = self._remaining(report, names, still)
        concerned = {model for finding in remaining for model in finding.models}
        concerned |= {model for digest in lost for model in _users(models, digest)}
        return Repair(
            repaired,
            tuple(Quarantined(digest, _users(models, digest)) for digest in moved),
            remaining,
            tuple(self._loss(name, models) for name in sorted(concerned)),
            hindrance,
        )

    def _examine(self, digests: Iterable[Digest]) -> dict[Digest, Suspect]:
        # Whatever the finding: a size may be the manifest's mistake, a header the bytes'.
        order = sorted(digests, key=lambda digest: digest.hex)
        stop = Stop()
        looked = each(
            lambda digest: examine(self.store, digest, stop), order, self.threads, stop
        )
        return {suspect.digest: suspect for suspect in looked if suspect is not None}

    def _models(
        self, suspects: dict[Digest, Suspect], names: Sequence[ModelName]
    ) -> list[DamagedModel]:
        """All models that use a suspect; first those that were asked for."""
        found = []
        for entry in self.store.catalog.entries() if suspects else ():
            if entry.name is None:
                continue
            try:
                stored = self.store.catalog.get(entry.name)
                manifest = stored.parse()
            except (IngotError, OSError):
                continue  # a finding of its own, or gone
            if any(ref.digest in suspects for ref in manifest.blobs):
                found.append(DamagedModel(stored, manifest))
        return sorted(found, key=lambda model: model.stored.name not in names)

    def _remaining(
        self, report: Report, names: Sequence[ModelName], still: Collection[Digest]
    ) -> tuple[Finding, ...]:
        # Sizes, headers and manifests are looked at again; what only hashing tells of a file
        # that was neither healed nor moved is as it was.
        there = [name for name in names if self._is_there(name)]
        again = verify(self.store, there, quick=True).findings if there or not names else ()
        seen = {(finding.problem, finding.subject) for finding in again}
        rest = (f for f in report.findings if f.problem in _OF_THE_FILE and _digest(f) in still)
        return (*again, *(f for f in rest if (f.problem, f.subject) not in seen))

    def _is_there(self, name: ModelName) -> bool:
        return self.store.fs.status(self.store.catalog.path(name)) is not None

    def _loss(self, model: str, damaged: Iterable[DamagedModel]) -> Unrepaired:
        reasons = [
            reason
            for other in damaged
            if str(other.stored.name) == model
            for reason in other.reasons
        ]
        name = ModelName.parse(model)
        try:
            making = provenance_of(self.store, self.store.catalog.get(name), self.source)
        except (IngotError, OSError) as error:
            making = Provenance(name, () if self.source is None else (self.source,))
            reasons.append(in_words(error))
        return Unrepaired(model, making, tuple(dict.fromkeys(reasons)))


def _digest(finding: Finding) -> Digest | None:
    try:
        return Digest.parse(finding.subject)
    except IntegrityError:
        return None  # a path, or the name of a model


def _users(models: Iterable[DamagedModel], digest: Digest) -> tuple[str, ...]:
    return tuple(sorted(str(model.stored.name) for model in models if model.uses(digest)))
