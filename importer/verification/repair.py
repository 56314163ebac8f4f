"""Repair what a verification found; put into quarantine what no source gives again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from importer.events import Listener, silent
from importer.models.provenance import Provenance, provenance_of
from importer.sources.location import Source
from importer.verification.damaged import DamagedModel, Repaired
from importer.verification.reasons import Why
from importer.verification.rebuild import Rebuilder
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
        source_differs: whether its source gave something else than the model has: made of it
            again, the model would be another one.
    """

    model: str
    provenance: Provenance
    reasons: tuple[str, ...]
    source_differs: bool = False


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair did.

    Attributes:
        repaired: blobs that are good again.
        quarantined: files that were bad, and are no longer among the blobs.
        remaining: findings that still hold.
        unrepaired: the models of these, sorted by name.
        hindrance: why nothing could be put into quarantine, or empty.
    """

    repaired: tuple[Repaired, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    remaining: tuple[Finding, ...] = ()
    unrepaired: tuple[Unrepaired, ...] = ()
    hindrance: str = ""


def repair(  # noqa: PLR0913 - each is another side of it
    store: Store,
    report: Report,
    names: Sequence[ModelName] = (),
    *,
    source: Source | None = None,
    threads: int = 1,
    listen: Listener = silent,
) -> Repair:
    """Make the blobs again that a verification found damaged.

    A blob is made again from the source of any model that uses it, and takes its place only
    if it has its digest. What no source gives again goes into quarantine.

    Args:
        store: that was verified.
        report: of the verification.
        names: the models that were verified; the whole store when there are none.
        source: to make blobs from, instead of what each model was made from.
        threads: that hash and write.
        listen: told of the work.

    Raises:
        NoSpaceError: it does not fit; nothing was moved.
    """
    if not report.findings:
        return Repair()
    found = map(_digest, report.findings)
    damaged = {digest for digest in found if digest is not None}
    suspects = _examine(store, damaged, threads)
    models = _models_with(store, suspects, names)
    rebuilder = Rebuilder(store, suspects, source, threads, listen)
    repaired = rebuilder.run(models) if models else ()
    good = {blob.digest for blob in repaired}
    bad = {digest: suspect for digest, suspect in suspects.items() if digest not in good}
    moved: tuple[Digest, ...] = ()
    hindrance = ""
    try:
        moved = quarantine(store, bad.values())
    except (BusyError, UnsupportedError) as error:
        hindrance = str(error)  # what was found and repaired is to be told all the same
    # What was not moved, another process may have repaired meanwhile.
    still = _examine(store, bad.keys() - set(moved), threads).keys()
    remaining = _remaining(store, report, names, still)
    affected = {model for finding in remaining for model in finding.models}
    affected |= {model for digest in (*moved, *still) for model in _users(models, digest)}
    return Repair(
        repaired,
        tuple(Quarantined(digest, _users(models, digest)) for digest in moved),
        remaining,
        tuple(
            _unrepaired(store, name, rebuilder.reasons.of(name), source)
            for name in sorted(affected)
        ),
        hindrance,
    )


def _examine(store: Store, digests: Iterable[Digest], threads: int) -> dict[Digest, Suspect]:
    # Whatever the finding: a size may be the manifest's mistake, a header the bytes'.
    order = sorted(digests, key=lambda digest: digest.hex)
    stop = Stop()
    looked = each(lambda digest: examine(store, digest, stop), order, threads, stop)
    return {suspect.digest: suspect for suspect in looked if suspect is not None}


def _models_with(
    store: Store, suspects: Collection[Digest], names: Sequence[ModelName]
) -> list[DamagedModel]:
    """Return all models that use a suspect; first those that were asked for."""
    found = []
    for entry in store.catalog.entries() if suspects else ():
        if entry.name is None:
            continue
        try:
            stored = store.catalog.get(entry.name)
            manifest = stored.parse()
        except (IngotError, OSError):
            continue  # a finding of its own, or gone
        if any(ref.digest in suspects for ref in manifest.blobs):
            found.append(DamagedModel(stored, manifest))
    return sorted(found, key=lambda model: model.stored.name not in names)


def _remaining(
    store: Store, report: Report, names: Sequence[ModelName], still: Collection[Digest]
) -> tuple[Finding, ...]:
    # Sizes, headers and manifests are looked at again; what only hashing tells of a file that
    # was neither repaired nor moved is as it was.
    there = [name for name in names if store.fs.status(store.catalog.path(name)) is not None]
    again = verify(store, there, quick=True).findings if there or not names else ()
    seen = {(finding.problem, finding.subject) for finding in again}
    rest = (f for f in report.findings if f.problem in _OF_THE_FILE and _digest(f) in still)
    return (*again, *(f for f in rest if (f.problem, f.subject) not in seen))


def _unrepaired(store: Store, model: str, why: Why, source: Source | None) -> Unrepaired:
    name, told = ModelName.parse(model), list(why.reasons)
    try:
        provenance = provenance_of(store, store.catalog.get(name), source)
    except (IngotError, OSError) as error:
        known = () if source is None else (source,)
        provenance = Provenance(name, known, is_recipe_lost=True)
        told.append(in_words(error))
    return Unrepaired(model, provenance, tuple(dict.fromkeys(told)), why.source_differs)


def _digest(finding: Finding) -> Digest | None:
    try:
        return Digest.parse(finding.subject)
    except IntegrityError:
        return None  # a path, or the name of a model


def _users(models: Iterable[DamagedModel], digest: Digest) -> tuple[str, ...]:
    return tuple(sorted(str(model.stored.name) for model in models if model.uses(digest)))
