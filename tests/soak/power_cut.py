"""The plug is pulled at random moments: what was reported is there after the next boot.

    python tests/soak/power_cut.py [--cuts 100] [--seed N]

The store is on an ext4 image. At a random moment the file system is shut down without writing
its journal, by the ioctl that xfstests uses for it: what was not synced is lost. Then it is
unmounted, mounted again, which replays the journal, and judged. Each command is a real
process, killed after the cut, with the others around it that a user might run at once.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import random
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.check_store import check_store, manifest_digest
from tests.soak import disks
from tests.soak.harness import (
    Ingot,
    Outcome,
    Source,
    command_argv,
    kill_group,
    print_lines,
)

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, _IOR('X', 125, u32)
NO_LOG_FLUSH = 2
DISK_BYTES = 96 << 20
NAMES = ("cut-a", "cut-b")
COPY = "cut-copy"
LONGEST_SECONDS = 3.0
MAX_VIOLATIONS = 20
NOT_FOUND = 9


@dataclass(slots=True)
class Report:
    """What the cuts met.

    Attributes:
        ends: command -> how often it was reported as done before a cut.
        interrupted: command -> how often a cut ended it.
    """

    cuts: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    interrupted: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the report as text."""
        reported = ", ".join(f"{n} x {kind}" for kind, n in sorted(self.ends.items()))
        cut = ", ".join(f"{n} x {kind}" for kind, n in sorted(self.interrupted.items()))
        lines = [f"{self.cuts} power cuts; reported before one: {reported}; cut short: {cut}"]
        lines += (f"VIOLATION {violation}" for violation in self.violations)
        return [*lines, f"{len(self.violations)} violations"]


