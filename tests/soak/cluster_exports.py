"""Exports on a cluster whose workers, clients and schedulers are killed.

    python tests/soak/cluster_exports.py [--workers 2] [--worker-kills 50] [--client-kills 20]

An export whose workers are killed has the bytes that one machine writes. One whose client is
killed is whole or not there, and the next one to its place removes what is left. One whose
scheduler is killed ends with exit code 10 and leaves nothing.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.soak.cluster_kills import (
    MAX_VIOLATIONS,
    NETWORK_EXIT,
    OPTIONS,
    collect_all,
    kill_workers,
    parsed,
    write_source,
)
from tests.soak.harness import Ingot, Outcome, Running, kill_group, print_lines
from tests.soak.machines import Machines

NAME = "m"
WHAT = ("--to", "hf", "--dtype", "f16", "--shard-size", "100MB")


@dataclass(slots=True)
class Soak:
    """A store, a place, a cluster, and the one who kills its processes."""

    ingot: Ingot
    place: Path
    machines: Machines
    rng: random.Random
    expected: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def start(self, *more: str) -> Running:
        words = more or ("--scheduler", self.machines.address)
        return self.ingot.start("export", NAME, str(self.place), *WHAT, *words)

    def complain(self, what: str, *problems: str | None) -> None:
        self.violations += (f"{what}: {problem}" for problem in problems if problem)

    def rehearse(self) -> None:
        """Export on one machine for the bytes, and on the cluster for the time it takes."""
        self.complain("alone", self.ingot.finish(self.start("--jobs", "2")).problem(0))
        self.expected = digests(self.place)
        shutil.rmtree(self.place)
        for _ in range(2):  # the first compiles, or loads
            self.seconds = self.succeed("rehearsal", self.start()).seconds

    def succeed(self, what: str, running: Running) -> Outcome:
        """Wait for an export that must give every byte, and leave nothing beside it."""
        outcome = self.ingot.finish(running)
        self.complain(what, outcome.problem(0), self.traceback(outcome))
        self.look_at_whole(what)
        return outcome

    def look_at_whole(self, what: str) -> None:
        """Compare what is at the place, then remove it."""
        if digests(self.place) != self.expected:
            self.complain(what, "has other bytes than the export of one machine")
        if names := self.beside():
            self.complain(what, f"left {names}")
        shutil.rmtree(self.place, ignore_errors=True)

    def beside(self) -> list[str]:
        names = (path.name for path in self.place.parent.iterdir())
        return sorted(name for name in names if name != self.place.name)

    def traceback(self, outcome: Outcome) -> str | None:
        return outcome.stderr[-600:] if "Traceback" in outcome.stderr else None

    def kill_workers(self) -> None:
        """Kill one worker, or two, at random moments of an export, which succeeds."""
        running = self.start()
        ends = kill_workers(self.machines, running, self.seconds, self.rng)
        self.ends.update(("worker", end) for end in ends)
        self.succeed("worker killed", running)

    def kill_client(self) -> None:
        """Kill the client: the place is whole or not there; the next export cleans up."""
        running = self.start()
        time.sleep(self.rng.uniform(0, self.seconds))
        kill_group(running.process.pid)
        outcome = self.ingot.finish(running)
        self.complain("client killed", outcome.problem(0, 128 + 9))
        is_there, left = self.place.exists(), self.beside()
        end = "finished first" if is_there else "killed, " + ("left" if left else "early")
        self.ends["client", end] += 1
        if is_there:
            self.look_at_whole("client killed")
        else:
            self.succeed("after the client", self.start())

    def kill_scheduler(self) -> None:
        """Kill the scheduler: exit 10, and nothing is there."""
        running = self.start()
        time.sleep(self.rng.uniform(0, self.seconds))
        self.machines.kill(0)
        outcome = self.ingot.finish(running)
        self.machines.stop()
        end = "finished first" if outcome.code == 0 else f"exit {outcome.code}"
        self.ends["scheduler", end] += 1
        problems = (outcome.problem(0, NETWORK_EXIT), self.traceback(outcome))
        self.complain("scheduler killed", *problems)
        if outcome.code == 0:
            self.look_at_whole("scheduler killed")
        elif names := [path.name for path in self.place.parent.iterdir()]:
            self.complain("scheduler killed", f"left {names}")
        self.machines.start()
        self.succeed("after the scheduler", self.start())

    def judge_store(self) -> None:
        """Nothing of it holds anything in the store any more."""
        self.complain("gc", *collect_all(self.ingot))


def digests(place: Path) -> dict[str, str]:
    """Return the digest of each file of a directory."""
    found = {}
    for path in sorted(place.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(path.relative_to(place))] = digest
    return found


def run(
    workers: int, kills: dict[str, int], *, argv: tuple[str, ...], seed: int, tensors: int = 32
) -> Soak:
    """Kill so many workers, clients and schedulers; what comes back has the violations."""
    with tempfile.TemporaryDirectory(prefix="ingot-cluster-") as scratch:
        root = Path(scratch)
        source = write_source(root / "source", tensors)
        (root / "out").mkdir()
        with Machines(root, workers) as machines:
            ingot = Ingot(argv, root / "store", OPTIONS)
            soak = Soak(ingot, root / "out" / "m", machines, random.Random(seed))
            soak.complain("create", ingot.run("create", NAME, str(source)).problem(0))
            soak.rehearse()
            print_lines([f"{workers} workers at {machines.address}, {soak.seconds:.1f} s"])
            todo = [soak.kill_client] * kills["client"]
            todo += [soak.kill_scheduler] * kills["scheduler"]
            todo += [soak.kill_workers] * (kills["worker"] * 2 // 3)
            soak.rng.shuffle(todo)
            for kill in todo:
                kill()
                soak.judge_store()
                if len(soak.violations) >= MAX_VIOLATIONS:
                    break
            return soak


def main() -> int:
    """Kill processes of a cluster and judge the exports each time; 1 on any violation."""
    options = parsed(main.__doc__)
    soak = run(options.workers, options.kills, argv=options.argv, seed=options.seed)
    print_lines([f"{whom:10}{n:5}   {end}" for (whom, end), n in sorted(soak.ends.items())])
    print_lines([f"VIOLATION {violation}" for violation in soak.violations])
    print_lines([f"{len(soak.violations)} violations"])
    return 1 if soak.violations else 0


if __name__ == "__main__":
    sys.exit(main())
