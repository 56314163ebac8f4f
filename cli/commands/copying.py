"""What `cp` does between two stores."""

from __future__ import annotations

import contextlib
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.commands.options import check_store_path, existing_store, store_to_fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.views.progress_style import Style
    from store import ModelName, Store


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
    with _read_from(ends) as source, _written_to(ends) as target:
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


def _read_from(ends: Ends) -> Store:
    if ends.source is None:
        return existing_store(ends.store)
    with _named_by("--from", ends.source):
        return existing_store(ends.source)


def _written_to(ends: Ends) -> Store:
    if ends.target is None:
        return store_to_fill(ends.store, may_init=ends.may_init)
    with _named_by("--to", ends.target):
        return store_to_fill(ends.target, may_init=ends.may_init)


@contextlib.contextmanager
def _named_by(option: str, root: str) -> Iterator[None]:
    """Have errors about a store name the option that named it, which is not `--store`."""
    from store.errors import IngotError

    try:
        check_store_path(root, option)
        yield
    except IngotError as error:
        if error.code in _OF_OTHERS:
            error.hint = _OF_OTHERS[error.code].format(option=option)
        raise


_OF_OTHERS: Final = MappingProxyType(
    {
        "E_NO_STORE": "Name the directory of a store with `{option}`",
        "E_STORE_FOREIGN": "Name another directory with `{option}`, or make a store of this "
        "one with `--init`",
        "E_STORE_PATH": "Name another directory with `{option}`",
        "E_VERSION": "Name another store with `{option}`",
    }
)
"""What helps against an error about a store that `--store` does not name."""
