from __future__ import annotations

import errno
import json
import os
import random
import socket
import threading
import time

import pytest

from store import limits
from store.errors import NotFoundError
from store.fs import FileSystem
from store.manifest import CONFIG_MEDIA_TYPE, Layer, Manifest, MediaType
from store.quarantine import examine
from store.store import Store
from store.text import is_printable
from store.verify import Problem, verify
from tests.check_store import snapshot
from tests.store.builders import (
    CONFIG,
    OTHER,
    TENSORS,
    create,
    make_manifest,
    name,
    ref_of,
    tensor_blob,
    tensor_layer,
)

CONTENT = tensor_blob("a.weight", TENSORS["a.weight"])
DIGEST = ref_of(CONTENT).digest


@pytest.fixture
def store(store):
    create(store)
    create(store, "twin")
    create(store, "other", OTHER)
    return store


def path_of(store):
    """Of a blob that `m` and `twin` name and `other` does not."""
    return store.blobs.path(DIGEST)


def overwrite(store, content):
    path = path_of(store)
    path.unlink()
    path.write_bytes(content)


def problems(report):
    return [(finding.problem, finding.subject) for finding in report.findings]


def only(report):
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


def publish(store, model, layers, config=CONFIG, **changes):
    """Publish a manifest whose layers are given with their content."""
    with store.writing(name(model)) as writer:
        config_ref, _ = writer.put(config)
        for _, content in layers:
            writer.put(content)
        parts = tuple(layer for layer, _ in layers)
        first = Layer(CONFIG_MEDIA_TYPE, config_ref.digest, config_ref.size)
        writer.publish(name(model), Manifest(first, parts, **changes))


def of(content, media_type=MediaType.TENSOR, **fields):
    ref = ref_of(content)
    return Layer(media_type, ref.digest, ref.size, **fields), content


def test_a_good_store_has_no_findings(store):
    report = verify(store)

    assert (report.findings, report.notes, report.models) == ((), (), 3)


def test_every_byte_of_a_good_store_is_hashed(store):
    report = verify(store)

    sizes = [path.stat().st_size for path in store.layout.blobs.iterdir()]
    assert (report.blobs, report.nbytes) == (len(sizes), sum(sizes))


def test_progress_adds_up_to_the_total(store):
    store.remove([name("other")])  # its blobs are hashed too
    told = []

    report = verify(store, progress=lambda nbytes, total: told.append((nbytes, total)))

    assert sum(nbytes for nbytes, _ in told) == report.nbytes
    assert {total for _, total in told} == {report.nbytes}


@pytest.mark.parametrize("jobs", [1, 4])
def test_findings_are_the_same_in_any_number_of_threads(store, jobs):
    for path in sorted(store.layout.blobs.iterdir())[::2]:
        path.unlink()

    subjects = [finding.subject for finding in verify(store, threads=jobs).findings]

    assert subjects == sorted(subjects)
    assert len(subjects) == 3


def test_a_store_that_is_not_there_has_no_findings(tmp_path):
    with Store(tmp_path / "none") as store:
        assert verify(store).findings == ()


def test_a_store_without_the_directories_of_ingot_is_verified(store):
    for directory in ("tmp", "quarantine", "locks", "origins"):
        for path in (store.layout.root / directory).iterdir():
            path.unlink()
        (store.layout.root / directory).rmdir()

    assert verify(store).findings == ()


def test_verify_changes_nothing(store):
    overwrite(store, bytes(len(CONTENT)))
    (store.layout.blobs / "foreign").write_bytes(b"")
    before = snapshot(store.layout.root)

    verify(store)

    assert snapshot(store.layout.root) == before


# M10 of reliability.md.
DAMAGES = {
    "short": (CONTENT[:-1], Problem.SIZE),
    "long": (CONTENT + b"x", Problem.SIZE),
    "empty": (b"", Problem.SIZE),
    "zeros": (bytes(len(CONTENT)), Problem.DIGEST),
    "one bit": (CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), Problem.DIGEST),
    "another blob": (CONTENT[:-1] + b"x", Problem.DIGEST),
}


