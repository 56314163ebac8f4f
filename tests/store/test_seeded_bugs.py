"""The tests can fail: each mistake that a change might make is seen by a scenario or a race."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from store.blob_writer import BlobWriter
from store.blobs import BlobStore, CommitOutcome
from store.catalog import Catalog
from store.durable import write_small
from store.gc import GarbageCollector
from store.history import History
from store.lock import StoreLock
from store.mark import Marking
from store.origins import Origins
from store.status import Kind
from store.store import Store
from store.writer import Writer
from tests.store import races
from tests.store.exploration import Explorer
from tests.store.races import Race, meetings
from tests.store.scenarios import SCENARIOS, create_again
from tests.store.sim_fs import SimFS

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
GC_MEETS_CREATE = Race(races.remove_m, races.COLLECT, races.CREATE)
CREATE_MEETS_GC = Race(races.remove_m, races.CREATE, races.COLLECT)
REUSE_MEETS_RM = Race(create_again, races.REUSE, races.REMOVE_AND_COLLECT)
COPY_MEETS_RM = Race(create_again, races.COPY, races.REMOVE_AND_COLLECT)


# Syncs that are left out, or believed at the second try.


def no_sync_of(suffix):
    sync = SimFS.sync

    def plant(patch):
        def without(self, file):
            if not file.path.name.endswith(suffix):
                sync(self, file)

        patch.setattr(SimFS, "sync", without)

    return plant


def no_sync_of_directory(name):
    sync_directory = SimFS.sync_directory

    def plant(patch):
        def without(self, path):
            if path.name != name:
                sync_directory(self, path)

        patch.setattr(SimFS, "sync_directory", without)

    return plant


def no_sync_of_manifests_in_gc(patch):
    patch.setattr(GarbageCollector, "_sync_manifests", lambda _: None)


def no_sync_of_origins(patch):
    def without(self, manifest, origin, partial):
        if not self.has(manifest, origin):
            self.fs.rename(partial, self._path(manifest))

    patch.setattr(Origins, "put", without)


def keep_every_origin(patch):
    patch.setattr(Marking, "_unneeded_origins", lambda *_: ())


def free_every_origin(patch):
    def all_of_them(self, _):
        return [digest for _, digest in self.store.origins.digests() if digest]

    patch.setattr(Marking, "_unneeded_origins", all_of_them)


def no_sync_of_absence(patch):
    patch.setattr(Catalog, "_sync_absence", lambda _, __: None)


def no_sync_of_the_parents(patch):
    patch.setattr(Store, "_sync_parents", lambda _: None)


def sync_again_when_it_failed(patch):
    sync = SimFS.sync

    def stubborn(self, file):
        try:
            sync(self, file)
        except OSError:
            sync(self, file)

    patch.setattr(SimFS, "sync", stubborn)


# Two steps where there should be one.


def remove_the_old_manifest_first(patch):
    put = Catalog.put

    def in_two_steps(self, name, partial):
        if self.find(name):
            self.fs.unlink(self.path(name))
        put(self, name, partial)

    patch.setattr(Catalog, "put", in_two_steps)


def write_the_manifest_in_place(patch):
    put = Catalog.put

    def in_place(self, name, partial):
        put(self, name, partial)
        source = self.fs.open(self.path(name))
        content = self.fs.read(source, 1 << 20, 0)
        self.fs.unlink(self.path(name))
        self.fs.sync_directory(self.path(name).parent)
        file = self.fs.create(self.path(name))
        self.fs.write(file, content)
        self.fs.sync(file)
        self.fs.sync_directory(self.path(name).parent)

    patch.setattr(Catalog, "put", in_place)


def write_the_version_in_place(patch):
    def in_place(self):
        file = self.fs.create(self.layout.version)
        self.fs.write(file, b"1\n")
        self.fs.sync(file)
        self.fs.sync_directory(self.layout.root)

    patch.setattr(Store, "_write_version", in_place)


def remove_the_bad_blob_first(patch):
    install = BlobStore.install

    def in_two_steps(self, partial, ref, **how):
        seen = self.status(ref.digest)
        if seen is not None and seen.kind is Kind.FILE and seen.size != ref.size:
            self.fs.unlink(self.path(ref.digest))
        return install(self, partial, ref, **how)

    patch.setattr(BlobStore, "install", in_two_steps)


# Trust that is not deserved.


def trust_a_name(patch):
    install = BlobStore.install

    def trusting(self, partial, ref, **how):
        if self.status(ref.digest) is not None:
            return CommitOutcome.REUSED
        return install(self, partial, ref, **how)

    patch.setattr(BlobStore, "install", trusting)


def ignore_a_failed_write(patch):
    def credulous(self, chunk):
        self._sha256.update(chunk)
        with contextlib.suppress(OSError):
            self._fs.write_at(self._file, chunk, self.size)
        self.size = self._placed = self._fs.status_of(self._file).size

    patch.setattr(BlobWriter, "write", credulous)


def take_unreadable_pins_for_none(patch):
    read = Marking._read

    def easy_going(self, path):
        try:
            return read(self, path)
        except OSError:
            return ""

    patch.setattr(Marking, "_read", easy_going)


# Locks and pins.


@contextlib.contextmanager
def nothing(*_):
    yield


def no_pins(patch):
    patch.setattr(Writer, "_pin", lambda *_: None)


def no_pins_in_gc(patch):
    patch.setattr(Marking, "_pins", lambda *_: set())


def every_writer_is_dead(patch):
    patch.setattr(Marking, "_is_alive", lambda *_: False)


def no_shared_lock(patch):
    patch.setattr(StoreLock, "shared", nothing)


def no_exclusive_lock(patch):
    patch.setattr(StoreLock, "exclusive", nothing)
    patch.setattr(StoreLock, "is_effective", lambda _: True)


def look_before_the_lock(patch):
    """Take what was there a moment ago for what is there."""

    def hasty(self, path, ref):
        self.fs.close(self.partials.take(path))
        seen = self._blobs.holds(ref)
        with self._lock.shared():
            self._pin([ref])
            return CommitOutcome.REUSED if seen else self._blobs.install(path, ref)

    patch.setattr(Writer, "commit", hasty)


def no_history(patch):
    patch.setattr(History, "keep", lambda *_: None)


def leave_history(patch):
    patch.setattr(History, "roots", lambda _: [])


def copy_without_the_lock(patch):
    def careless(self, source, target):
        found = self._catalog.get(source)
        partial = self.folder / "0.manifest"
        write_small(self.fs, partial, found.data)
        self._catalog.put(target, partial)

    patch.setattr(Writer, "copy", careless)


BUGS = {
    "blobs are not synced": (no_sync_of(".partial"), "create"),
    "a manifest is not synced": (no_sync_of(".manifest"), "create"),
    "a copied manifest is not synced": (no_sync_of(".manifest"), "cp"),
    "blobs/ is not synced": (no_sync_of_directory("blobs"), "create"),
    "the tag's directory is not synced": (no_sync_of_directory("m"), "replace"),
    "a new parent of the tag is not synced": (no_sync_of_directory("library"), "create"),
    "rm syncs nothing": (no_sync_of_directory("m"), "rm"),
    "gc does not sync manifests": (no_sync_of_manifests_in_gc, "gc after a killed rm"),
    "rm believes that there is nothing": (no_sync_of_absence, "rm"),
    "the store's parents are not synced": (no_sync_of_the_parents, "first use"),
    "an origin is not synced": (no_sync_of(".origin"), "create"),
    "origins/ is not synced": (no_sync_of_origins, "create"),
    "gc keeps every origin": (keep_every_origin, "gc"),
    "gc frees every origin": (free_every_origin, "gc"),
    "history is not synced": (no_sync_of_directory("latest"), "replace"),
    "a removed name has no history": (no_history, "rm"),
    "a replaced name has no history": (no_history, "cp over"),
    "gc does not sync history": (no_sync_of_directory("history"), "gc"),
    "gc leaves history": (leave_history, "gc"),
    "sync is tried again": (sync_again_when_it_failed, "create"),
    "replacing takes two steps": (remove_the_old_manifest_first, "replace"),
    "a manifest is written in place": (write_the_manifest_in_place, "create"),
    "VERSION is written in place": (write_the_version_in_place, "first use"),
    "healing takes two steps": (remove_the_bad_blob_first, "heal short"),
    "the name of a blob is believed": (trust_a_name, "heal short"),
    "a failed write is ignored": (ignore_a_failed_write, "create"),
    "unreadable pins are none": (take_unreadable_pins_for_none, "gc beside a first writer"),
    "writers pin nothing": (no_pins, "gc beside a first writer"),
    "gc ignores pins": (no_pins_in_gc, "gc beside a first writer"),
    "gc takes every writer for dead": (every_writer_is_dead, "gc beside a first writer"),
}
RACY_BUGS = {
    "writers take no lock, gc runs": (no_shared_lock, GC_MEETS_CREATE),
    "writers take no lock": (no_shared_lock, CREATE_MEETS_GC),
    "gc takes no lock": (no_exclusive_lock, GC_MEETS_CREATE),
    "a writer looks before the lock": (look_before_the_lock, REUSE_MEETS_RM),
    "writers pin nothing": (no_pins, CREATE_MEETS_GC),
    "cp takes no lock": (copy_without_the_lock, COPY_MEETS_RM),
}


@pytest.mark.parametrize(("plant", "scenario"), BUGS.values(), ids=BUGS)
def test_a_scenario_sees_that(plant, scenario, monkeypatch):
    explorer = Explorer(BY_NAME[scenario])
    plant(monkeypatch)

    # Bugs of crashes show late, those of failures early.
    crashes, failures = explorer.crashes(backwards=True), explorer.failures()
    assert any(explorer.found.violations for _ in itertools.zip_longest(crashes, failures))


@pytest.mark.parametrize(("plant", "race"), RACY_BUGS.values(), ids=RACY_BUGS)
def test_a_race_sees_that(plant, race, monkeypatch):
    monkeypatch.setattr("store.lock._SHARED_WAIT", 0)
    plant(monkeypatch)

    assert any(meetings(race))
