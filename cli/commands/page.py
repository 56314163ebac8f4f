"""`ingot show --html`: write the page about a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from store.errors import StorageError, UsageError

if TYPE_CHECKING:
    from importer.models.description import Description
    from store import Store

_STDOUT: Final = "-"


def write_page(store: Store, model: Description, file: str, *, json: bool) -> None:
    """Write a page whole or not at all, and say where it is; `-` is stdout.

    Raises:
        UsageError: the name is empty, or JSON is asked for.
        StorageError: there cannot be a file of that name.
    """
    from cli.pages.page import page
    from cli.views.console import out

    if json:
        raise UsageError("`--html` cannot be combined with `--json`", code="E_USAGE")
    if not file:  # as of `"$UNSET"`
        raise UsageError("`--html` is empty, expected a file", code="E_USAGE")
    if file == _STDOUT:
        out([page(store, model).rstrip("\n")])
    else:
        _write_file(store, model, file)


def _write_file(store: Store, model: Description, file: str) -> None:
    from cli.pages.page import page
    from cli.views.console import out
    from cli.views.progress import listening
    from cli.views.progress_state import READING
    from store.durable import replace_file
    from store.text import printable, size

    target = Path(file)
    if target.is_dir():
        message = f"`{printable(file)}` is a directory, expected a file"
        hint = "Name a file, such as `model.html`"
        raise StorageError(message, code="E_IO", hint=hint)
    if not target.parent.is_dir():
        message = f"`{printable(str(target.parent))}` is not a directory"
        hint = "Make it first, or name a file in another one"
        raise StorageError(message, code="E_IO", hint=hint)
    with listening(phases=(READING,)):
        text = page(store, model).encode("utf-8", "backslashreplace")
    replace_file(target, [text])
    out([f"wrote {printable(file)} ({size(len(text))})"])
