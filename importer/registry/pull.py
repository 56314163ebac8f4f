"""A model from a registry into the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from importer.events import Listener, Moving, Published
from importer.http.together import together
from importer.registry.client import Manner, Registry
from importer.registry.download import download, read_blob
from importer.registry.manifests import Model, get_manifest, model_of
from importer.registry.reference import Reference
from importer.registry.transfer import Amount, Tally, lacking
from store import limits
from store.arrival import set_name
from store.blobs import BlobRef
from store.digest import Digest
from store.errors import NoSpaceError
from store.names import ModelName
from store.origins import Origin

if TYPE_CHECKING:
    from store.store import Store
    from store.writer import Writer


class Pulled(NamedTuple):
    """What a pull did, or would do.

    Attributes:
        name: that the model has in the store.
        digest: of the manifest.
        replaced: what the name stood for before, or None.
        moved: blobs that came over the network, or would.
        present: blobs that the store had.
    """

    reference: Reference
    name: ModelName
    digest: Digest
    replaced: Digest | None
    moved: Amount
    present: Amount


def pull(  # noqa: PLR0913 - each is another side of it
    reference: Reference,
    name: ModelName,
    store: Store,
    listen: Listener,
    manner: Manner,
    *,
    clobber: bool = True,
) -> Pulled:
    """Fetch the blobs of a model that the store lacks, then give the model its name.

    Args:
        clobber: whether the name may stand for another model by then.

    Raises:
        IngotError: the model cannot be had; the name is as it was, and what has arrived stays
            for the next run.
    """
    store.catalog.check_settable(name)
    registry = _registry(reference, manner)
    try:
        model = _model(registry)
        with store.writing(name) as writer:
            tally = Tally(listen)
            refs = list(dict.fromkeys(model.manifest.blobs))
            tally.listen(
                Moving("pulling", str(reference), len(refs), sum(ref.size for ref in refs))
            )
            missing = lacking(writer, store, refs, tally)
            _check_space(store, writer, missing)
            # The largest first, so that no connection is left alone with one at the end.
            missing.sort(key=lambda ref: (-ref.size, ref.digest.hex))
            together(lambda ref: download(registry, writer, ref, tally), missing, registry.stop)
            if not clobber:
                store.catalog.check_free(name)
            previous = set_name(writer, name, model.data, _origin(store, model, reference))
        replaced = previous.digest if previous is not None else None
        listen(Published(model.digest, is_new=model.digest != replaced))
        return Pulled(reference, name, model.digest, replaced, tally.moved, tally.present)
    finally:
        registry.close()


def plan_pull(reference: Reference, name: ModelName, store: Store, manner: Manner) -> Pulled:
    """Return what a pull would do; nothing is written, and no blob is read.

    A blob that the store has is counted as present, even if a pull would hash it first.
    """
    store.catalog.check_settable(name)
    registry = _registry(reference, manner)
    try:
        model = _model(registry)
    finally:
        registry.close()
    there, missing = Amount(), Amount()
    for ref in dict.fromkeys(model.manifest.blobs):
        if store.blobs.holds(ref):
            there = Amount(there.blobs + 1, there.nbytes + ref.size)
        else:
            missing = Amount(missing.blobs + 1, missing.nbytes + ref.size)
    previous = store.catalog.find(name)
    replaced = previous.digest if previous is not None else None
    return Pulled(reference, name, model.digest, replaced, missing, there)


def _registry(reference: Reference, manner: Manner) -> Registry:
    return Registry(reference, (f"repository:{reference.repository}:pull",), manner)


def _model(registry: Registry) -> Model:
    def read(ref: BlobRef) -> bytes:
        return read_blob(registry, ref, limits.MANIFEST_BYTES)

    return model_of(get_manifest(registry), f"`{registry.reference}`", read)


def _origin(store: Store, model: Model, reference: Reference) -> Origin | None:
    """Return what is to be noted: a source that is there is nearer than the registry."""
    known = store.origins.get(model.digest)
    return None if isinstance(known, Path) and known.exists() else Origin(reference.address)


def _check_space(store: Store, writer: Writer, missing: list[BlobRef]) -> None:
    left = writer.partials.left()
    have = sum(
        seen.size
        for ref in missing
        if ref.digest in left and (seen := store.fs.status(left[ref.digest])) is not None
    )
    nbytes = sum(ref.size for ref in missing) - have
    free = store.fs.free(store.layout.tmp)
    if nbytes > free.nbytes:
        raise NoSpaceError(
            f"the model needs {nbytes} bytes, the store `{store.layout.root}` has "
            f"{free.nbytes} free; nothing was fetched",
            code="E_NOSPACE",
        )
