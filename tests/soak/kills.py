"""Commands killed at random moments: nothing that was reported is lost, nothing needs repair.

    python tests/soak/kills.py [--kills 100] [--signal KILL|TERM|INT] [--seed N]

Each command is first rehearsed unkilled on a copy of the store. That gives the time in which
to kill it and the manifest that it would write, so the store may afterwards hold the old or
the new manifest of the tag, and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.check_store import check_store, manifest_digest
from tests.soak.harness import (
    WATCHDOG_SECONDS,
    Ingot,
    Outcome,
    Source,
    command_argv,
    do_not_ignore_sigint,
    kill_group,
    print_lines,
)

SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "INT": signal.SIGINT}
ACTIONS = ("create-new", "create-replaced", "create-again", "cp", "rm", "gc")
COPIES = ("copy-a", "copy-b:v1")
KILLS_PER_GC = 10
MAX_VIOLATIONS = 20
NOT_FOUND = 9


@dataclass(frozen=True, slots=True)
class Action:
    """A command to kill.

    Attributes:
        kind: one of `ACTIONS`.
        name: the tag that it changes; None for gc.
    """

    kind: str
    argv: tuple[str, ...]
    name: str | None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What an action does when nobody kills it: how long it takes, the manifest after it."""

    seconds: float
    digest: str | None


