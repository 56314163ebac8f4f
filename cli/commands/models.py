"""`ingot list`, `ingot cp` and `ingot rm`: the names in the store."""

# Without `from __future__ import annotations`: typer would compile each from its text, 3 ms.

from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.former import AT, check_text, restore
from cli.commands.options import (
    MANIFEST_REMEDY,
    InitOpt,
    JobsOpt,
    JsonOpt,
    NoClobberOpt,
    ProgressOpt,
    StoreOpt,
    existing_store,
    store_option,
    threads,
)
from cli.commands.sources import get_model, looked_up
from cli.views.progress_style import Style
from cli.views.sort import ModelSort

if TYPE_CHECKING:
    from importer.models.summary import Summary
    from store import Manifest, Store
    from store.catalog import StoredManifest


def list_models(
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="[GLOB]", help="List only names that this matches, or that begin with it."
        ),
    ] = "",
    history: Annotated[
        bool, typer.Option("--history", help="List former versions, which are kept until gc.")
    ] = False,
    names: Annotated[
        bool, typer.Option("--names", help="Print only the names, one per line.")
    ] = False,
    sort: Annotated[
        ModelSort,
        typer.Option(metavar="ORDER", help="The order: name, size, or modified, latest first."),
    ] = ModelSort.NAME,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """List the models in the store.

    Example: ingot list 'llama*' --sort size
    """
    from cli.views.console import out, out_json, talk, warn
    from store.errors import UsageError
    from store.text import printable

    if sum((names, json or history)) > 1:
        message = "`--names` goes with neither `--json` nor `--history`"
        raise UsageError(message, code="E_USAGE")
    if history and sort is not ModelSort.NAME:
        message = "`--sort` cannot be combined with `--history`, where the latest comes first"
        raise UsageError(message, code="E_USAGE")
    opened = existing_store(store)
    if history:
        from cli.commands.former import list_former

        list_former(pattern, opened, json=json)
        return
    found, problems = _readable(pattern, opened)
    for problem in problems:
        warn(f"{problem}; {MANIFEST_REMEDY}")
    if sort is ModelSort.SIZE:
        found.sort(key=lambda pair: -pair[1].nbytes)
    elif sort is ModelSort.MODIFIED:
        found.sort(key=lambda pair: -pair[0].mtime_ns)
    if pattern and not found:
        talk(f"no model matches `{printable(pattern)}`")
    if names:
        out(str(model.name) for model, _ in found)
        return
    from cli.views.models import list_document, list_lines

    rows = [(*pair, _summary(opened, *pair, problems)) for pair in found]
    if json:
        out_json("list", {"models": list_document(rows), "problems": problems})
    else:
        out(list_lines(rows))


def _summary(
    store: "Store", model: "StoredManifest", manifest: "Manifest", problems: "list[str]"
) -> "Summary":
    from cli.views.console import warn
    from importer.models.summary import NOTHING, summary_of
    from store.errors import IngotError

    try:
        return summary_of(store, manifest.config)
    except (IngotError, OSError):
        problems.append(f"the configuration of {model.name} is missing or damaged")
        command = f"ingot verify {model.name} --repair{store_option(store)}"
        warn(f"{problems[-1]}; `{command}` makes it again")
        return NOTHING


