"""`ingot show NAME --tensor GLOB`: what the values of some tensors are like."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importer.models.description import Description
    from store import Store
    from store.errors import NotFoundError


def print_statistics(store: Store, model: Description, glob: str, *, json: bool) -> None:
    """Read the tensors that a name or a glob chooses, and print what they hold.

    Raises:
        NotFoundError: there is none.
        IntegrityError: a blob is missing or damaged.
    """
    from fnmatch import fnmatchcase

    from cli.views.console import out, out_json
    from cli.views.progress import listening
    from cli.views.progress_state import READING
    from cli.views.statistics import statistics_document, statistics_lines
    from cli.views.table import fitted
    from importer.engine.statistics import statistics_of
    from importer.sources.stored.source import read_stored
    from importer.verification.at_source import measure_at_source

    # Of a GGUF file the names are those in the file, as in a list of tensors.
    inventory = read_stored(store, model.stored, apart=not model.is_whole)
    chosen = [one for one in inventory.tensors if one.name == glob]
    chosen = chosen or [one for one in inventory.tensors if fnmatchcase(one.name, glob)]
    if not chosen:
        names = [one.name for one in inventory.tensors]
        raise no_tensor("tensor", f"of {model.name}", glob, names)
    wanted = {one.name for one in chosen}
    documents = []
    with listening(phases=(READING,)):
        at_source = measure_at_source(store, model.stored, wanted)
        for number, tensor in enumerate(chosen):
            found = statistics_of(tensor)
            if json:
                documents.append(statistics_document(tensor, found, at_source))
                continue
            # As each is known: of a thousand tensors the first is not to wait for the last.
            lines = fitted(statistics_lines(tensor, found, at_source))
            out([*([""] if number else []), *lines])
    if json:
        out_json("show", {"name": str(model.name), "statistics": documents})


def no_tensor(flag: str, where: str, glob: str, names: list[str]) -> NotFoundError:
    """Return the error of a glob that matches nothing.

    Args:
        flag: that has the glob, without its dashes.
        where: such as `of llama:latest`.
        glob: as it was given.
        names: of the tensors that there are.
    """
    from store.errors import NotFoundError
    from store.text import printable

    return NotFoundError(
        f"no tensor {where} matches `{printable(glob)}`",
        code="E_NO_TENSOR",
        hint=_hint(flag, glob, names),
    )


def _hint(flag: str, glob: str, names: list[str]) -> str | None:
    """Return what may have been meant by a glob that matches nothing, or None."""
    import shlex

    from store.text import count, did_you_mean, printable

    within = sum(glob in name for name in names)
    if within and not set(glob) & set("*?["):
        wider = printable(shlex.quote(f"*{glob}*"))
        return f"`--{flag} {wider}` finds {count(within, 'tensor')}: a glob matches whole names"
    return did_you_mean(glob, names)
