"""Every system call of every command on the store and the source fails, or is the last.

    python tests/soak/syscalls.py [--every 1] [--scenario NAME]

Each command is rehearsed under `strace`, which gives its calls and their paths. Then it runs
once for each call and each fault, which `strace -e inject` puts on the k-th such call on that
path: a kill before or after it, an error, a write that writes less than it says. What is left
is judged; then `verify`, the command again and `gc` must succeed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.soak.faults import Point, faults_of, points_in, traced
from tests.soak.forked import same_names, why_no_strace
from tests.soak.harness import Outcome, print_lines
from tests.soak.scenarios import SCENARIOS, Scenario
from tests.soak.trials import Trial, stage

MAX_VIOLATIONS = 40
KILLED = 137
NO_SPACE = frozenset({"ENOSPC", "EDQUOT"})
# What a command can say of a call that failed: that the machine is at fault, if it could not
# do without. These also may say that what they could not read is damaged; gc must then stop.
SAYS = {8}
READERS = frozenset({"verify", "show", "gc"})
# Nobody can do without these, but for the memo.
NEEDED = frozenset({"write", "pwrite64", "fsync", "rename"})
TIDYING = frozenset({"unlink", "rmdir", "getdents64"})


@dataclass(slots=True)
class Report:
    """What the sweep saw.

    Attributes:
        ends: (scenario, how it ended) -> how often.
        missed: injections that met no call, as when threads took another turn.
    """

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def injections(self) -> int:
        """How many met a call."""
        return sum(self.ends.values())

    def lines(self) -> list[str]:
        """Return the report as text."""
        lines = []
        for name, points in self.points.items():
            ends = sorted((end, n) for (of, end), n in self.ends.items() if of == name)
            total = sum(n for _, n in ends)
            told = ", ".join(f"{n} {end}" for end, n in ends)
            lines.append(f"{name:18}{points:5} calls{total:6} injections   {told}")
        lines.append(f"{self.injections} injections, {self.missed} met no call")
        lines += (f"VIOLATION {violation}" for violation in self.violations)
        return [*lines, f"{len(self.violations)} violations"]


class Sweep(Trial):
    """One scenario, its calls and its judge."""

    def __init__(self, scenario: Scenario, scratch: Path, report: Report) -> None:
        super().__init__(scenario, scratch)
        self.report = report

    def rehearse(self) -> list[Point]:
        """Run the command unharmed; give the calls that can be."""
        log = self.scratch / "rehearsal"
        self.learn(lambda: self.act(strace=traced(log)))
        return points_in(log, (self.ingot.store, self.scratch / "sources"))

    def act(self, strace: tuple[str, ...] = ()) -> Outcome:
        """Run the command; under strace its paths are those of the rehearsal."""
        if not strace:
            return self.ingot.run(*self.argv)
        return self.ingot.run(*self.argv, strace=strace, prepare=same_names)

    def inject(self, point: Point, fault: str) -> None:
        """Break one call in one way, and judge."""
        self.arrange()
        log = self.scratch / "log"
        outcome = self.act(strace=point.inject(fault, log))
        if not point.was_met(log, fault):
            self.report.missed += 1
            return
        self.report.ends[self.scenario.name, _end(outcome)] += 1
        story = f"{self.scenario.name}: {fault} at {point.shown(self.scratch)}"
        self.complain(story, self.judge(outcome, point, fault))
        self.complain(story, self.judge_aftermath())

    def judge(self, outcome: Outcome, point: Point, fault: str) -> list[str]:
        """Judge the end of the command and what it left."""
        found = []
        if problem := outcome.problem(*self.allowed(point, fault)):
            found.append(problem)
        if outcome.code in range(1, 12) and outcome.stdout and outcome.argv[0] not in READERS:
            found.append(f"it failed and said {outcome.stdout!r}")
        found += self.judge_end(outcome)
        if outcome.code != KILLED and not _hinders_tidying(point):
            found += self.left()
        return found

    def allowed(self, point: Point, fault: str) -> set[int]:
        """The exit codes that tell the truth about a fault."""
        command = self.scenario.argv(Path())[0]
        if "KILL" in fault:
            return {KILLED}
        if "retval" in fault:
            return {0, 3, 5, 8}  # a lie is found out: the source or the blob has another size
        codes = {self.scenario.ends, *SAYS} | ({5} if command in READERS else set())
        error = fault.removeprefix("error=").removesuffix("+")
        if error == "EINTR" and point.call != "openat":  # os.scandir does not try again
            return {self.scenario.ends}
        # gc can do without a folder of its own: it then removes at once.
        needed = NEEDED & {"fsync"} if command == "gc" else NEEDED
        # Neither the memo nor what a name stood for before stands in the way of a command.
        spared = any(part in point.path for part in ("memo.sqlite", "/former-", "/history"))
        if point.call in needed and not spared:
            codes -= {0}
        return codes | {7} if error in NO_SPACE else codes

    def complain(self, story: str, problems: list[str]) -> None:
        """Note violations."""
        self.report.violations += (f"{story}: {problem}" for problem in problems)


def run(
    *,
    every: int = 1,
    offset: int = 0,
    only: str | None = None,
    most: int = MAX_VIOLATIONS,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Sweep the scenarios; the report has the violations.

    Args:
        every: of the injections of each call and fault, take the first and each N-th then.
        offset: begin later than with the first.
        most: violations after which it stops.
        tell: hears of each violation at once.
    """
    report = Report()
    numbers: Counter[tuple[str, str]] = Counter()
    with stage("syscalls") as scratch:
        for scenario in SCENARIOS:
            if only and scenario.name != only:
                continue
            sweep = Sweep(scenario, scratch, report)
            points = sweep.rehearse()
            report.points[scenario.name] = len(points)
            for point in points:
                for fault in faults_of(point):
                    number = numbers[point.call, fault] + offset
                    numbers[point.call, fault] += 1
                    if number % every == 0 and len(report.violations) < most:
                        known = len(report.violations)
                        sweep.inject(point, fault)
                        for violation in report.violations[known:]:
                            tell(violation)
    return report


def _hinders_tidying(point: Point) -> bool:
    # A writer lists and removes its folder, and what gc moved there, under the shared lock:
    # where that fails nobody can tidy up, and the next gc does, as after a kill.
    path = Path(point.path)
    is_listed = point.call == "openat" and "/gone-" in point.path
    return (
        point.call in TIDYING
        or path.parent.name == "tmp"
        or is_listed
        or "/locks/" in point.path
    )


def _end(outcome: Outcome) -> str:
    return "killed" if outcome.code == KILLED else f"x exit {outcome.code}"


def main() -> int:
    """Break system calls one by one and judge the store each time; 1 on any violation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--every", type=int, default=1, help="take each N-th of a kind")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--stop", action="store_true", help="at the first violation")
    parser.add_argument("--scenario", choices=[scenario.name for scenario in SCENARIOS])
    options = parser.parse_args()
    if why := why_no_strace():
        print_lines([f"skipped: {why}"])
        return 0
    report = run(
        every=options.every,
        offset=options.offset,
        only=options.scenario,
        most=1 if options.stop else MAX_VIOLATIONS,
        tell=lambda violation: print(violation, flush=True),
    )
    print_lines(report.lines())
    # A sweep that misses what it aims at proves nothing.
    is_blind = report.missed * 20 > report.injections or not report.injections
    return 1 if report.violations or is_blind else 0


if __name__ == "__main__":
    sys.exit(main())
