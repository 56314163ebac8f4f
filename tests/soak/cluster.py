"""Imports on a cluster whose workers, clients and schedulers are killed, beside gc.

    python tests/soak/cluster.py [--workers 2] [--worker-kills 50] [--client-kills 20]

An import whose workers are killed succeeds, with the manifest of one machine. One whose client
is killed leaves the old model or the new one, and nothing that gc does not free. One whose
scheduler is killed ends with exit code 10, and what it made is reused.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.check_store import check_store, manifest_digest
from tests.soak.cluster_kills import (
    MAX_VIOLATIONS,
    NETWORK_EXIT,
    OPTIONS,
    collect_all,
    kill_workers,
    parsed,
    write_source,
)
from tests.soak.harness import REPOSITORY, Ingot, Outcome, Running, kill_group, print_lines
from tests.soak.machines import Machines

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "m"
OLD = str(REPOSITORY / "fixtures" / "models" / "tiny-llama")


@dataclass(slots=True)
class Report:
    """What happened: (who was killed, how the import ended) -> how often."""

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    collections: int = 0
    reused: int = 0

    def kills(self, whom: str) -> int:
        """Count the kills of one sort."""
        return sum(n for (of, _), n in self.ends.items() if of == whom)

    def lines(self) -> list[str]:
        """Return the report as text."""
        lines = [f"{whom:10}{n:5}   {end}" for (whom, end), n in sorted(self.ends.items())]
        lines.append(f"{self.collections} runs of gc beside it, {self.reused} blobs reused")
        lines += (f"VIOLATION {violation}" for violation in self.violations)
        return [*lines, f"{len(self.violations)} violations"]


@dataclass(slots=True)
class Soak:
    """A store, a cluster, and the one who kills its processes."""

    ingot: Ingot
    source: Path
    machines: Machines
    rng: random.Random
    expected: str = ""
    seconds: float = 0.0
    report: Report = field(default_factory=Report)

    def rehearse(self, scratch: Path) -> None:
        """Import on one machine for the digest, and on the cluster for the time it takes."""
        local = Ingot(self.ingot.argv, scratch / "alone", OPTIONS)
        self.expected = self.digest_of(local.run("create", NAME, str(self.source))) or ""
        for _ in range(2):  # the first compiles, or loads
            outcome = self.create()
            self.complain("rehearsal", outcome.problem(0))
            self.seconds = outcome.seconds
            self.forget()

    def digest_of(self, outcome: Outcome) -> str | None:
        self.complain("create", outcome.problem(0))
        return outcome.reported_digest()

    def complain(self, what: str, *problems: str | None) -> None:
        self.report.violations += (f"{what}: {problem}" for problem in problems if problem)

    def create(self) -> Outcome:
        return self.ingot.run("create", NAME, str(self.source))

    def start(self) -> Running:
        return self.ingot.start("create", NAME, str(self.source))

    def forget(self) -> None:
        """Give the name to another model, and let gc take every blob of the large one."""
        old = Ingot(self.ingot.argv, self.ingot.store)
        self.complain("old", old.run("create", NAME, OLD).problem(0))
        self.collect()

    def collect(self) -> None:
        """Let gc remove everything."""
        self.complain("gc", *collect_all(self.ingot))

    def kill_workers(self) -> None:
        """Kill one worker, or two, at random moments of an import, which succeeds."""
        running = self.start()
        ends = kill_workers(self.machines, running, self.seconds, self.rng)
        self.report.ends.update(("worker", end) for end in ends)
        outcome = self.ingot.finish(running)
        self.judge(outcome, outcome.problem(0), self.wrong_digest(outcome))

    def kill_client(self) -> None:
        """Kill the client; the old model stays, or the new one is whole; then go on."""
        before = manifest_digest(self.ingot.store, NAME)
        running = self.start()
        time.sleep(self.rng.uniform(0, self.seconds))
        kill_group(running.process.pid)
        outcome = self.ingot.finish(running)
        now = manifest_digest(self.ingot.store, NAME)
        end = "finished first" if outcome.code == 0 else "killed"
        self.report.ends["client", end] += 1
        is_wrong = now not in {before, self.expected}
        wrong = f"the manifest is {now}" if is_wrong else None
        self.judge(outcome, outcome.problem(0, 128 + 9), wrong)
        self.go_on()

    def kill_scheduler(self) -> None:
        """Kill the scheduler: exit 10, the old model stays, what was made is reused."""
        before = manifest_digest(self.ingot.store, NAME)
        running = self.start()
        time.sleep(self.rng.uniform(0, self.seconds))
        self.machines.kill(0)
        outcome = self.ingot.finish(running)
        self.machines.stop()
        now = manifest_digest(self.ingot.store, NAME)
        end = "finished first" if outcome.code == 0 else f"exit {outcome.code}"
        self.report.ends["scheduler", end] += 1
        wanted = self.expected if outcome.code == 0 else before
        wrong = None if now == wanted else f"the manifest is {now}, expected {wanted}"
        self.judge(outcome, outcome.problem(0, NETWORK_EXIT), wrong)
        self.machines.start()
        self.go_on()

    def go_on(self) -> None:
        """Run the killed import again: it succeeds, and reuses what is there."""
        outcome = self.create()
        found = re.search(r"reused (\d+) blob", outcome.stderr)
        self.report.reused += int(found[1]) if found else 0
        self.judge(outcome, outcome.problem(0), self.wrong_digest(outcome))

    def wrong_digest(self, outcome: Outcome) -> str | None:
        got = outcome.reported_digest()
        return None if got in {None, self.expected} else f"{got}, expected {self.expected}"

    def judge(self, outcome: Outcome, *problems: str | None) -> None:
        self.complain("import", *problems, *self.traceback(outcome))
        if not self.collecting:
            self.complain("store", *check_store(self.ingot.store))

    def traceback(self, outcome: Outcome) -> list[str]:
        return [outcome.stderr[-600:]] if "Traceback" in outcome.stderr else []

    @property
    def collecting(self) -> bool:
        return any(thread.name == "gc" for thread in threading.enumerate())

    def beside_gc(self, import_killed: Callable[[], None]) -> None:
        """Run gc again and again beside an import."""
        ended = threading.Event()

        def collect() -> None:
            while not ended.wait(0.3):
                outcome = self.ingot.run("gc", "--yes")
                self.report.collections += 1
                self.complain("gc beside it", outcome.problem(0))

        thread = threading.Thread(target=collect, name="gc")
        thread.start()
        try:
            import_killed()
        finally:
            ended.set()
            thread.join()
        self.complain("store", *check_store(self.ingot.store))


def run(
    workers: int, kills: dict[str, int], *, argv: tuple[str, ...], seed: int, tensors: int = 48
) -> Report:
    """Kill so many workers, clients and schedulers; the report has the violations."""
    with tempfile.TemporaryDirectory(prefix="ingot-cluster-") as scratch:
        root = Path(scratch)
        source = write_source(root / "source", tensors)
        with Machines(root, workers) as machines:
            options = (*OPTIONS, "--scheduler", machines.address)
            ingot = Ingot(argv, root / "store", options)
            soak = Soak(ingot, source, machines, random.Random(seed))
            soak.rehearse(root)
            print_lines([f"{workers} workers at {machines.address}, {soak.seconds:.1f} s"])
            todo = [soak.kill_client] * kills["client"]
            todo += [soak.kill_scheduler] * kills["scheduler"]
            soak.rng.shuffle(todo)
            while todo or soak.report.kills("worker") < kills["worker"]:
                if soak.report.kills("worker") < kills["worker"]:
                    soak.beside_gc(soak.kill_workers)
                    soak.forget()
                if todo:
                    # Half without gc, so that what the killed import made can be reused.
                    kill = todo.pop()
                    soak.beside_gc(kill) if soak.rng.random() < 0.5 else kill()
                    soak.forget()
                if len(soak.report.violations) >= MAX_VIOLATIONS:
                    break
            return soak.report


def main() -> int:
    """Kill processes of a cluster and judge the store each time; 1 on any violation."""
    options = parsed(main.__doc__)
    report = run(options.workers, options.kills, argv=options.argv, seed=options.seed)
    print_lines(report.lines())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
