"""What `cp` does between two stores."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from cli.commands.options import existing_store, store_to_fill

if TYPE_CHECKING:
    from cli.views.progress_style import Style
    from store import ModelName


class Ends(NamedTuple):
    """The two stores of a copy: this one, and the one that a flag names.

    Attributes:
        store: this one, as the user names it.
        source: the other one, to copy from, or None.
        target: the other one, to copy to, or None.
        may_init: whether a directory that holds something else may become a store.
    """

    store: str | None
    source: str | None
    target: str | None
    may_init: bool


def copy_between(
    text: str,
    name: ModelName | None,
    ends: Ends,
    no_clobber: bool,
    link: bool,
    threads: int,
    json: bool,
    progress: Style,
) -> None:
    """Copy a model from one store into another, and print what became of it."""
    from cli.commands.sources import get_model
    from cli.views.console import out, out_json, talk
    from cli.views.progress import listening
    from cli.views.progress_state import COPYING
    from importer.events import Moving, Published, Wrote
    from importer.registry.transfer import Tally
    from store.copying import Copying, How, Told
    from store.errors import UsageError
    from store.text import count, printable, size

    if ends.source is not None and ends.target is not None:
        message = "`--from` and `--to` together: one of the stores is this one"
        raise UsageError(message, code="E_USAGE", hint="`--store DIR` names this one")
    source = existing_store(ends.store if ends.source is None else ends.source)
    root = ends.store if ends.target is None else ends.target
    with source, store_to_fill(root, may_init=ends.may_init) as target:
        if target.exists and os.path.samefile(source.layout.root, target.layout.root):
            message = f"`{printable(str(source.layout.root))}` is both stores"
            raise UsageError(
                message, code="E_USAGE", hint="`ingot cp SOURCE TARGET` copies within"
            )
        model = get_model(source, text)
        stored = source.catalog.get(model.manifest)
        given = name or model.name
        if no_clobber:
            target.catalog.check_free(given)
        refs = set(stored.parse().blobs)
        place = str(target.layout.root)
        with listening(progress, (COPYING,)) as listen:
            tally = Tally(listen)
            listen(Moving(COPYING, place, len(refs), sum(ref.size for ref in refs)))
            told = Told(
                lambda ref, nbytes: tally.listen(Wrote(ref.digest.short, nbytes)),
                lambda ref, how: (
                    tally.was_there(ref) if how is How.PRESENT else tally.has_moved(ref)
                ),
            )
            done = Copying(source, target, link, threads).copy(stored, given, told)
            listen(Published(done.digest, is_new=done.digest != done.replaced))
    if json:
        document = {
            "source": str(model.name),
            "target": str(given),
            "replaced": str(done.replaced) if done.replaced is not None else None,
            "blobs": {how.value: done.blobs.get(how, 0) for how in How},
            "bytes": done.nbytes,
        }
        out_json("cp", document)
        return
    ways = [f"{how} {count(done.blobs[how], 'blob')}" for how in How if done.blobs.get(how)]
    talk(f"{', '.join(ways)} ({size(done.nbytes)} new)")
    if done.replaced == done.digest:
        talk(f"{given} is unchanged")
    elif done.replaced is not None:
        talk(f"replaced {given} (was {done.replaced.short})")
    out([f"copied '{model.name}' to '{given}' in {printable(place, 1000)}"])