@pytest.mark.parametrize(("content", "problem"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_found_with_the_models_that_it_concerns(store, content, problem):
    overwrite(store, content)

    finding = only(verify(store))

    assert (finding.problem, finding.subject) == (problem, str(DIGEST))
    assert finding.models == ("m:latest", "twin:latest")


@pytest.mark.parametrize(("content", "problem"), DAMAGES.values(), ids=DAMAGES)
def test_creating_again_heals(store, content, problem):
    assert problem
    overwrite(store, content)

    create(store)

    assert verify(store).findings == ()


def test_a_missing_blob_is_found(store):
    path_of(store).unlink()

    finding = only(verify(store))

    assert (finding.problem, finding.models) == (Problem.MISSING, ("m:latest", "twin:latest"))


# M11, M12 of reliability.md.
@pytest.mark.parametrize("kind", ["directory", "link", "link outside", "fifo", "socket"])
def test_a_blob_that_is_no_file_is_found(store, tmp_path, kind, monkeypatch):
    path = path_of(store)
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        (tmp_path / "right").write_bytes(CONTENT)
        path.symlink_to(tmp_path / "right")
    elif kind == "link outside":
        path.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        monkeypatch.chdir(path.parent)  # the path of a socket has at most 108 bytes
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)

    finding = only(verify(store))

    assert (finding.problem, finding.subject) == (Problem.KIND, str(DIGEST))


def test_two_blobs_that_were_swapped_are_found(store):
    first, second = (store.blobs.path(ref.digest) for ref in list(make_manifest().blobs)[1:3])
    content = first.read_bytes(), second.read_bytes()
    for path, other in zip((first, second), reversed(content), strict=True):
        path.unlink()
        path.write_bytes(other)

    assert len(verify(store).findings) == 2


def test_each_of_many_flipped_bits_is_found(store):
    path, chance = path_of(store), random.Random(1)
    path.chmod(0o644)

    for _ in range(100):
        content = bytearray(CONTENT)
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        assert only(verify(store)).subject == str(DIGEST)


def test_rot_is_forgotten_by_the_memo(store):
    path = path_of(store)
    path.chmod(0o644)
    path.write_bytes(bytes(len(CONTENT)))
    path.chmod(0o444)
    store.memo.note(DIGEST, store.blobs.status(DIGEST))

    verify(store)

    assert not store.memo.knows(DIGEST, store.blobs.status(DIGEST))


def test_a_quick_look_hashes_nothing(store):
    overwrite(store, CONTENT[:-1] + b"x")

    report = verify(store, quick=True)

    assert (report.findings, report.nbytes) == ((), 0)


@pytest.mark.parametrize("content", [CONTENT[:-1], b"", bytes(len(CONTENT))])
def test_a_quick_look_sees_sizes_and_headers(store, content):
    overwrite(store, content)

    assert only(verify(store, quick=True)).subject == str(DIGEST)


def test_only_the_models_that_are_named_are_verified(store):
    path_of(store).unlink()
    (store.layout.blobs / "foreign").write_bytes(b"")

    assert verify(store, [name("other")]).findings == ()
    assert only(verify(store, [name("m")])).models == ("m:latest",)


def test_a_name_that_is_not_there_is_not_found(store):
    with pytest.raises(NotFoundError):
        verify(store, [name("none")])


# M01 to M08 of reliability.md; test_manifest.py has the kinds of damage.
@pytest.mark.parametrize("content", [b"", b"{", b"[]", make_manifest().to_bytes() + b"x"])
def test_a_damaged_manifest_is_found_and_the_others_are_verified(store, content):
    store.catalog.path(name("twin")).write_bytes(content)
    path_of(store).unlink()

    report = verify(store)

    assert problems(report) == [
        (Problem.MANIFEST, "twin:latest"),
        (Problem.MISSING, str(DIGEST)),
    ]


def test_a_manifest_of_an_unknown_schema_is_found(store):
    publish(store, "future", [], schema_version=3)

    assert only(verify(store)).problem is Problem.MANIFEST


def test_a_manifest_that_is_a_link_is_found(store):
    path = store.catalog.path(name("twin"))
    path.unlink()
    path.symlink_to(store.catalog.path(name()))

    assert only(verify(store)).problem is Problem.FOREIGN


# M14, M15 of reliability.md.
@pytest.mark.parametrize(
    "path", ["file", "a/b/file", "registry.ollama.ai/library/m/-x", "a/b/c/d/e"]
)
def test_a_file_at_no_models_path_is_found(store, path):
    target = store.layout.manifests / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"{}")

    assert only(verify(store)).problem is Problem.FOREIGN


def test_a_link_below_manifests_is_found_and_not_followed(store):
    (store.layout.manifests / "link").symlink_to("/")

    assert only(verify(store)).problem is Problem.FOREIGN


