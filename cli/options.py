"""The arguments and flags that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from store.errors import StorageError, UsageError

if TYPE_CHECKING:
    from store import Store

NameArg = Annotated[str, typer.Argument(metavar="NAME", help="A model: NAME[:TAG].")]
StoreOpt = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="DIR",
        envvar="INGOT_STORE",
        help="The store, instead of ~/.models.",
        show_default=False,
    ),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
JobsOpt = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", min=1, help="Threads; as many as cores by default."),
]


def open_store(root: str | None) -> Store:
    """Open the store that the flag, the environment or the default names."""
    from store import Store

    if root == "":  # as of `--store "$UNSET"`: not the current directory
        raise UsageError("`--store` is empty, expected a directory", code="E_STORE_PATH")
    chosen = Path(root or "~/.models")
    allow_unsafe = os.environ.get("INGOT_ALLOW_UNSAFE_STORE") == "1"
    try:
        place = chosen.expanduser().resolve()
    except RuntimeError as error:
        # No home directory, as in a container under a foreign uid, or a loop of links.
        message = f"store `{chosen}`: {error}".rstrip(".")
        hint = "Name another directory with `--store` or INGOT_STORE"
        raise UsageError(message, code="E_STORE_PATH", hint=hint) from error
    if place.exists() and not place.is_dir():
        message = f"store `{place}` is a file, expected a directory"
        raise StorageError(message, code="E_STORE_PATH", hint="Name another with `--store`")
    return Store(place, allow_unsafe=allow_unsafe)


def threads(jobs: int | None) -> int:
    """The number of threads: as asked, or one for each core that we may use."""
    if jobs is not None:
        return jobs
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
