"""Break a scenario at each of its operations in every way, and have judged what is left."""

from __future__ import annotations

import contextlib
import errno
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from store.digest import Digest
from store.errors import IngotError, NotFoundError
from store.gc import GarbageCollector
from store.memo import Memo
from store.status import Status
from store.store import Store
from store.verify import verify
from tests.store.judge import (
    ROOT,
    bad_blobs,
    forgotten,
    hollow,
    litter,
    origins,
    tags,
    violations,
)
from tests.store.sim_fs import MUTATING, Crash, Fault, SimFS, home

ERRORS = (errno.EIO, errno.ENOSPC, errno.EMFILE)


class KeptMemo(Memo):
    """A memo of which a crash loses nothing: the one that could mislead most."""

    def __init__(self, rows=()):
        super().__init__(None)
        self.rows = dict(rows)

    def knows(self, digest: Digest, status: Status) -> bool:
        return self.rows.get(digest) == status

    def note(self, digest: Digest, status: Status) -> None:
        self.rows[digest] = status

    def forget(self, digest: Digest) -> None:
        self.rows.pop(digest, None)

    def clear(self) -> None:
        self.rows.clear()

    def copy(self):
        return KeptMemo(self.rows)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command, and the store that it meets.

    Attributes:
        arrange: makes what is there before; nothing at all for None.
        act: the command; when it returns, it has kept its promise.
        beside: another process, which works until it yields before the command begins, and
            on to its own end when the command has ended or died.
        again: what is done after all to reach the good end; the command unless given.
    """

    name: str
    arrange: Callable[[Store], object] | None
    act: Callable[[Store], object]
    beside: Callable[[Store], Iterator[None]] | None = None
    again: Callable[[Store], object] | None = None


@dataclass(slots=True)
class Exploration:
    """What was tried and what was wrong."""

    operations: int = 0
    faults: int = 0
    states: int = 0
    distinct: int = 0
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class World:
    """A machine and what its memo remembers."""

    fs: SimFS
    memo: KeptMemo

    @property
    def store(self) -> Store:
        return Store(ROOT, self.fs, self.memo)

    @property
    def another_process(self) -> World:
        """Give the same as another process sees it."""
        return World(self.fs.another_process(), self.memo)

    def copy(self) -> World:
        """Give a second machine in the same state, where everything is durable."""
        fs = self.fs.after_power_cut()
        fs.disk.boot = self.fs.disk.boot
        return World(fs, self.memo.copy())


def arranged(scenario: Scenario) -> World:
    """Give the world that the scenario begins in, everything in it durable."""
    world = World(home(), KeptMemo())
    if scenario.arrange is not None:
        world.store.prepare()
        scenario.arrange(world.store)
        world.fs.disk.save_all()
    return world


class Explorer:
    """Explores one scenario."""

    def __init__(self, scenario: Scenario, before: World | None = None) -> None:
        """Begin in the scenario's own world or in the one given."""
        self.scenario = scenario
        self.found = Exploration()
        self.seen: set[object] = set()
        # Whoever removes without a thought of history, or cannot write it.
        self.may_forget = scenario.beside is not None
        self.before = before or arranged(scenario)
        self.bad = bad_blobs(self.before.fs.tree())
        self.old = tags(self.before.fs.tree())
        whole = self.before.copy()
        with self._beside(whole):
            self._run(whole)
            self.log = list(whole.fs.log)
        self.new = tags(whole.fs.tree())
        self.origins = origins(whole.fs.tree())
        self.found.operations = len(self.log)

    def crashes(
        self, *, every_state: bool = True, backwards: bool = False
    ) -> Iterator[Exploration]:
        """Stop before each operation that changes something, and after the last."""
        points = [k for k, done in enumerate(self.log) if done.name in MUTATING]
        points.append(len(self.log))
        for point in reversed(points) if backwards else points:
            world = self.before.copy()
            world.fs.crash_at = point
            self._try(world, f"crash at {self._at(point)}", every_state=every_state)
            yield self.found

    def failures(self) -> Iterator[Exploration]:
        """Fail each operation, once and from then on."""
        for fault in self._faults():
            world = self.before.copy()
            world.fs.fault = fault
            self.found.faults += 1
            self._try(world, f"{fault} at {self._at(fault.at)}", every_state=False)
            yield self.found

    def interruptions(self) -> Iterator[Exploration]:
        """Raise what Ctrl-C raises, before each operation; cleaning up must work."""
        for point in range(len(self.log)):
            world = self.before.copy()
            story = f"interrupted at {self._at(point)}"
            with self._beside(world, self._complainer(story)):
                store = world.store
                world.fs.before = _interrupting(point)
                with contextlib.suppress(KeyboardInterrupt):
                    self.scenario.act(store)
                world.fs.before = None
                store.close()
                self._complainer(story)(self._left_by(world.fs, point))
                world.fs.die()
            self._judge(world.another_process, story, reported=False)
            yield self.found

    def crash_keeping(self, point: int, kept: set[int], data: str) -> Exploration:
        """Stop at one operation and keep just these of the updates that were not synced."""
        world = self.before.copy()
        world.fs.crash_at = point % (len(self.log) + 1)
        reported = self._run(world)
        disk = world.fs.disk
        updates = [update for index, update in enumerate(disk.pending) if index in kept]
        cut = World(SimFS(disk.after_power_cut(updates, data)), world.memo.copy())
        self._judge(
            cut, f"crash at {point}, keeping {updates} with content {data}", reported=reported
        )
        return self.found

    def _left_by(self, fs: SimFS, point: int) -> list[str]:
        left = [path for path in fs.tree() if f".{fs.process()}." in path]
        # With a lock that stays locked nobody cleans up, and what gc has moved into its
        # folder is left to the next gc: both as after a kill.
        is_locked = self.log[point].name == "close" and "/locks/" in str(self.log[point].path)
        is_grave = any("/gone-" in path for path in left)
        return [] if is_locked or is_grave else [f"{path} is left" for path in left]

    def worlds_after_crashes(self) -> Iterator[World]:
        """Give each distinct world that a crash may leave, rebooted."""
        seen = set()
        for point in (k for k, done in enumerate(self.log) if done.name in MUTATING):
            world = self.before.copy()
            world.fs.crash_at = point
            self._run(world)
            for _, state in world.fs.crash_states():
                if (fingerprint := state.fingerprint()) not in seen:
                    seen.add(fingerprint)
                    yield World(state, world.memo.copy())

    def _faults(self) -> Iterator[Fault]:
        for point, operation in enumerate(self.log):
            for error, lasting in itertools.product(ERRORS, (False, True)):
                if lasting or operation.can_fail_with(error):
                    yield Fault(point, error, lasting)
            if operation.name in {"write", "write_at"}:
                yield Fault(point, errno.ENOSPC, lasting=True, short=True)

    def _at(self, point: int) -> str:
        if point == len(self.log):
            return "the end"
        return f"{point}: {self.log[point].name} {self.log[point].path}"

    def _try(self, world: World, story: str, *, every_state: bool) -> None:
        self.may_forget = self.scenario.beside is not None or world.fs.fault is not None
        with self._beside(world, self._complainer(story)):
            reported = self._run(world)
            world.fs.die()
            for what, state in world.fs.crash_states(every=every_state):
                cut = World(state, world.memo.copy())
                self._judge(cut, f"{story}, then a power cut: {what}", reported=reported)
        self._judge(world.another_process, f"{story}, the machine runs on", reported=reported)

    def _run(self, world: World) -> bool:
        """Run until it breaks; say whether the command kept its promise."""
        try:
            self.scenario.act(world.store)
        except (Crash, OSError, IngotError):
            return False
        return True

    @contextlib.contextmanager
    def _beside(self, world: World, complain=None) -> Iterator[None]:
        if self.scenario.beside is None:
            yield
            return
        work = self.scenario.beside(world.another_process.store)
        next(work)
        yield
        try:
            next(work, None)
        except (OSError, IngotError) as error:
            complain([f"the other process failed: {error!r}"])

    def _judge(self, world: World, story: str, *, reported: bool) -> None:
        self.found.states += 1
        key = (world.fs.fingerprint(), reported, frozenset(world.memo.rows.items()))
        if key in self.seen:
            return
        self.seen.add(key)
        self.found.distinct += 1
        complain = self._complainer(story)
        tree = world.fs.tree()
        complain(hollow(tree, self.bad))
        if not self.may_forget:
            complain(forgotten(tree, self.old))
        bad = {} if reported else self.bad
        complain(violations(tree, bad))
        if reported:
            complain(f"origin {line} is gone" for line in self._lost_origins(tree))
        is_done = reported and self.scenario.beside is None
        self._compare_tags(complain, tree, [self.new] if is_done else [self.old, self.new])
        self._judge_aftermath(world, complain, bad)

    def _judge_aftermath(self, world: World, complain, bad) -> None:
        """Verify, do the command again, verify, gc: all must work in any state."""
        with complain.about("verify"):
            complain(_findings(world.store, bad))
        with complain.about("the command again"):
            # An `rm` may have come that far: then there is nothing more to remove.
            with contextlib.suppress(NotFoundError):
                (self.scenario.again or self.scenario.act)(world.store)
            # What a process left unsynced that died is now everybody's problem.
            self._compare_tags(complain, world.fs.after_power_cut().tree(), [self.new])
        with complain.about("verify after the command again"):
            complain(_findings(world.store))
        with complain.about("gc"):
            GarbageCollector(world.store, wait=0).run()
            complain(litter(world.fs.tree()))
        for tree in (world.fs.tree(), world.fs.after_power_cut().tree()):
            complain(violations(tree))
            self._compare_tags(complain, tree, [self.new])

    def _lost_origins(self, tree) -> Iterator[str]:
        """Origins that the whole run leaves and that models still need."""
        found = origins(tree)
        needed = {f"sha256-{Digest.of(data).hex}" for data in tags(tree).values()}
        for name, source in self.origins.items():
            if name in needed and found.get(name) != source:
                yield f"{name}, which is {found.get(name)!r}"

    def _compare_tags(self, complain, tree, allowed) -> None:
        """Each tag by itself is as it was or as it should be."""
        found = tags(tree)
        for tag in sorted({*found, *self.old, *self.new}):
            if found.get(tag) not in [state.get(tag) for state in allowed]:
                complain([f"tag {tag} is {found.get(tag)!r}"])

    def _complainer(self, story: str):
        return _Complainer(f"{self.scenario.name}: {story}", self.found.violations)


def _interrupting(point: int) -> Callable[[int], None]:
    def interrupt(number: int) -> None:
        if number == point:
            raise KeyboardInterrupt

    return interrupt


@dataclass(slots=True)
class _Complainer:
    story: str
    violations: list[str]

    def __call__(self, problems) -> None:
        self.violations += [f"{self.story}: {problem}" for problem in problems]

    @contextlib.contextmanager
    def about(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, IngotError) as error:
            self([f"{what} failed: {error!r}"])


def _findings(store: Store, tolerated=()) -> list[str]:
    report = verify(store)
    names = {name.replace("-", ":") for name in tolerated}
    return [
        f"verify finds {finding}" for finding in report.findings if finding.subject not in names
    ]
