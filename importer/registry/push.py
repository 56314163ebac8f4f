"""A model from the store into a registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.events import Listener, Moving, silent
from importer.http.together import together
from importer.registry.client import Manner, Registry
from importer.registry.manifests import Model, has_manifest, put_manifest
from importer.registry.reference import Reference
from importer.registry.transfer import Amount, Tally
from importer.registry.upload import Upload, has_blob, upload
from store.blobs import BlobRef
from store.catalog import StoredManifest
from store.digest import Digest
from store.errors import IngotError, UnsupportedError
from store.names import DEFAULT_HOST, ModelName

if TYPE_CHECKING:
    from store.store import Store

_MOUNTS: Final = 2
"""Repositories that are tried for one blob: each costs a request."""


class Pushed(NamedTuple):
    """What a push did, or would do.

    Attributes:
        name: of the model in the store.
        digest: of the manifest.
        moved: blobs that went over the network, or would.
        mounted: blobs that the registry took from another repository.
        present: blobs that the repository had.
        is_new: whether the tag did not stand for this model before.
    """

    name: ModelName
    reference: Reference
    digest: Digest
    moved: Amount
    mounted: Amount
    present: Amount
    is_new: bool


class PushRequest(NamedTuple):
    """What is to go where.

    Attributes:
        stored: a model of the store.
        reference: to put it under.
        mounts: repositories of the same registry that may have blobs of it.
        dry_run: whether nothing is to move.
    """

    stored: StoredManifest
    reference: Reference
    mounts: tuple[str, ...] = ()
    dry_run: bool = False


def push(
    request: PushRequest, store: Store, manner: Manner, listen: Listener = silent
) -> Pushed:
    """Send the blobs of a model that a repository lacks, then the manifest, as it is.

    Raises:
        IngotError: the registry does not take it; the tag is as it was.
    """
    stored, reference, mounts, dry_run = request
    model = Model(stored.data, stored.parse())
    if not model.manifest.is_supported:
        kind = model.manifest.media_type
        raise UnsupportedError(
            f"`{stored.name}` has a manifest of type `{kind}`", code="E_MANIFEST"
        )
    found = {} if dry_run else _elsewhere(store, model, reference, mounts)
    others = sorted({other for repositories in found.values() for other in repositories})
    scopes = (
        f"repository:{reference.repository}:{'pull' if dry_run else 'pull,push'}",
        *(f"repository:{other}:pull" for other in others),
    )
    registry, tally = Registry(reference, scopes, manner), Tally(listen)
    way = _way(reference)
    refs = sorted(set(model.manifest.blobs), key=lambda ref: (-ref.size, ref.digest.hex))

    def send(ref: BlobRef) -> None:
        if has_blob(registry, ref):
            tally.was_there(ref)
        elif dry_run:
            tally.has_moved(ref)
        else:
            upload(registry, store.blobs, ref, found.get(ref.digest, ()), tally, kind=way)

    try:
        is_new = not has_manifest(registry, model.digest)
        nbytes = sum(ref.size for ref in refs)
        if not dry_run:
            tally.listen(Moving("pushing", str(reference), len(refs), nbytes))
        together(send, refs, registry.stop)
        if is_new and not dry_run:
            put_manifest(registry, model)
    finally:
        registry.close()
    amounts = tally.moved, tally.mounted, tally.present
    return Pushed(stored.name, reference, model.digest, *amounts, is_new)


def _way(reference: Reference) -> type[Upload]:
    if reference.host == DEFAULT_HOST:
        from importer.registry.ollama_upload import OllamaUpload  # noqa: PLC0415 - seldom

        return OllamaUpload
    return Upload


def _elsewhere(
    store: Store, model: Model, reference: Reference, mounts: Sequence[str]
) -> Mapping[Digest, Sequence[str]]:
    """Return for blobs the repositories of the same registry that may have them.

    Beside those that the user names, and that a layer is said to be from, these are the names
    of other models in the store: what was pulled from there has its name.
    """
    wanted = {ref.digest for ref in model.manifest.blobs}
    found = {digest: dict.fromkeys(mounts) for digest in wanted}
    for layer in model.manifest.layers:
        origin = layer.other.get("from")
        if isinstance(origin, str) and (place := _repository(origin, reference)) is not None:
            found[layer.digest][place] = None
    for entry in store.catalog.entries():
        if entry.name is None or entry.name.host != reference.host:
            continue
        place = f"{entry.name.namespace}/{entry.name.model}"
        if place == reference.repository:
            continue
        try:
            shared = wanted.intersection(
                ref.digest for ref in store.catalog.get(entry.name).parse().blobs
            )
        except (IngotError, OSError):
            continue  # not a model that is pushed here
        for digest in shared:
            found[digest][place] = None
    return {digest: list(places)[:_MOUNTS] for digest, places in found.items() if places}


def _repository(text: str, reference: Reference) -> str | None:
    try:
        other = Reference.parse(text)
    except IngotError:
        return None
    is_other = other.repository != reference.repository
    return other.repository if other.host == reference.host and is_other else None
