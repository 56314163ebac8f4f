"""Run two commands in alternation, and say what each cost."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
FREE_MEMORY: Final = Path(__file__).with_name("free_memory.py")
RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024
"""Bytes that a `ru_maxrss` counts."""

Prepare = Callable[[Path], Sequence[str]]
"""Makes ready, untimed, what a command needs in a fresh directory, and gives the command."""


class CommandFailedError(Exception):
    """A command did not do its work.

    Attributes:
        code: its exit code, negative for a signal.
    """

    def __init__(self, argv: Sequence[str], code: int, said: str) -> None:
        lines = [line.strip() for line in said.splitlines() if line.strip()] or ["nothing"]
        # Ours says first what is wrong, then what helps; a traceback ends with it.
        line = next((line for line in lines if line.startswith("error: ")), lines[-1])
        super().__init__(f"`{Path(argv[0]).name}` exited {code} and said: {line}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process, with its children, cost.

    Attributes:
        seconds: wall time from its start to its end.
        cpu_seconds: user and system time.
        peak_bytes: largest resident set; never less than the harness's own some 20 MiB, in
            which a process begins.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some numbers, the least and the largest."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Spread:
        """Sum up at least one number."""
        return cls(statistics.median(numbers), min(numbers), max(numbers))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Costs of ours and of a peer, run by run; `peer` is empty where there is none."""

    ours: tuple[Cost, ...]
    peer: tuple[Cost, ...]

    def ratio(self) -> Spread:
        """Wall time of ours over the peer's, pair by pair."""
        pairs = zip(self.ours, self.peer, strict=True)
        return Spread.of([ours.seconds / peer.seconds for ours, peer in pairs])

    def cpu_ratio(self) -> Spread:
        """CPU time of ours over the peer's, pair by pair; a busy machine changes it little."""
        pairs = zip(self.ours, self.peer, strict=True)
        return Spread.of([ours.cpu_seconds / peer.cpu_seconds for ours, peer in pairs])

    def added(self) -> Spread:
        """Milliseconds that ours takes longer than the peer, pair by pair."""
        pairs = zip(self.ours, self.peer, strict=True)
        return Spread.of([1000 * (ours.seconds - peer.seconds) for ours, peer in pairs])

    def seconds(self) -> Spread:
        """Wall time of ours."""
        return Spread.of([cost.seconds for cost in self.ours])

    def peak(self) -> Spread:
        """Largest resident set of ours, in MiB."""
        return Spread.of([cost.peak_bytes / MIB for cost in self.ours])


def alternate(
    ours: Prepare, peer: Prepare | None, pairs: int, directory: Path, memory: int = 0
) -> Pairs:
    """Run ours, peer, ours, peer …, after one unmeasured run of each.

    Each run has a fresh directory below `directory`, which is removed after its time was
    taken: an unlink, or a rename over an existing file, would be somebody else's cost. So
    would free memory that the host of a virtual machine has taken back: `memory` bytes of it
    are touched before each run.

    Raises:
        CommandFailedError: a command failed.
        FileNotFoundError: a command does not exist.
    """
    sides = [side for side in (ours, peer) if side is not None]
    costs: list[list[Cost]] = [[] for _ in sides]
    for _ in range(pairs + 1):
        for side, taken in zip(sides, costs, strict=True):
            taken.append(_once(side, directory, memory))
    return Pairs(tuple(costs[0][1:]), tuple(costs[1][1:]) if peer else ())


def run(argv: Sequence[str]) -> Cost:
    """Run a command to its end.

    Raises:
        CommandFailedError: it did not exit with 0.
        FileNotFoundError: it does not exist.
    """
    with tempfile.TemporaryFile() as said:
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, said.fileno(), 1),
            (os.POSIX_SPAWN_DUP2, said.fileno(), 2),
        ]
        started = time.perf_counter()
        pid = os.posix_spawnp(argv[0], list(argv), os.environ, file_actions=actions)
        _, status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - started
        code = os.waitstatus_to_exitcode(status)
        if code:
            said.seek(0)
            raise CommandFailedError(argv, code, said.read().decode(errors="replace"))
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * RSS_UNIT)


def _once(side: Prepare, directory: Path, memory: int) -> Cost:
    fresh = Path(tempfile.mkdtemp(prefix="run-", dir=directory))
    try:
        argv = side(fresh)
        # What was written before must not be written back on this command's time.
        os.sync()
        if memory:
            # In a process of its own: a command's peak is never less than this one's.
            subprocess.run([sys.executable, FREE_MEMORY, str(memory)], check=False)
        return run(argv)
    finally:
        shutil.rmtree(fresh)
