"""One command on one store, again and again, and the judge of what it leaves each time."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.check_store import check_store, manifest_digest
from tests.soak.forked import ForkedIngot, load
from tests.soak.harness import Outcome
from tests.soak.scenarios import NOT_FOUND, Scenario, write_sources

_BLOB = re.compile(r"sha256[:-]([0-9a-f]{64})")


@contextlib.contextmanager
def stage(name: str) -> Iterator[Path]:
    """Load the command, which is then forked, and yield a directory with the sources."""
    load()
    with tempfile.TemporaryDirectory(prefix=f"ingot-{name}-") as place:
        # strace compares what the kernel says of a descriptor.
        scratch = Path(place).resolve()
        write_sources(scratch / "sources")
        # Until the memo believes them: before, a rehearsal does what no later run does.
        time.sleep(2.5)
        yield scratch


class Trial:
    """A scenario and its judge.

    Attributes:
        argv: the command.
        old, new: the digest of the tag's manifest before and after; None without one.
        kept: the digest of the model that nobody touches; None where there is none.
        bad: what is wrong with the store before.
        damaged: the names of the blobs that are.
    """

    def __init__(self, scenario: Scenario, scratch: Path) -> None:
        """Prepare; the sources are in `scratch`."""
        self.scenario, self.scratch = scenario, scratch
        self.ingot = ForkedIngot(scratch / "store", scratch.parent)
        self.argv = scenario.argv(scratch / "sources")
        self.old: str | None = None
        self.new: str | None = None
        self.kept: str | None = None
        self.bad: frozenset[str] = frozenset()
        self.damaged: frozenset[str] = frozenset()

    def learn(self, act: Callable[[], Outcome]) -> None:
        """See what the command does unharmed."""
        self.arrange()
        self.old, self.kept = self.tag(), manifest_digest(self.ingot.store, "kept")
        self.bad = frozenset(check_store(self.ingot.store))
        self.damaged = frozenset(_blob_names(self.bad))
        if problem := act().problem(self.scenario.ends):
            raise RuntimeError(problem)
        self.new = self.tag()

    def arrange(self) -> None:
        """Make the store that the command meets."""
        shutil.rmtree(self.ingot.store, ignore_errors=True)
        self.scenario.arrange(self.ingot, self.scratch / "sources")

    def tag(self) -> str | None:
        """The manifest that the command's tag has now."""
        tag = self.scenario.tag
        return manifest_digest(self.ingot.store, tag) if tag else None

    def judge_end(self, outcome: Outcome) -> list[str]:
        """Judge what the command said last, its tag and the store."""
        now, found = self.tag(), []
        if "Traceback" in outcome.stderr or "bug in ingot" in outcome.stderr:
            found.append(f"it said {outcome.stderr[-900:]!r}")
        allowed = [self.new] if outcome.code == 0 else [self.old, self.new]
        if now not in allowed:
            found.append(f"after exit {outcome.code} the tag is {now}, expected {allowed}")
        return found + self.violations(tolerates=outcome.code != 0)

    def left(self) -> list[str]:
        """Judge what of the command is in tmp/."""
        there = {path.name for path in (self.ingot.store / "tmp").glob("*")}
        return [f"tmp/{name} was left" for name in sorted(there - self.scenario.litter)]

    def judge_aftermath(self) -> list[str]:
        """Verify, the command again, gc: all must succeed, whatever was left."""
        found = []
        if not self.bad:
            # Killed at its very beginning, the first use may leave no store.
            is_there = (self.ingot.store / "VERSION").exists()
            ends = (0,) if is_there else (0, NOT_FOUND)
            found.append(self.ingot.run("verify").problem(*ends))
        gone = self.scenario.removes and self.tag() is None
        again = self.ingot.run(*self.argv)
        found.append(again.problem(NOT_FOUND if gone else self.scenario.ends))
        if self.tag() != self.new:
            found.append(f"after the command again the tag is {self.tag()}, not {self.new}")
        tolerates = again.code != 0
        found += self.violations(tolerates=tolerates)
        found.append(self.ingot.run("gc", "--yes").problem(0))
        found += self.violations(tolerates=tolerates, after_gc=True)
        return [f"afterwards: {problem}" for problem in found if problem]

    def violations(self, *, tolerates: bool, after_gc: bool = False) -> list[str]:
        """Judge the store.

        Args:
            tolerates: what was damaged before may still be, or be in quarantine instead.
            after_gc: nothing may be left over, and nothing is in quarantine.
        """
        store = self.ingot.store
        found = set(check_store(store, reported=self._reported(), after_gc=after_gc))
        if not tolerates:
            return sorted(found)
        found -= self.bad
        if self.scenario.repairs:
            kept = {path.stem for path in (store / "quarantine").iterdir()}
            moved = self.damaged if after_gc else self.damaged & kept
            found = {problem for problem in found if not moved & _blob_names([problem])}
        return sorted(found)

    def _reported(self) -> dict[str, str]:
        # What must be there whatever happens.
        return {"kept": self.kept} if self.kept else {}


def _blob_names(problems: Iterable[str]) -> set[str]:
    found = (_BLOB.findall(problem) for problem in problems)
    return {f"sha256-{digits}" for each in found for digits in each}
