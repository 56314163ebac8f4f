"""Make a store hold what a list says: what is missing or differs is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum, unique
from pathlib import Path
from typing import Final, NamedTuple

from importer.engine.growth import known_blobs
from importer.events import Listener, ModelBegun, silent
from importer.modelfile.layers import configured, inherited
from importer.models.config import config_bytes
from importer.pipeline import ImportResult, import_model, plan_import
from importer.planning.layers import layer_of
from importer.planning.plan import Plan
from importer.request import ImportRequest
from importer.sources.location import StoredModel, check_not_misspelled
from importer.sync.listing import Find, Listed, read_listing, stored_model
from importer.sync.lock import Locked, path_of_lock, read_lock, write_lock
from store import Digest, Layer, MediaType, ModelName, Store
from store.errors import DiffersError, IngotError
from store.text import printable


@unique
class Action(StrEnum):
    """What became of a model of a list, or would."""

    MADE = "made"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"
    UNKNOWN = "unknown"
    """Only making it tells, in a dry run: what its source gives is not remembered."""


class Outcome(NamedTuple):
    """What became of a model.

    Attributes:
        digest: of the manifest that the name has, or None where it would only be made.
        commit: that it was made of, of a source on the Hub.
    """

    name: ModelName
    action: Action
    digest: Digest | None
    commit: str | None


class Synced(NamedTuple):
    """What became of a list.

    Attributes:
        models: in the order of the list.
        unlisted: names in the store that the list does not have.
        removed: those of them that were removed, or would be.
        lock: that was written, or None where it said the same already.
    """

    models: tuple[Outcome, ...]
    unlisted: tuple[ModelName, ...]
    removed: tuple[ModelName, ...]
    lock: Path | None


class SyncOptions(NamedTuple):
    """How to make a store hold what a list says.

    Attributes:
        locked: whether the lock has to say all that the list does, and stays as it is.
        upgrade: whether revisions of the Hub are asked for again.
        prune: whether names are removed that are not listed.
        dry_run: whether only to tell.
        threads: that write blobs.
        max_memory: in bytes, or None.
        find: the stored model that a source means, such as an ID, or None.
    """

    locked: bool = False
    upgrade: bool = False
    prune: bool = False
    dry_run: bool = False
    threads: int = 1
    max_memory: int | None = None
    find: Find | None = None


Tell = Callable[[ModelName, Plan, ImportResult | None], None]
"""Called for each model that was made, or in a dry run planned (without a result)."""


def untold(_: ModelName, __: Plan, ___: ImportResult | None) -> None:
    """Say nothing of a model."""


def sync(
    listing: Path,
    store: Store,
    options: SyncOptions,
    listen: Listener = silent,
    tell: Tell = untold,
) -> Synced:
    """Make the models of a list that are missing or differ, and lock what they were made of.

    Args:
        listing: the file.
        store: that is to hold the models.
        options: how.
        listen: hears how far it is.
        tell: hears what each model was made by: what there is to say of it is in the plan.

    Raises:
        DiffersError: the lock does not say what the list says, or what it says is not what
            comes out; the names are as they were.
        IngotError: a model cannot be made; those before it are, and the lock is as it was.
    """
    listed = read_listing(listing)
    lock = read_lock(path_of_lock(listing))
    if options.locked:
        if not (place := path_of_lock(listing)).exists():
            raise _differs(f"there is no lock `{printable(str(place))}`")
        _check_locked(listed, lock)
    run = _Run(store, options, listen, tell)
    outcomes: list[Outcome] = []
    for number, one in enumerate(listed, 1):
        listen(ModelBegun(str(one.name), number, len(listed)))
        entry = lock.get(str(one.name))
        try:
            outcomes.append(run.one(one, entry if entry and entry.is_of(one) else None))
        except IngotError as error:
            error.args = (f"`{one.name}`: {error}",)
            raise
    wanted = {str(one.name).lower() for one in listed}
    unlisted = tuple(name for name in _names(store) if str(name).lower() not in wanted)
    removed = unlisted if options.prune else ()
    written = None
    if not options.dry_run:
        if removed:
            store.remove(removed)
        if not options.locked:
            place = path_of_lock(listing)
            written = place if write_lock(place, _locks(listed, outcomes)) else None
    return Synced(tuple(outcomes), unlisted, removed, written)


class _Run:
    """One call: what it was given, and how it makes one model."""

    def __init__(
        self, store: Store, options: SyncOptions, listen: Listener, tell: Tell
    ) -> None:
        self._store: Final = store
        self._options: Final = options
        self._listen: Final = listen
        self._tell: Final = tell
        self._coming: Final[dict[ModelName, Action]] = {}

    def one(self, listed: Listed, entry: Locked | None) -> Outcome:
        """Make a model, or tell what making it would do.

        Args:
            listed: what the list says of it.
            entry: what the lock says of it, where that still is what the list says.
        """
        options, store = self._options, self._store
        there = store.catalog.find(listed.name)
        current = there.digest if there is not None else None
        keeps = entry is not None and not options.upgrade
        if keeps and entry is not None and current == entry.manifest and listed.is_remote:
            # A commit never changes: nothing has to be asked or read.
            return Outcome(listed.name, Action.UNCHANGED, current, entry.commit)
        commit = entry.commit if keeps and entry is not None else None
        request = listed.request(commit, options.threads, options.max_memory, self._find)
        check_not_misspelled(request.source, listed.source, store.catalog)
        if options.locked and entry is not None:
            request = request._replace(expected=entry.manifest)
        action = Action.MADE if current is None else Action.REPLACED
        source = request.source
        if isinstance(source, StoredModel) and source.name in self._coming:
            # In a dry run what it is made of is not there yet, or not as it will be.
            if current is not None and self._coming[source.name] is Action.UNKNOWN:
                action = Action.UNKNOWN
            self._coming[listed.name] = action
            return Outcome(listed.name, action, None, None)
        plan = plan_import(request, store, self._listen, only_headers=options.dry_run)
        commit = plan.inventory.origin.commit if plan.inventory.origin is not None else None
        is_made = _is_made(request, plan, store)
        if is_made:
            return Outcome(listed.name, Action.UNCHANGED, current, commit)
        if options.dry_run:
            action = Action.UNKNOWN if is_made is None else action
            self._coming[listed.name] = action
            self._tell(listed.name, plan, None)
            return Outcome(listed.name, action, None, commit)
        result = import_model(request, plan, store, self._listen)
        if result.digest == current:
            action = Action.UNCHANGED
        else:
            self._tell(listed.name, plan, result)
        return Outcome(listed.name, action, result.digest, commit)

    def _find(self, text: str) -> StoredModel | None:
        """Return the stored model that a text means, also one that a dry run has not made."""
        named = stored_model(text)
        if named is not None and named.name in self._coming:
            return named  # and not the model whose ID begins so
        find = self._options.find
        if (found := find(text) if find is not None else None) is not None:
            return found
        is_there = named is not None and self._store.catalog.find(named.name) is not None
        return named if is_there else None


def _is_made(request: ImportRequest, plan: Plan, store: Store) -> bool | None:
    """Return whether the name has what the plan would make; None where only making it tells."""
    there = store.catalog.find(request.name)
    if there is None:
        return False
    manifest = there.parse()
    use = inherited(request.use, plan.inventory.words)
    if manifest.config.digest != Digest.of(configured(config_bytes(plan), use)):
        return False
    known = [
        (job, ref) for job, ref in zip(plan.jobs, known_blobs(plan, store), strict=True) if ref
    ]
    made = {_identity(layer_of(job, ref)) for job, ref in known}
    kinds = {kind for kind, _, _ in made} | {str(MediaType.TENSOR)}
    has = {_identity(layer) for layer in manifest.layers if layer.media_type in kinds}
    has_report = any(layer.media_type == MediaType.QUALITY for layer in manifest.layers)
    if not made <= has or (request.report and plan.quantizes) != has_report:
        return False
    if len(known) < len(plan.jobs):
        return None
    return made == has


def _identity(layer: Layer) -> tuple[str, Digest, str]:
    return layer.media_type, layer.digest, layer.name


def _check_locked(listed: Sequence[Listed], lock: dict[str, Locked]) -> None:
    names = {str(one.name) for one in listed}
    for one in listed:
        entry = lock.get(str(one.name))
        if entry is None:
            raise _differs(f"`{one.name}` is listed, and the lock does not have it")
        if not entry.is_of(one):
            raise _differs(f"`{one.name}` is listed with {'; '.join(entry.differences(one))}")
    if more := sorted(lock.keys() - names):
        raise _differs(f"the lock has `{printable(more[0])}`, which is not listed")


def _differs(what: str) -> DiffersError:
    return DiffersError(what, code="E_SYNC_LOCKED")


def _locks(
    listed: Sequence[Listed], outcomes: Sequence[Outcome]
) -> Iterator[tuple[Listed, Locked]]:
    for one, done in zip(listed, outcomes, strict=True):
        assert done.digest is not None, "it was made"
        yield one, Locked(one.source, one.options, done.commit, done.digest)


def _names(store: Store) -> list[ModelName]:
    names = (entry.name for entry in store.catalog.entries())
    return sorted((name for name in names if name is not None), key=str)
