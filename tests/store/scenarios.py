"""The commands of ingot as the store sees them, each with the store that it meets."""

from __future__ import annotations

import contextlib
import errno

from store.errors import NotFoundError
from store.gc import GarbageCollector
from store.quarantine import examine, quarantine
from store.store import Store
from tests.store.builders import (
    OTHER,
    TENSORS,
    create,
    half_a_blob,
    make_manifest,
    name,
    ref_of,
    tensor_blob,
    write_blobs,
)
from tests.store.exploration import Scenario
from tests.store.sim_fs import Crash

DAMAGED = tensor_blob("a.weight", TENSORS["a.weight"])
FIRST = make_manifest().to_bytes()


def nothing(_):
    pass


def create_again(store):
    create(store)


def replace(store):
    create(store, tensors=OTHER)


def reuse(store):
    create(store, "twin")


def recall(store):
    """Make a model of blobs that the memo tells without reading anything."""
    with store.writing(name("twin")) as writer:
        if not all(writer.reuse(list(make_manifest().blobs))):
            write_blobs(writer)
        writer.publish(name("twin"), make_manifest())


def forget_all(store):
    create(store)
    for _, digest, _ in store.blobs.digests():
        store.memo.forget(digest)


def damage(content):
    """Give an `arrange` with one blob whose file is damaged."""

    def arrange(store):
        create(store)
        digest = ref_of(DAMAGED).digest
        store.fs.overwrite(store.blobs.path(digest), content)
        store.memo.forget(digest)

    return arrange


def damage_with_a_directory(store):
    create(store)
    path = store.blobs.path(ref_of(DAMAGED).digest)
    store.fs.unlink(path)
    store.fs.mkdir(path)
    store.fs.close(store.fs.create(path / "file"))


def two_models(store):
    create(store)
    create(store, "other", OTHER)


def copy(store):
    with store.writing("copy") as writer:
        writer.copy(name("m"), name("copy"))


def copy_over(store):
    with store.writing("other") as writer:
        writer.copy(name("m"), name("other"))


def remove(store):
    store.remove([name("m")])


def remove_both(store):
    store.remove([name("other"), name("m")])


def remove_the_rest(store):
    """Remove each by itself: one that is not there keeps all others."""
    for model in (name("other"), name("m")):
        with contextlib.suppress(NotFoundError):
            store.remove([model])


def killed_remove(store):
    """Another process, which dies before it syncs."""
    store.fs.unlink(store.catalog.path(name("m")))
    yield


def remove_and_collect(store):
    with contextlib.suppress(NotFoundError):
        remove(store)
    collect(store)


def collect(store):
    GarbageCollector(store, wait=0).run()


def much_garbage(store):
    """Blobs that nothing names, a dead writer, a bad blob in quarantine, litter."""
    two_models(store)
    store.fs.overwrite(store.blobs.path(ref_of(DAMAGED).digest), b"short")
    create(store)
    remove(store)
    killed = Store(store.layout.root, store.fs.another_process(), store.memo)
    with contextlib.suppress(Crash), killed.writing("unfinished") as writer:
        write_blobs(writer, {"e.weight": b"e"})
        half_a_blob(writer)
        killed.fs.die()
    store.fs.close(store.fs.create(store.layout.tmp / "litter"))


def living_writer(store):
    """Another process that has pinned and written its blobs, and publishes after gc."""
    with store.writing("m") as writer:
        write_blobs(writer)
        yield
        writer.publish(name("m"), make_manifest())


def replaced(store):
    create(store)
    replace(store)


def replace_twice(store):
    """Leave `m` as it was at first, with both that it was in its history."""
    create(store)
    replace(store)
    create(store)


def restore(store):
    """Bring back what `m` was, which is there still after it has been brought back."""
    former = next(one for one in store.history.read(name("m")) if one.data == FIRST)
    with store.writing("") as writer:
        writer.copy(former, name("m"))


def repair(store):
    """Put back what was found bad, and nothing else."""
    with store.writing("") as writer:
        writer.accept_only(frozenset({ref_of(DAMAGED)}))
        write_blobs(writer)
        writer.sync()


def unnamed_rot(store):
    damage(bytes(len(DAMAGED)))(store)
    remove(store)
    create(store, "other", {"b.weight": TENSORS["b.weight"]})


def set_aside(store):
    suspect = examine(store, ref_of(DAMAGED).digest)
    if suspect is not None and suspect.seen is not None:
        moved = quarantine(store, [suspect], wait=0)
        if not moved:
            raise OSError(errno.EIO, "could not be read")


def set_aside_and_create(store):
    """Once more; then sync what a process may have moved before it died."""
    set_aside(store)
    create(store, "other", {"b.weight": TENSORS["b.weight"]})


def collect_and_create(store):
    collect(store)
    create(store)


SCENARIOS = [
    Scenario("first use", None, create_again),
    Scenario("create", nothing, create_again),
    Scenario("replace", create_again, replace),
    Scenario("reuse", create_again, reuse),
    Scenario("reuse unknown", forget_all, reuse),
    Scenario("recall", create_again, recall),
    Scenario("heal short", damage(DAMAGED[:9]), create_again),
    Scenario("heal rot", damage(bytes(len(DAMAGED))), create_again),
    Scenario("heal directory", damage_with_a_directory, create_again),
    Scenario("repair short", damage(DAMAGED[:9]), repair),
    Scenario("repair rot", damage(bytes(len(DAMAGED))), repair),
    Scenario("repair directory", damage_with_a_directory, repair),
    Scenario("quarantine", unnamed_rot, set_aside, again=set_aside_and_create),
    Scenario("cp", create_again, copy),
    Scenario("cp over", two_models, copy_over),
    Scenario("replace again", replace_twice, replace),
    Scenario("restore", replaced, restore),
    Scenario("rm", two_models, remove),
    Scenario("rm of two", two_models, remove_both, again=remove_the_rest),
    Scenario("gc", much_garbage, collect),
    Scenario("gc after a killed rm", two_models, collect, killed_remove, remove_and_collect),
    Scenario("gc beside a writer", two_models, collect, living_writer, collect_and_create),
    Scenario("gc beside a first writer", nothing, collect, living_writer, collect_and_create),
]