@dataclass(slots=True)
class Report:
    """What happened to the killed commands.

    Attributes:
        ends: (kind, how it ended) -> how often.
        tracebacks: commands that died with a Python traceback; a remark, not a violation.
    """

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    tracebacks: int = 0
    violations: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the report as text."""
        lines = []
        for kind in ACTIONS:
            ends = sorted((end, n) for (of, end), n in self.ends.items() if of == kind)
            total = sum(n for _, n in ends)
            lines.append(f"{kind:16}{total:5}   " + ", ".join(f"{n} {end}" for end, n in ends))
        lines.append(f"{sum(self.ends.values())} kills, {self.tracebacks} with a traceback")
        lines += (f"VIOLATION {violation}" for violation in self.violations)
        return [*lines, f"{len(self.violations)} violations"]


@dataclass(slots=True)
class Killer:
    """A store, the tags that must be in it, and the one who kills its writers.

    Attributes:
        tags: name -> digest of its manifest, as last reported.
        sources: name -> what it was created from; copies have none.
    """

    ingot: Ingot
    scratch: Path
    rng: random.Random
    signal: signal.Signals
    report: Report = field(default_factory=Report)
    tags: dict[str, str] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    made: int = 0

    def set_up(self) -> None:
        """Create the first models and a copy, unkilled."""
        for _ in range(3):
            action = self.next_action("create-new")
            self.expect(action, self.ingot.run(*action.argv))
        action = self.next_action("cp")
        self.expect(action, self.ingot.run(*action.argv))

    def expect(self, action: Action, outcome: Outcome) -> None:
        """Note the outcome of an unkilled action, which must have succeeded."""
        self.complain(action, outcome.problem(0))
        digest = manifest_digest(self.ingot.store, action.name) if action.name else None
        if outcome.argv[0] == "create" and digest != outcome.reported_digest():
            self.complain(action, f"printed {outcome.stdout!r}, the manifest is {digest}")
        self.settle(action, digest)

    def settle(self, action: Action, digest: str | None) -> None:
        """Note the state of the action's tag."""
        if action.name is None:
            return
        if digest is not None:
            self.tags[action.name] = digest
            return
        self.tags.pop(action.name, None)
        if source := self.sources.pop(action.name, None):
            shutil.rmtree(source.directory)

    def complain(self, action: Action, *problems: str | None) -> None:
        """Note violations and what led to them."""
        self.report.violations += (
            f"{action.kind} {action.name or self.ingot.store.name}: {problem}"
            for problem in problems
            if problem
        )

    def next_action(self, kind: str) -> Action:
        """Prepare an action of one kind: choose its tag, write or change its source."""
        if kind == "gc":
            return Action(kind, ("gc", "--yes"), None)
        if kind == "cp":
            target = self.rng.choice(COPIES)
            model = self.rng.choice([name for name in sorted(self.tags) if name != target])
            return Action(kind, ("cp", model, target), target)
        if kind == "rm":
            name = self.rng.choice(sorted(self.tags))
            return Action(kind, ("rm", name), name)
        if kind == "create-new" or not self.sources:
            self.made += 1
            name = f"model-{self.made}"
            self.sources[name] = Source(self.scratch / "sources" / name, self.rng)
        else:
            name = self.rng.choice(sorted(self.sources))
        if kind == "create-replaced":
            self.sources[name].change()
        return Action(kind, ("create", name, str(self.sources[name].directory)), name)

    def rehearse(self, action: Action) -> Rehearsal:
        """Run the action unkilled on a copy of the store."""
        copy = self.scratch / "rehearsal"
        shutil.copytree(self.ingot.store, copy, symlinks=True)
        outcome = self.ingot.on(copy).run(*action.argv)
        self.complain(action, outcome.problem(0))
        digest = manifest_digest(copy, action.name) if action.name else None
        shutil.rmtree(copy)
        return Rehearsal(outcome.seconds, digest)

    def kill(self, action: Action) -> None:
        """Kill one action at a random moment, judge what is left, and run it again."""
        rehearsal = self.rehearse(action)
        moment = self.rng.uniform(0, rehearsal.seconds)
        outcome = self.run_and_kill(action, moment, group=self.rng.random() < 0.5)
        old = self.tags.get(action.name) if action.name else None
        now = manifest_digest(self.ingot.store, action.name) if action.name else None
        self.report.tracebacks += "Traceback" in outcome.stderr
        self.report.ends[action.kind, self.describe(outcome, old, now)] += 1
        problems = [
            self.wrong_code(outcome),
            _wrong_state(outcome, old, now, rehearsal.digest),
            *self.judge(except_for=action.name),
            *(self.litter(outcome) if self.signal != signal.SIGKILL else ()),
        ]
        self.complain(
            action, *(f"{p} (killed after {moment:.3f} s)" for p in problems if p is not None)
        )
        self.check_verify(action)
        self.retry(action, now, rehearsal.digest)

    def run_and_kill(self, action: Action, moment: float, *, group: bool) -> Outcome:
        """Start the action, signal it (or its process group) after `moment` seconds, wait."""
        running = self.ingot.start(*action.argv)
        time.sleep(max(0, running.started + moment - time.perf_counter()))
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(running.process.pid, self.signal)
        # Not by its pipes: a child that outlives its parent would hold them open.
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.wait(WATCHDOG_SECONDS)
            kill_group(running.process.pid)
        return self.ingot.finish(running)

    def describe(self, outcome: Outcome, old: str | None, now: str | None) -> str:
        """Return how a killed command ended, for the counts."""
        if outcome.code == 0:
            return "finished first"
        if self.litter(outcome):
            return "killed at work in tmp/"
        return "killed, same manifest" if old == now else "killed, new manifest"

    def wrong_code(self, outcome: Outcome) -> str | None:
        """Return what is wrong with the exit code: 128 + signal, or 0 if it was faster."""
        if self.signal == signal.SIGINT and _died_before_main(outcome):
            return None
        return outcome.problem(0, 128 + self.signal)

    def judge(self, *, except_for: str | None = None, after_gc: bool = False) -> list[str]:
        """Judge the store, with all tags that must be in it."""
        tags = {name: digest for name, digest in self.tags.items() if name != except_for}
        return check_store(self.ingot.store, reported=tags, after_gc=after_gc)

    def litter(self, outcome: Outcome) -> list[str]:
        """Return what a command that could clean up left in tmp/."""
        tmp = self.ingot.store / "tmp"
        left = [path for path in tmp.glob("*") if f".{outcome.pid}." in f".{path.name}."]
        return [f"{path.name} was left in tmp/" for path in left]

    def check_verify(self, action: Action) -> None:
        """`ingot verify` finds nothing, and nobody repaired anything before."""
        outcome = self.ingot.run("verify")
        problem = outcome.problem(0)
        self.complain(action, f"{problem} {outcome.stdout[-600:]}" if problem else None)

    def retry(self, action: Action, now: str | None, new: str | None) -> None:
        """Run the killed action again: it succeeds and leaves the new state."""
        is_removed = action.kind == "rm" and now is None
        outcome = self.ingot.run(*action.argv)
        self.complain(action, outcome.problem(NOT_FOUND if is_removed else 0))
        self.complain(action, _wrong_state(outcome, new, self._now(action), new))
        self.settle(action, self._now(action))
        self.complain(action, *self.judge(after_gc=action.kind == "gc"))

    def collect(self) -> None:
        """Collect garbage; nothing may be left of any killed command."""
        action = self.next_action("gc")
        self.complain(action, self.ingot.run(*action.argv).problem(0))
        self.complain(action, *self.judge(after_gc=True))

    def _now(self, action: Action) -> str | None:
        return manifest_digest(self.ingot.store, action.name) if action.name else None


