"""By how much a store would grow, at most, if a plan were carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from importer.engine.held import blobs_that_stay
from importer.engine.reuse import Reuse
from importer.modelfile.layers import configured, inherited, use_layers, with_stops
from importer.models.config import config_bytes
from importer.models.quality import longest_report
from importer.planning.layers import layer_of
from importer.planning.plan import Job, Plan
from importer.request import ImportRequest, Use
from store import BlobRef, Digest, Layer, Manifest, Store
from store.manifest import CONFIG_MEDIA_TYPE


class Document(NamedTuple):
    """A small blob that is made of the plan itself.

    Attributes:
        nbytes: of the blob, or at most so many.
        ref: what it is, or None where measuring decides.
    """

    nbytes: int
    ref: BlobRef | None


class Growth(NamedTuple):
    """What an import would add to a store.

    Attributes:
        blobs: of the model, as far as the plan tells them apart.
        jobs: whose blobs the store is not known to have.
        documents: of the model: configuration, report, words of a Modelfile.
        new_documents: those that the store does not have.
        manifest: that the name would get, or None where only making the blobs tells.
    """

    blobs: int
    jobs: tuple[Job, ...]
    documents: tuple[Document, ...]
    new_documents: tuple[Document, ...]
    manifest: Digest | None

    @property
    def sizes(self) -> list[int]:
        """Bytes of each new blob, at most."""
        return [one.nbytes for one in (*self.jobs, *self.new_documents)]

    @property
    def has_bound(self) -> bool:
        """Whether the bytes of a document are known no better than at most."""
        return any(document.ref is None for document in self.documents)


def growth_of(request: ImportRequest, plan: Plan, store: Store) -> Growth:
    """Return what carrying out a plan would add; no weight is read, and nothing written."""
    known = known_blobs(plan, store, Reuse(store, plan, trusts=not request.rehash))
    config, use = configuration(request, plan)
    documents: list[Document] = []

    def note(data: bytes) -> BlobRef:
        ref = BlobRef(Digest.of(data), len(data))
        documents.append(Document(ref.size, ref))
        return ref

    made_of = note(config)
    if request.report and plan.rounds:
        documents.append(Document(longest_report(plan), None))
    added = use_layers(note, plan.inventory.use, use)
    documents = list(dict.fromkeys(documents))
    refs = [ref for ref in known if ref is not None]
    manifest: Digest | None = None
    if len(refs) == len(known) and all(document.ref for document in documents):
        layers = [layer_of(job, ref) for job, ref in zip(plan.jobs, refs, strict=True)]
        head = Layer(CONFIG_MEDIA_TYPE, made_of.digest, made_of.size)
        manifest = Digest.of(Manifest(head, (*layers, *added)).to_bytes())
    return Growth(
        len(plan.jobs) + len(documents),
        tuple(job for job, ref in zip(plan.jobs, known, strict=True) if ref is None),
        tuple(documents),
        tuple(one for one in documents if one.ref is None or not store.blobs.holds(one.ref)),
        manifest,
    )


def configuration(request: ImportRequest, plan: Plan) -> tuple[bytes, Use]:
    """Return the configuration of a planned model, and how the model is used beside that.

    Raises:
        InputError: the model requires an Ollama that does not read it.
    """
    inventory = plan.inventory
    use = inherited(request.use, inventory.words)
    config = configured(config_bytes(plan), use)
    if inventory.whole is not None and inventory.model is None:
        use = with_stops(use, inventory.whole.family)
    return config, use


def known_blobs(plan: Plan, store: Store, reuse: Reuse | None = None) -> list[BlobRef | None]:
    """Return for each job the blob that the store is known to have, or None."""
    reuse = reuse or Reuse(store, plan)
    known: Sequence[BlobRef | None] = reuse.present(plan.jobs)
    if plan.inventory.model is None:
        return list(known)
    kept = blobs_that_stay(store, plan)
    return [ref or other for ref, other in zip(known, kept, strict=True)]
