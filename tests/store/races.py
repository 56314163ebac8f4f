"""Let one command meet another, whole, before any of its operations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from store.errors import BusyError, IngotError, NotFoundError
from store.gc import GarbageCollector
from store.store import Store
from store.verify import verify
from tests.store.builders import OTHER, create
from tests.store.exploration import Scenario, World, arranged
from tests.store.judge import litter, tags, violations
from tests.store.scenarios import collect, copy, create_again, recall, remove, replace, reuse


@dataclass(frozen=True, slots=True)
class Command:
    """What a command does to names; a race must not change that."""

    act: Callable[[Store], object]
    makes: frozenset[str] = frozenset()
    removes: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Race:
    """A command, the store that it meets, and another command that comes in between."""

    arrange: Callable[[Store], object]
    command: Command
    intruder: Command

    @property
    def name(self) -> str:
        return f"{self.command.act.__name__}, {self.intruder.act.__name__}"


def remove_and_collect(store):
    remove(store)
    with contextlib.suppress(BusyError):
        collect(store)


def replace_and_collect(store):
    replace(store)
    with contextlib.suppress(BusyError):
        collect(store)


def remove_m(store):
    """Arrange a store whose blobs nothing names any more."""
    create(store)
    remove(store)


def create_other(store):
    create(store, "other", OTHER)


def check(store):
    findings = verify(store).findings
    assert findings == ()


M = frozenset({"m"})
CREATE = Command(create_again, makes=M)
REPLACE = Command(replace, makes=M)
REUSE = Command(reuse, makes=frozenset({"twin"}))
RECALL = Command(recall, makes=frozenset({"twin"}))
CREATE_OTHER = Command(create_other, makes=frozenset({"other"}))
COPY = Command(copy, makes=frozenset({"copy"}), needs=M)
REMOVE = Command(remove, removes=M, needs=M)
COLLECT = Command(collect)
REMOVE_AND_COLLECT = Command(remove_and_collect, removes=M, needs=M)
REPLACE_AND_COLLECT = Command(replace_and_collect, makes=M)
CHECK = Command(check)


def meetings(race: Race) -> Iterator[list[str]]:
    """Let the two meet before each operation of the command; give what went wrong."""
    before = arranged(Scenario(race.name, race.arrange, race.command.act))
    alone = before.copy()
    race.command.act(alone.store)
    for point, operation in enumerate(alone.fs.log):
        story = f"{race.name} before {point}: {operation.name} {operation.path}"
        yield [f"{story}: {problem}" for problem in _meet(race, before.copy(), point)]


def _meet(race: Race, world: World, point: int) -> Iterator[str]:
    outcomes: dict[Command, Exception | None] = {}

    def come_in(number: int) -> None:
        if number == point:
            store = world.another_process.store
            outcomes[race.intruder] = _outcome(race.intruder, store)

    expected = _names(world)
    world.fs.before = come_in
    outcomes[race.command] = _outcome(race.command, world.store)
    world.fs.before = None
    yield from _unexpected(race, outcomes)
    done = [command for command, error in outcomes.items() if error is None]
    made = frozenset[str]().union(*(command.makes for command in done))
    removed = frozenset[str]().union(*(command.removes for command in done))
    yield from (f"{name} is lost" for name in (expected | made) - removed - _names(world))
    yield from (f"{name} is still there" for name in (removed - made) & _names(world))
    yield from violations(world.fs.tree())
    yield from map(str, verify(world.store).findings)
    GarbageCollector(world.another_process.store, wait=0).run()
    yield from litter(world.fs.tree())
    yield from violations(world.fs.tree())


def _outcome(command: Command, store: Store) -> Exception | None:
    try:
        command.act(store)
    except (IngotError, OSError, AssertionError) as error:
        return error
    return None


def _unexpected(race: Race, outcomes: dict[Command, Exception | None]) -> Iterator[str]:
    for command, other in ((race.command, race.intruder), (race.intruder, race.command)):
        error = outcomes[command]
        is_gone = isinstance(error, NotFoundError) and command.needs & other.removes
        # The intruder must not wait for the command, which waits for it.
        is_kept_out = isinstance(error, BusyError) and command is race.intruder
        if error is not None and not is_gone and not is_kept_out:
            yield f"{command.act.__name__} failed: {error!r}"


def _names(world: World) -> frozenset[str]:
    return frozenset(path.split("/")[2] for path in tags(world.fs.tree()))
