"""Models from an OCI image layout into the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.events import Listener, Moving, Published
from importer.registry.layout import Layout, Tagged
from importer.registry.manifests import Model
from importer.registry.transfer import Amount, Tally, lacking
from store.arrival import set_name
from store.blob_writer import BlobWriter
from store.blobs import BlobRef
from store.digest import Digest
from store.errors import InputError, UsageError
from store.names import ModelName
from store.parallel import Stop, each
from store.text import printable

if TYPE_CHECKING:
    from store.store import Store
    from store.writer import Writer

_CHUNK: Final = 1 << 20


class Loaded(NamedTuple):
    """What became of one model of a layout.

    Attributes:
        name: that it has in the store.
        digest: of the manifest.
        replaced: what the name stood for before, or None.
        moved: blobs that the store lacked.
        present: blobs that it had.
    """

    name: ModelName
    digest: Digest
    replaced: Digest | None
    moved: Amount
    present: Amount


def names_of(models: Sequence[Tagged], name: ModelName | None) -> list[tuple[ModelName, Model]]:
    """Return what to call each model of a layout: what it is called there, or `name`.

    Raises:
        UsageError: one has no name, or `name` is for several.
    """
    if name is not None:
        if len(models) > 1:
            message = f"{len(models)} models cannot all be called `{name}`"
            raise UsageError(message, code="E_LAYOUT_NAMES", hint="Leave the name out")
        return [(name, models[0].model)]
    found = []
    for tag, model in models:
        # `latest` alone is what other tools call an image: a tag, and not a model's name.
        if ":" not in tag:
            raise UsageError(
                f"the layout does not say what to call {model.digest.short}: its tag is "
                f"`{printable(tag)}`",
                code="E_LAYOUT_NAME",
            )
        found.append((ModelName.parse(tag), model))
    return found


def load(
    layout: Layout,
    models: Sequence[tuple[ModelName, Model]],
    store: Store,
    listen: Listener,
    threads: int,
) -> list[Loaded]:
    """Put models into the store; each gets its name when all of it is there.

    Raises:
        InputError: a blob is missing, or has another hash; the models before it are loaded.
        IngotError: the store cannot be written to.
    """
    for name, _ in models:
        store.catalog.check_settable(name)
    done = []
    for name, model in models:
        tally = Tally(listen)
        refs = list(dict.fromkeys(model.manifest.blobs))
        tally.listen(Moving("loading", str(name), len(refs), sum(ref.size for ref in refs)))
        with store.writing(name) as writer:
            missing = lacking(writer, store, refs, tally)
            _bring(layout, writer, missing, tally, threads)
            previous = set_name(writer, name, model.data)
        replaced = previous.digest if previous is not None else None
        listen(Published(model.digest, is_new=model.digest != replaced))
        done.append(Loaded(name, model.digest, replaced, tally.moved, tally.present))
    return done


def _bring(
    layout: Layout, writer: Writer, refs: Sequence[BlobRef], tally: Tally, threads: int
) -> None:
    stop = Stop()

    def bring(ref: BlobRef) -> None:
        path = writer.open()
        try:
            with (
                layout.open(ref) as piece,
                closing(BlobWriter(writer.fs, path)) as blob,
                tally.counting(ref) as tell,
            ):
                blob.reserve(ref.size)
                while blob.size < ref.size:
                    stop.check()
                    wanted = min(_CHUNK, ref.size - blob.size)
                    data = layout.fs.read(piece.file, wanted, piece.offset + blob.size)
                    if not data:
                        break
                    blob.write(data)
                    tell(len(data))
                made = blob.finish()
            if made != ref:
                raise InputError(
                    f"blob {ref.digest} of `{printable(str(layout.place))}` has the hash "
                    f"{made.digest}",
                    code="E_LAYOUT_BLOB",
                    hint="Have the layout made, or copied, again",
                )
            writer.commit(path, ref)
        finally:
            writer.discard(path)
        tally.has_moved(ref)

    for _ in each(bring, refs, threads, stop):
        pass