def copy_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A model: NAME[:TAG], ID, or NAME@ID of `list --history`."
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="[TARGET]", help="The second name; between two stores the same by default."
        ),
    ] = "",
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="DIR", help="Copy a model of the store in DIR here."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="DIR", help="Copy a model of this store to that in DIR."),
    ] = None,
    link: Annotated[
        bool,
        typer.Option(
            "--link", help="Between two stores, make hard links: each blob is one file of both."
        ),
    ] = False,
    no_clobber: NoClobberOpt = False,
    jobs: JobsOpt = None,
    init: InitOpt = False,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Give a model a second name, here or in another store.

    In one store no blob is copied. Between two, blobs share their bytes where the file system
    can (reflink), and are copied elsewhere; each is hashed where it arrives.

    Example: ingot cp llama llama:backup
    Example: ingot cp llama --to ~/.ollama/models
    """
    from cli.views.console import out, out_json, talk
    from store import ModelName
    from store.errors import UsageError

    if not target and from_ is None and to is None:
        hint = "Between two stores, `--from DIR` or `--to DIR`, the name may stay"
        raise UsageError(
            "TARGET is missing, expected `ingot cp SOURCE TARGET`",
            code="E_USAGE",
            hint=f"{hint}; `--link` goes with `--from` or `--to`" if link else hint,
        )
    given = ModelName.parse(target) if target else None
    check_text(source)
    if given is None or from_ is not None or to is not None:
        from cli.commands.copying import Ends, copy_between

        ends = Ends(store, from_, to, may_init=init)
        copy_between(source, given, ends, no_clobber, link, threads(jobs), json, progress)
        return
    if link:
        message = "`--link` goes with `--from` or `--to`: in one store nothing is copied"
        raise UsageError(message, code="E_USAGE")
    with existing_store(store) as opened:
        model = get_model(opened, source)
        former, names = model.former, (model.name, given)
        found = opened.catalog.get(model.manifest)
        if no_clobber:
            opened.catalog.check_free(given)
        with opened.writing("") as writer:
            replaced = (
                restore(writer, former, names[1]) if former is not None else writer.copy(*names)
            )
    is_same = replaced is not None and replaced.digest == found.digest
    if replaced is not None and not is_same:
        talk(f"replaced {names[1]} (was {replaced.digest.short})")
    copied = f"{names[0]}{AT}{found.digest.short}" if former else str(names[0])
    if json:
        was = str(replaced.digest) if replaced else None
        document = {"source": copied, "target": str(names[1]), "replaced": was}
        out_json("cp", document)
    elif is_same:
        is_there = "" if copied == str(names[1]) else f": it is '{copied}' already"
        out([f"'{names[1]}' is unchanged{is_there}"])
    else:
        out([f"copied '{copied}' to '{names[1]}'"])


def remove_models(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Models whose names to remove, or globs."),
    ],
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Remove models by name; `ingot gc` then frees what no other model needs.

    Never asks.

    Example: ingot rm llama:backup
    Example: ingot rm 'test-*'
    """
    from cli.views.console import out, out_json, talk
    from store import ModelName
    from store.lookup import is_glob, names_to_remove
    from store.sharing import is_readable, only_of
    from store.text import count, size

    for one in names:
        if not is_glob(one):
            ModelName.parse(one)
    opened = existing_store(store)
    with looked_up(opened):
        removed = names_to_remove(opened.catalog, names)
    free = only_of(opened.catalog, removed)
    torn = [name for name in removed if not is_readable(opened.catalog, name)]
    opened.remove(removed)
    nbytes = sum(ref.size for ref in free.values())
    if json:
        freed = {"blobs": len(free), "bytes": nbytes}
        out_json("rm", {"removed": [str(name) for name in removed], "to_free": freed})
        return
    if free:
        blobs = f"{count(len(free), 'blob')} ({size(nbytes)})"
        verb, them = ("are", "them") if len(free) > 1 else ("is", "it")
        talk(f"{blobs} {verb} no longer referenced; `ingot gc` deletes {them}")
    for name in torn:
        talk(
            f"which blobs {name} needed is not known; `ingot gc` deletes those that no other "
            "model needs"
        )
    out(f"deleted '{name}'" for name in removed)


def _readable(
    pattern: str, store: "Store"
) -> "tuple[list[tuple[StoredManifest, Manifest]], list[str]]":
    from store import IngotError
    from store.errors import in_words
    from store.lookup import is_chosen

    found, problems = [], []
    for entry in store.catalog.entries():
        if entry.name is None:
            path = entry.path.relative_to(store.layout.root)
            problems.append(f"`{path}` is not a manifest: {entry.why}")
            continue
        if not is_chosen(entry.name, pattern):
            continue
        try:
            model = store.catalog.find(entry.name)
            if model is not None:
                found.append((model, model.parse()))
        except (IngotError, OSError) as error:
            problems.append(in_words(error))
    # By name and tag apart: `llama:latest` goes before `llama4:latest`.
    return sorted(found, key=lambda pair: str(pair[0].name).rpartition(":")), problems