# M13 of reliability.md.
@pytest.mark.parametrize(
    "foreign", ["sha256-x", "a.tmp", "sha256-", "\x1b[2J", "sha256-1-partial"]
)
def test_a_foreign_name_among_the_blobs_is_found(store, foreign):
    (store.layout.blobs / foreign).write_bytes(b"")

    finding = only(verify(store))

    assert finding.problem is Problem.FOREIGN
    assert is_printable(finding.subject)


@pytest.mark.parametrize(
    "foreign",
    [
        ".DS_Store",
        "sha256-123456",
        f"sha256-{'0' * 64}-partial",
        f"sha256-{'0' * 64}-partial-12",
    ],
)
def test_what_other_programs_leave_is_a_note(store, foreign):
    (store.layout.blobs / foreign).write_bytes(b"")

    report = verify(store)

    assert (report.findings, len(report.notes)) == ((), 1)


def test_blobs_that_nothing_names_are_one_note(store):
    store.remove([name("other")])
    with store.writing("") as writer:
        writer.put(bytes(3000))

    report = verify(store)

    assert report.findings == ()
    (note,) = report.notes
    assert note.startswith("3 blobs (3.2 KB) named by no model, such as sha256:")


def test_a_damaged_blob_that_nothing_names_is_found(store):
    store.remove([name("m"), name("twin")])
    overwrite(store, bytes(len(CONTENT)))

    finding = only(verify(store))

    assert (finding.problem, finding.models) == (Problem.DIGEST, ())


@pytest.mark.parametrize("directory", ["tmp", "quarantine"])
def test_what_gc_will_remove_is_a_note(store, directory):
    (store.layout.root / directory / "left\x1b[2J").write_bytes(b"")

    report = verify(store)

    assert (report.findings, len(report.notes)) == ((), 1)
    assert is_printable(report.notes[0])


def test_a_writer_at_work_is_nothing_to_note(store):
    with store.writing(name("new")):
        assert verify(store).notes == ()


CONFIGS = [b"", b"{", b"[]", b'{"a":1,"a":2}', b"\xff", b'"text"']


@pytest.mark.parametrize("config", CONFIGS)
def test_a_configuration_that_is_no_object_is_found(store, config):
    publish(store, "bad", [], config)

    assert only(verify(store)).problem is Problem.CONFIG


def test_a_configuration_of_another_program_may_hold_fractions(store):
    publish(store, "odd", [], json.dumps({"temperature": 0.5}).encode())

    assert verify(store).findings == ()


@pytest.mark.parametrize("content", [b"", b"no tensor file", tensor_blob("w", b"12")[:-1]])
def test_a_tensor_layer_that_is_no_tensor_file_is_found(store, content):
    publish(store, "bad", [of(content, name="w")])

    assert only(verify(store)).problem is Problem.HEADER


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "v"},
        {"name": "w", "dtype": "F32"},
        {"name": "w", "shape": (3,)},
        {"name": "w", "dtype": "\x1b[2J"},
    ],
)
def test_a_tensor_layer_that_says_something_else_than_its_blob_is_found(store, fields):
    publish(store, "bad", [of(tensor_blob("w", b"12"), **fields)])

    finding = only(verify(store))

    assert (finding.problem, finding.models) == (Problem.LAYER, ("bad:latest",))
    assert is_printable(finding.message)


def test_every_model_that_says_something_else_is_named(store):
    for model in ("bad", "worse"):
        publish(store, model, [of(tensor_blob("w", b"12"), name="v")])

    models = [model for finding in verify(store).findings for model in finding.models]

    assert sorted(models) == ["bad:latest", "worse:latest"]


def test_a_tensor_layer_without_a_name_is_found(store):
    layer = tensor_layer("a.weight", TENSORS["a.weight"])
    publish(store, "bad", [of(CONTENT, dtype=layer.dtype)])

    assert Problem.MANIFEST in [finding.problem for finding in verify(store).findings]


def test_two_layers_of_one_name_are_found(store):
    publish(
        store, "bad", [of(b"1", MediaType.JSON, name="x"), of(b"2", MediaType.JSON, name="x")]
    )

    assert only(verify(store)).problem is Problem.MANIFEST


def test_a_file_layer_may_hold_anything(store):
    publish(store, "fine", [of(b"\x00\xff", MediaType.FILE, name="merges.txt")])

    assert verify(store).findings == ()


