"""The arguments and flags that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.environment import DEFAULT_STORE, STORE_VARIABLE
from cli.panels import COMMON, RESOURCES
from cli.views.progress_style import Style
from store.errors import NotFoundError, StorageError, UsageError
from store.text import printable

if TYPE_CHECKING:
    from store import Store

_IN_SHELL: Final = os.environ.get(STORE_VARIABLE)
"""What the shell says, before an option in front of the command goes before it."""
ModelArg = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A model: NAME[:TAG], ID, or NAME@ID of `list --history`."
    ),
]
StoreOpt = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="DIR",
        envvar=STORE_VARIABLE,
        help="The store directory; by default ~/.models, or $INGOT_STORE.",
        rich_help_panel=COMMON,
        show_default=False,
    ),
]
JsonOpt = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document.", rich_help_panel=COMMON),
]
JobsOpt = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        help="Number of threads; by default as many as there are cores.",
        rich_help_panel=RESOURCES,
    ),
]
MaxMemoryOpt = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        help="Use fewer threads if more would need more memory than this, such as 512M.",
        rich_help_panel=RESOURCES,
    ),
]
SchedulerOpt = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Have the workers of a Dask cluster do the work: the address of its scheduler, "
        "such as tcp://10.0.0.1:8786, or its scheduler file. All must see what is read and "
        "written.",
        rich_help_panel=RESOURCES,
        show_default=False,
    ),
]
ProgressOpt = Annotated[
    Style,
    typer.Option(
        "--progress",
        help="Show progress on a terminal's last line (auto), as lines, as JSON events on "
        "stderr, or not at all.",
        rich_help_panel=COMMON,
        show_default=False,
    ),
]
InitOpt = Annotated[
    bool,
    typer.Option("--init", help="Allow a store in a directory that is not empty."),
]
NoClobberOpt = Annotated[
    bool, typer.Option("--no-clobber", help="Fail if the name already exists.")
]
NoFsyncOpt = Annotated[bool, typer.Option("--no-fsync", hidden=True)]


def check_store_path(root: str, option: str = "--store") -> None:
    """Raise UsageError for `--store "$UNSET"`, which does not mean the current directory."""
    if root == "":
        raise UsageError(f"`{option}` is empty, expected a directory", code="E_STORE_PATH")


MANIFEST_REMEDY: Final = (
    "make the model again, or remove it: its name with `ingot rm`, a stray file by hand"
)
"""What helps where a manifest is damaged, which nothing else has."""


def existing_store(root: str | None) -> Store:
    """Open a store for a command that only reads, or needs what is in it already.

    Raises:
        NotFoundError: there is none; an empty answer would hide a wrong name.
    """
    store = open_store(root)
    place = printable(str(store.layout.root), 1000)
    if store.fs.status(store.layout.root) is None:
        raise NotFoundError(f"there is no store at `{place}`", code="E_NO_STORE")
    if name := store.foreign_entry():
        message = f"`{place}` is not a store: it has `{printable(name)}`, and no VERSION"
        raise NotFoundError(message, code="E_NO_STORE")
    if not store.exists:  # a disk that is not mounted, perhaps
        raise NotFoundError(f"`{place}` is not a store: it is empty", code="E_NO_STORE")
    return store


def store_option(store: Store) -> str:
    """Return the option that the next command needs to find the same store, or nothing."""
    import shlex

    usual = Path(_IN_SHELL or DEFAULT_STORE).expanduser().resolve()
    root = store.layout.root
    return "" if root == usual else f" --store {shlex.quote(str(root))}"


def store_to_fill(root: str | None, *, is_durable: bool = True, may_init: bool) -> Store:
    """Open the store that a command is to put something into, as `open_store` does.

    Raises:
        UsageError: the directory holds something else; nothing has been fetched for it yet.
    """
    store = open_store(root, is_durable=is_durable, may_init=may_init)
    store.check_ours()
    return store


def open_store(root: str | None, *, is_durable: bool = True, may_init: bool = False) -> Store:
    """Open the store that the flag, the environment or the default names.

    Args:
        root: what the flag or the environment says.
        is_durable: whether writers wait for the disk.
        may_init: whether a directory that holds something else may become a store.
    """
    from store import Store
    from store.fs import FileSystem

    if root is not None:
        check_store_path(root)
    chosen = Path(root or DEFAULT_STORE)
    allow_unsafe = os.environ.get("INGOT_ALLOW_UNSAFE_STORE") == "1"
    try:
        place = chosen.expanduser().resolve()
    except RuntimeError as error:
        # No home directory, as in a container under a foreign uid, or a loop of links.
        message = f"store `{chosen}`: {error}".rstrip(".")
        hint = "Name another directory with `--store` or INGOT_STORE"
        raise UsageError(message, code="E_STORE_PATH", hint=hint) from error
    for there in (place, *place.parents):
        if there.is_dir():
            break
        if there.exists():
            below = "" if there == place else f" is below `{there}`, which"
            message = f"store `{place}`{below} is a file, expected a directory"
            raise StorageError(message, code="E_STORE_PATH", hint="Name another with `--store`")
    fs = FileSystem()
    fs.is_durable = is_durable
    return Store(place, fs, allow_unsafe=allow_unsafe, allow_foreign=may_init)


def threads(jobs: int | None) -> int:
    """The number of threads: as asked, or one for each core that we may use."""
    from importer.engine.resources import cores

    return jobs if jobs is not None else cores()


def memory(text: str | None, flag: str = "--max-memory") -> int | None:
    """Read a size such as 512M, 1.5GiB or 800MB; bytes."""
    if text is None:
        return None
    from store.text import parse_size

    found = parse_size(text)
    if found is None:
        raise UsageError(
            f"`{flag} {text}`: expected a number of bytes, or one with a unit",
            code="E_USAGE",
            hint="512M, 512MiB and 0.5G are powers of 1024, 512MB is a power of 1000; "
            "K, M, G and T are known, as in 1.5GiB",
        )
    return found