def run(
    kills: int = 100,
    *,
    signal_name: str = "KILL",
    argv: tuple[str, ...] | None = None,
    seed: int = 0,
    create_options: tuple[str, ...] = (),
) -> Report:
    """Kill `kills` commands on a fresh store; the report has the violations."""
    if signal_name == "INT":
        do_not_ignore_sigint()
    with tempfile.TemporaryDirectory(prefix="ingot-kills-") as scratch:
        root = Path(scratch)
        ingot = Ingot(argv or command_argv(None), root / "store", create_options)
        killer = Killer(ingot, root, random.Random(seed), SIGNALS[signal_name])
        killer.set_up()
        round_of_kinds: list[str] = []
        for kill in range(1, kills + 1):
            if len(killer.report.violations) >= MAX_VIOLATIONS:
                break
            round_of_kinds = round_of_kinds or killer.rng.sample(ACTIONS, len(ACTIONS))
            killer.kill(killer.next_action(round_of_kinds.pop()))
            if kill % KILLS_PER_GC == 0 or kill == kills:
                killer.collect()
        return killer.report


def _wrong_state(
    outcome: Outcome, old: str | None, now: str | None, new: str | None
) -> str | None:
    """Return what is wrong with the tag: neither old nor new, or not what was reported."""
    reported = outcome.reported_digest() if outcome.argv[0] == "create" else None
    if reported is not None and reported != now:
        return f"it was reported as {reported}, the manifest is {now}"
    if outcome.code == 0 and now != new:
        return f"it exited 0 and the manifest is {now}, expected {new}"
    if outcome.code == 0 and outcome.argv[0] == "create" and reported is None:
        return f"it exited 0 and printed no digest: {outcome.stdout!r}"
    if now not in (old, new):
        return f"the manifest is {now}, expected {old} or {new}"
    return None


def _died_before_main(outcome: Outcome) -> bool:
    """CPython's own end, exit 1, when SIGINT comes while the interpreter still starts."""
    ends = ("Fatal Python error: init", "Could not import runpy module")
    return outcome.code == 1 and any(words in outcome.stderr for words in ends)


def main() -> int:
    """Kill commands at random moments and judge the store each time; 1 on any violation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--signal", choices=SIGNALS, default="KILL")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--quantize", metavar="TYPE", help="passed to every create")
    parser.add_argument("--command", help="default: this Python with -m cli")
    options = parser.parse_args()
    create_options = ("--quantize", options.quantize) if options.quantize else ()
    print_lines([f"seed {options.seed}, {options.kills} x SIG{options.signal}"])
    report = run(
        options.kills,
        signal_name=options.signal,
        argv=command_argv(options.command),
        seed=options.seed,
        create_options=create_options,
    )
    print_lines(report.lines())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