# M09 of reliability.md.
def test_findings_can_be_printed(store):
    layers = [
        of(b"1", MediaType.JSON, name="\x1b]0;x\x07"),
        of(b"2", MediaType.JSON, name="\x1b]0;x\x07"),
    ]
    publish(store, "bad", [*layers, of(b"no tensor", name="\u202ebad")])

    findings = verify(store).findings

    assert len(findings) == 2
    assert all(is_printable(finding.message) for finding in findings)


class Unreadable(FileSystem):
    """Fails to read one file, as a disk with a bad sector does."""

    broken = None

    def read(self, file, size, offset):
        if file.path.name == self.broken:
            raise OSError(errno.EIO, "input/output error", str(file.path))
        return super().read(file, size, offset)

    def read_into(self, file, buffer, offset):
        if file.path.name == self.broken:
            raise OSError(errno.EIO, "input/output error", str(file.path))
        return super().read_into(file, buffer, offset)


def test_a_blob_that_cannot_be_read_is_found_and_the_others_are_verified(tmp_path):
    with Store(tmp_path, Unreadable()) as store:
        create(store)
        store.fs.broken = DIGEST.file_name
        next(path for path in store.layout.blobs.iterdir() if path != path_of(store)).unlink()

        findings = {finding.problem: finding for finding in verify(store).findings}

    assert sorted(findings) == [Problem.MISSING, Problem.UNREADABLE]
    message = findings[Problem.UNREADABLE].message
    assert message == "(`a.weight`) cannot be read: input/output error"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_want_of_descriptors_or_memory_is_no_damage(store, monkeypatch, number):
    def poor(_, path):
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "open", poor)
        for look in (lambda: verify(store), lambda: examine(store, DIGEST)):
            with pytest.raises(OSError) as caught:  # noqa: PT011 - its number tells
                look()
            assert caught.value.errno == number


class Interrupted(FileSystem):
    """A signal comes while one blob is read, and another, which is large."""

    def __init__(self, first):
        self.first, self.begun, self.reads = first, threading.Event(), 0

    def read_into(self, file, buffer, offset):
        if file.path.name == self.first:
            self.begun.wait(10)
            raise KeyboardInterrupt
        self.begun.set()
        self.reads += 1
        time.sleep(0.01)
        return super().read_into(file, buffer[:1], offset)


def test_a_signal_does_not_wait_for_a_large_blob(tmp_path):
    with Store(tmp_path) as store:
        create(store)
        first, *rest = sorted(store.layout.blobs.iterdir())
        large = rest[0].stat().st_size
    with Store(tmp_path, Interrupted(first.name)) as store:
        with pytest.raises(KeyboardInterrupt):
            verify(store, threads=2)

        assert 0 < store.fs.reads < large


def test_a_manifest_that_cannot_be_read_is_found_and_the_others_are_verified(tmp_path):
    with Store(tmp_path, Unreadable()) as store:
        create(store)
        create(store, "m:bad")
        store.fs.broken = "bad"

        finding = only(verify(store))

    path = "manifests/registry.ollama.ai/library/m/bad"
    assert (finding.problem, finding.subject) == (Problem.UNREADABLE, path)
    assert finding.message == "cannot be read: input/output error"


@pytest.mark.parametrize(
    ("media_type", "what"),
    [
        (MediaType.QUALITY, "report of quality"),
        (MediaType.TEMPLATE, "template"),
        (MediaType.MODEL, "model"),
        ("application/vnd.ollama.image.\x1b[2J", "application/vnd.ollama.image.\\x1b[2J"),
    ],
)
def test_a_layer_without_a_name_is_told_by_what_it_is(store, media_type, what):
    ref = ref_of(b"gone")
    config = Layer(CONFIG_MEDIA_TYPE, ref_of(CONFIG).digest, len(CONFIG))
    with store.writing(name("n")) as writer:
        writer.put(CONFIG)
        writer.put(b"gone")
        layer = Layer(media_type, ref.digest, ref.size)
        writer.publish(name("n"), Manifest(config, (layer,)))
    store.blobs.path(ref.digest).unlink()

    assert only(verify(store)).message == f"({what}) is missing"


def test_a_configuration_that_is_too_large_is_found(store, monkeypatch):
    monkeypatch.setattr(limits, "CONFIG_BYTES", len(CONFIG) - 1)

    assert [finding.problem for finding in verify(store).findings] == [Problem.CONFIG]