@dataclass(slots=True)
class Plug:
    """A store on a disk, and the tags that it must have.

    Attributes:
        rehearsal: the same command on a disk that nobody unplugs.
        tags: name -> the manifests that it may have; None is none.
        unsure: names whose last command was cut short, so they may have its manifest.
        known: every manifest that was ever reported.
    """

    ingot: Ingot
    rehearsal: Ingot
    image: Path
    disk: Path
    rng: random.Random
    report: Report
    sources: dict[str, Source]
    tags: dict[str, set[str | None]] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    known: set[str | None] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)
    pids: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def cut(self) -> None:
        """Let commands run for a while, pull the plug, boot and judge."""
        self.over.clear()
        loops = [threading.Thread(target=self.create_loop, args=(name,)) for name in NAMES]
        loops.append(threading.Thread(target=self.other_loop))
        for loop in loops:
            loop.start()
        time.sleep(self.rng.uniform(0.1, LONGEST_SECONDS))
        self.over.set()
        descriptor = os.open(self.disk, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)
        with self.lock:
            for pid in self.pids:
                kill_group(pid)
        for loop in loops:
            loop.join()
        disks.shell("umount", str(self.disk))
        disks.mount(self.image, self.disk)
        self.report.cuts += 1
        self.complain(self.judge())

    def create_loop(self, name: str) -> None:
        """Import a source that changes each time; only this loop does so under this name."""
        while not self.over.is_set():
            self.sources[name].change()
            self.create(name)

    def create(self, name: str) -> None:
        """Import a source."""
        outcome = self.run("create", name, str(self.sources[name].directory))
        digest = outcome.reported_digest()
        with self.lock:
            self.known.add(digest)
        self.settle(outcome, name, {digest})

    def other_loop(self) -> None:
        """Copy, remove and collect, as it comes."""
        while not self.over.is_set():
            match self.rng.choice(("cp", "cp", "rm", "gc")):
                case "cp":
                    outcome = self.run("cp", self.rng.choice(NAMES), COPY)
                    self.settle(outcome, COPY, self.copied())
                case "rm":
                    self.settle(self.run("rm", COPY), COPY, {None})
                case _:
                    self.settle(self.run("gc", "--yes"), None, set())

    def copied(self) -> set[str | None]:
        """The manifest of the copy, or all that it can be where the disk is gone."""
        with contextlib.suppress(OSError):
            return {manifest_digest(self.ingot.store, COPY)}
        with self.lock:
            return set(self.known)

    def run(self, *words: str) -> Outcome:
        """Run a command that the cut may end."""
        with self.lock:
            running = self.ingot.start(*words)
            self.pids.add(running.process.pid)
        outcome = self.ingot.finish(running)
        with self.lock:
            self.pids.discard(running.process.pid)
        return outcome

    def settle(self, outcome: Outcome, name: str | None, new: set[str | None]) -> None:
        """Note what a command reported, or that nobody knows how far it came."""
        command = outcome.argv[0]
        # What is told while the plug is pulled must have been true before.
        if outcome.code == 0:
            self.report.ends[command] += 1
            if name is not None:
                self.tags[name] = new
        elif self.over.is_set():
            self.report.interrupted[command] += 1
            if name is not None:
                self.unsure.add(name)
                if command == "rm":
                    self.tags[name] = self.tags[name] | {None}
        elif outcome.code != NOT_FOUND:
            self.complain([outcome.problem(0)])

    def judge(self) -> list[str | None]:
        """Judge the store after the boot; then every command works again."""
        store = self.ingot.store
        found: list[str | None] = [*check_store(store)]
        found += (self.wrong_tag(name) for name in self.tags)
        found += (self.ingot.run(*words).problem(0) for words in (("verify",), ("gc", "--yes")))
        found += check_store(store, after_gc=True)
        self.unsure.clear()
        self.tags = {name: {manifest_digest(store, name)} for name in (*NAMES, COPY)}
        self.known |= {digest for digests in self.tags.values() for digest in digests}
        return found

    def wrong_tag(self, name: str) -> str | None:
        """Say what is wrong with a name: it has neither its old manifest nor a new one."""
        now, allowed = manifest_digest(self.ingot.store, name), self.tags[name]
        if now in allowed:
            return None
        if name in self.unsure and now is not None and now in self.unfinished(name):
            return None
        return f"{name} was reported as {allowed} and is {now}"

    def unfinished(self, name: str) -> set[str | None]:
        """What the command that was cut short would have made of a name."""
        if name == COPY:
            return self.known | {manifest_digest(self.ingot.store, name) for name in NAMES}
        source = str(self.sources[name].directory)
        return {self.rehearsal.run("create", name, source).reported_digest()}

    def complain(self, problems: list[str | None]) -> None:
        """Note violations."""
        self.report.violations += (
            f"cut {self.report.cuts}: {problem}" for problem in problems if problem
        )


def run(cuts: int = 100, *, seed: int = 0, argv: tuple[str, ...] | None = None) -> Report:
    """Pull the plug `cuts` times on one store; the report has the violations."""
    report = Report()
    with tempfile.TemporaryDirectory(prefix="ingot-power-") as place:
        scratch = Path(place)
        rng = random.Random(seed)
        sources = {
            name: Source(scratch / "sources" / name, random.Random(f"{seed}/{name}"))
            for name in NAMES
        }
        with disks.ext4(scratch, DISK_BYTES) as disk:
            ingot = Ingot(argv or command_argv(None), disk / "store")
            rehearsal = ingot.on(scratch / "rehearsal")
            plug = Plug(ingot, rehearsal, scratch / "image", disk, rng, report, sources)
            plug.tags[COPY] = {None}
            for name in NAMES:
                plug.create(name)
            while report.cuts < cuts and len(report.violations) < MAX_VIOLATIONS:
                plug.cut()
    return report


def main() -> int:
    """Pull the plug at random moments and judge the store each time; 1 on any violation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--command", help="default: this Python with -m cli")
    options = parser.parse_args()
    if why := disks.why_no_loop():
        print_lines([f"skipped: {why}"])
        return 0
    print_lines([f"seed {options.seed}"])
    report = run(options.cuts, seed=options.seed, argv=command_argv(options.command))
    print_lines(report.lines())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
