"""What an import says while it works: a bar on a terminal, a line for each phase elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cli.console import talk, wants_json
from cli.text import count, size
from importer.events import (
    BlobDone,
    Event,
    Listener,
    Planned,
    Published,
    Scanned,
    Wrote,
    silent,
)
from store.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress

_NAME_WIDTH = 40


@contextlib.contextmanager
def listening() -> Iterator[Listener]:
    """Give a listener for an import; the bar goes when the block ends."""
    if wants_json() or sys.stderr is None:
        yield silent
    elif not sys.stderr.isatty():
        yield _say
    else:
        with _bar() as bar:
            yield _Bar(bar)


@contextlib.contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function to be told of bytes done and bytes in all; a bar on a terminal."""
    if wants_json() or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _, __: None
        return
    with _bar() as bar:
        task = bar.add_task(what, total=None)
        yield lambda nbytes, total: bar.update(task, advance=nbytes, total=total)


def _say(event: Event) -> None:
    match event:
        case Scanned(tensors, files, nbytes):
            where = count(files, "file")
            talk(f"scanned {count(tensors, 'tensor')} in {where} ({size(nbytes)})")
        case Planned(blobs, nbytes):
            talk(f"writing {count(blobs, 'blob')} ({size(nbytes)})")
        case Published(manifest):
            talk(f"published manifest {manifest.short}")
        case Wrote() | BlobDone():
            pass


class _Bar:
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("reading headers", total=None)

    def __call__(self, event: Event) -> None:
        match event:
            case Scanned():
                pass
            case Planned(_, nbytes):
                self._bar.update(self._task, total=nbytes, description="writing")
            case Wrote(blob, nbytes):
                name = printable(blob, _NAME_WIDTH)
                self._bar.update(self._task, advance=nbytes, description=name)
            case BlobDone():
                pass
            case Published():
                self._bar.update(self._task, description="published")


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        # A tensor named `[red]` is no markup.
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
