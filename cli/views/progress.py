"""What an import says while it works: a bar on a terminal, elsewhere a line a phase."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.views.console import is_quiet, talk, warn
from importer.events import (
    BlobDone,
    Compared,
    Compiling,
    Event,
    Fetched,
    Fetching,
    Listener,
    Measuring,
    NoKernels,
    Planned,
    Published,
    Received,
    Scanned,
    Verified,
    Wrote,
    silent,
)
from store.text import count, printable, size

if TYPE_CHECKING:
    from rich.progress import Progress

_NAME_WIDTH = 40
_COMMIT_DIGITS = 12
_PHASES = {
    Planned: "writing",
    Measuring: "measuring",
    Verified: "verifying",
    Compared: "comparing",
}


@contextlib.contextmanager
def listening() -> Iterator[Listener]:
    """Yield a listener for an import; a bar disappears when the block ends."""
    if is_quiet() or sys.stderr is None:
        yield silent
    elif not sys.stderr.isatty():
        yield _say
    else:
        with _bar() as bar:
            yield _Bar(bar)


def _say(event: Event) -> None:
    _notice(event)
    match event:
        case Fetching(source, commit, files, nbytes):
            what = f"{count(files, 'file')} ({size(nbytes)})" if files else "nothing"
            talk(f"fetching {what} of {printable(source)} at {commit[:_COMMIT_DIGITS]}")
        case Fetched(files, nbytes, seconds):
            talk(f"fetched {count(files, 'file')} ({size(nbytes)}) in {seconds:.1f} s")
        case Scanned(tensors, files, nbytes):
            where = count(files, "file")
            talk(f"scanned {count(tensors, 'tensor')} in {where} ({size(nbytes)})")
        case Planned(blobs, nbytes, present, what):
            in_all = f" ({size(nbytes)})" if not present else ""
            if present < blobs:
                talk(f"writing {count(blobs - present, what)}{in_all}")
        case Compiling():
            talk("compiling kernels, once")
        case Measuring(tensors, nbytes):
            talk(f"measuring {count(tensors, 'quantized tensor')} ({size(nbytes)})")
        case Published(manifest):
            talk(f"published manifest {manifest.short}")
        case Received() | NoKernels() | Wrote() | BlobDone() | Verified() | Compared():
            pass


def _notice(event: Event) -> None:
    """Say what should be read even where a bar is shown."""
    match event:
        case Planned(blobs, _, present, _) if present:
            talk(f"{present:,} of {count(blobs, 'blob')} already in the store")
        case NoKernels(reason):
            warn(f"kernels cannot be used ({reason}): quantizing in numpy, which is slower")
        case _:
            pass


class _Bar:
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._phase: type[Verified | Compared] | None = None
        self._task = bar.add_task("reading headers", total=None)

    def __call__(self, event: Event) -> None:
        _notice(event)
        match event:
            case Fetching(nbytes=nbytes):
                if nbytes:
                    self._bar.reset(self._task, total=nbytes, description="fetching")
            case Received(name, nbytes) | Wrote(name, nbytes):
                name = printable(name, _NAME_WIDTH)
                self._bar.update(self._task, advance=nbytes, description=name)
            case Fetched():
                self._bar.update(self._task, description="reading headers")
            case Planned(nbytes=nbytes) | Measuring(nbytes=nbytes):
                self._bar.reset(self._task, total=nbytes, description=_PHASES[type(event)])
            case Compiling():
                self._bar.update(self._task, description="compiling kernels, once")
            case Verified(nbytes, total) | Compared(nbytes, total):
                self._count(type(event), nbytes, total)
            case Published():
                self._bar.update(self._task, description="published")
            case Scanned() | NoKernels() | BlobDone():
                pass

    def _count(self, phase: type[Verified | Compared], nbytes: int, total: int) -> None:
        if self._phase is not phase:
            # Each phase has a total of its own: a bar that went on ran past its end.
            self._bar.reset(self._task, total=total, description=_PHASES[phase])
            self._phase = phase
        self._bar.update(self._task, advance=nbytes)


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
        # A tensor named `[red]` is not markup.
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
