"""`ingot save` and `ingot load`: models carried between machines as an OCI image layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.options import (
    InitOpt,
    JobsOpt,
    JsonOpt,
    ProgressOpt,
    StoreOpt,
    existing_store,
    store_to_fill,
    threads,
)
from cli.views.progress_style import Style


def save(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Models: NAME[:TAG], ID, NAME@ID, or a glob."),
    ],
    dest: Annotated[
        str,
        typer.Argument(
            metavar="DEST",
            help="What is written: a tar archive if it ends with .tar, or a directory.",
        ),
    ],
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Write models as an OCI image layout, for a machine without a network.

    The same models give the same bytes. `ingot load` reads it, and so does `skopeo`.

    Example: ingot save llama llama:int4 models.tar
    Example: ingot save llama ./layout
    """
    from cli.commands.former import check_text
    from cli.commands.sources import get_models
    from cli.views.console import out, out_json, talk
    from cli.views.progress import listening
    from cli.views.progress_state import SAVING
    from cli.views.registry import save_document, save_summary
    from importer.exports.layout import is_archive
    from importer.exports.layout import save as saved
    from store.errors import UsageError
    from store.lookup import is_glob

    if dest == "":  # as of `"$UNSET"`: not the current directory
        raise UsageError("DEST is empty, expected a path", code="E_USAGE")
    for name in names:
        if not is_glob(name):
            check_text(name)
    opened = existing_store(store)
    found = get_models(opened, names)
    stored = [one.former or opened.catalog.get(one.name) for one in found]
    with opened, listening(progress, (SAVING,)) as listen:
        done = saved(stored, Path(dest), opened, listen)
    if json:
        out_json("save", save_document(done, dest))
        return
    talk(save_summary(done, is_archive=is_archive(Path(dest))))
    out(f"{name} {digest}" for name, digest in done.models)


def load(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="An OCI image layout: a directory or a tar archive."
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="What to call the one model that it has."),
    ] = "",
    jobs: JobsOpt = None,
    init: InitOpt = False,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Put the models of an OCI image layout into the store.

    What `ingot save` wrote, also if `skopeo` has copied it since.

    Example: ingot load models.tar
    """
    from cli.views.console import out, out_json, talk
    from cli.views.progress import listening
    from cli.views.progress_state import LOADING
    from cli.views.registry import load_document, load_summary
    from importer.registry.layout import Layout
    from importer.registry.load import load as loaded
    from importer.registry.load import names_of
    from store.errors import UsageError
    from store.fs import FileSystem
    from store.names import ModelName

    if source == "":
        raise UsageError("SOURCE is empty, expected a path", code="E_USAGE")
    target = ModelName.parse(name) if name else None
    with (
        store_to_fill(store, may_init=init) as opened,
        Layout(FileSystem(), Path(source)) as layout,
    ):
        models = names_of(layout.models(), target)
        with listening(progress, (LOADING,)) as listen:
            done = loaded(layout, models, opened, listen, threads(jobs))
    if json:
        out_json("load", load_document(done))
        return
    for line in load_summary(done):
        talk(line)
    out(f"{one.name} {one.digest}" for one in done)
