"""`ingot list`, `ingot cp` and `ingot rm`: the names in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.former import AT, find_former, restore
from cli.commands.options import JsonOpt, StoreOpt, existing_store

if TYPE_CHECKING:
    from store import Manifest, Store
    from store.catalog import StoredManifest


def list_models(
    prefix: Annotated[
        str, typer.Argument(metavar="[PREFIX]", help="List only names that begin with this.")
    ] = "",
    history: Annotated[
        bool, typer.Option("--history", help="List what names stood for before, until gc.")
    ] = False,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """List the models in the store.

    Example: ingot list
    """
    if history:
        from cli.commands.former import list_former

        list_former(prefix, existing_store(store), json=json)
        return
    import time

    from cli.views.console import out, out_json, warn
    from cli.views.table import table
    from cli.views.text import ago, rfc3339
    from store.text import size

    found, problems = _readable(prefix, existing_store(store))
    for problem in problems:
        warn(f"{problem}; `ingot verify` tells more")
    if json:
        models = [
            {
                "name": str(model.name),
                "digest": str(model.digest),
                "size": manifest.nbytes,
                "modified": rfc3339(model.mtime_ns),
            }
            for model, manifest in found
        ]
        out_json("list", {"models": models, "problems": problems})
        return
    now = time.time()
    rows = [
        (str(model.name), model.digest.short, size(manifest.nbytes), ago(model.mtime_ns, now))
        for model, manifest in found
    ]
    out(table([("NAME", "ID", "SIZE", "MODIFIED"), *rows]))


def copy_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A model: NAME[:TAG], or NAME@ID of `list --history`."
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The second name.")],
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Give a model a second name; no blob is copied.

    Example: ingot cp llama llama:backup
    """
    from cli.views.console import out, out_json, talk
    from store import ModelName

    parsed = [ModelName.parse(one) for one in (source, target)[AT in source :]]
    opened = existing_store(store)
    former = find_former(opened, source) if AT in source else None
    names = former.name if former else parsed[0], parsed[-1]
    found = former or opened.catalog.get(names[0])
    with opened.writing("") as writer:
        replaced = (
            restore(writer, former, names[1]) if former is not None else writer.copy(*names)
        )
    if replaced is not None and replaced.digest == found.digest:
        talk(f"{names[1]} is unchanged")
    elif replaced is not None:
        talk(f"replaced {names[1]} (was {replaced.digest.short})")
    copied = f"{names[0]}{AT}{found.digest.short}" if former else str(names[0])
    if json:
        was = str(replaced.digest) if replaced else None
        document = {"source": copied, "target": str(names[1]), "replaced": was}
        out_json("cp", document)
    else:
        out([f"copied '{copied}' to '{names[1]}'"])


def remove_models(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Models whose names to remove.")
    ],
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Remove models by name; `ingot gc` then frees what no other model needs.

    Example: ingot rm llama:backup
    """
    from cli.views.console import out, out_json
    from store import ModelName

    parsed = list(dict.fromkeys(ModelName.parse(name) for name in names))
    opened = existing_store(store)
    opened.remove(parsed)
    if json:
        out_json("rm", {"removed": [str(name) for name in parsed]})
    else:
        out(f"deleted '{name}'" for name in parsed)


def _readable(
    prefix: str, store: Store
) -> tuple[list[tuple[StoredManifest, Manifest]], list[str]]:
    from store import IngotError
    from store.errors import in_words

    found, problems = [], []
    for entry in store.catalog.entries():
        if entry.name is None:
            path = entry.path.relative_to(store.layout.root)
            problems.append(f"`{path}` is not a manifest: {entry.why}")
            continue
        if not str(entry.name).lower().startswith(prefix.lower()):
            continue
        try:
            model = store.catalog.find(entry.name)
            if model is not None:
                found.append((model, model.parse()))
        except (IngotError, OSError) as error:
            problems.append(in_words(error))
    return sorted(found, key=lambda pair: str(pair[0].name)), problems
