"""The judge is judged: it accepts a good store and sees each kind of damage."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import check_store as judge
from tests.check_store import check_store, manifest_digest, manifest_path, snapshot

NAME = "model.norm.weight"
GROUP = "model.layers.1.mlp.experts"


def blob_name(content):
    return f"sha256-{hashlib.sha256(content).hexdigest()}"


def tensor_blob(header, data, *, pad=True):
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8) if pad else b""
    return len(text).to_bytes(8, "little") + text + data


def entry(begin, end, dtype="U8"):
    return {"dtype": dtype, "shape": [end - begin], "data_offsets": [begin, end]}


def plain_blob():
    return tensor_blob({NAME: entry(0, 8)}, b"12345678")


def quantized_group_blob():
    """Two members; in the file the scale comes last, in the header it sorts first."""
    header = {
        "__metadata__": {"group_size": "32", "quant_type": "int4"},
        f"{GROUP}.0.up.weight": entry(0, 16),
        f"{GROUP}.0.up.weight.bias": entry(18, 20),
        f"{GROUP}.0.up.weight.scale": entry(16, 18),
        f"{GROUP}.1.up.weight": entry(20, 24),
    }
    return tensor_blob(header, bytes(24))


class Store:
    """A store made by hand."""

    def __init__(self, root):
        self.root = root
        for name in ("blobs", "manifests", "tmp", "quarantine", "locks", "origins"):
            (root / name).mkdir(parents=True)

    def put(self, content):
        path = self.root / "blobs" / blob_name(content)
        path.write_bytes(content)
        return path

    def layer(self, content, media_type="application/vnd.ollama.image.json", **fields):
        self.put(content)
        digest = blob_name(content).replace("-", ":")
        return {"mediaType": media_type, "digest": digest, "size": len(content), **fields}

    def publish(self, name, *layers):
        path = manifest_path(self.root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        config = self.layer(b"{}")
        path.write_text(json.dumps({"config": config, "layers": layers}) + "\n")
        return path

    def tensor(self, content, name=NAME):
        return self.layer(content, judge.TENSOR, name=name)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store")
    store.publish(
        "x",
        store.tensor(plain_blob()),
        store.tensor(quantized_group_blob(), GROUP),
        store.layer(b'{"a":1}', name="config.json"),
    )
    return store


def only_violation(violations):
    assert len(violations) == 1, violations
    return violations[0]


def test_a_good_store_has_no_violations(store):
    digest = manifest_digest(store.root, "x")

    assert check_store(store.root, reported={"x": digest}, after_gc=True) == []


def test_a_store_that_nobody_wrote_to_yet_is_good(tmp_path):
    assert check_store(tmp_path / "nothing", after_gc=True) == []


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("x", "registry.ollama.ai/library/x/latest"),
        ("x:v1", "registry.ollama.ai/library/x/v1"),
        ("team/x", "registry.ollama.ai/team/x/latest"),
        ("host:5000/team/x:v1", "host:5000/team/x/v1"),
    ],
)
def test_a_short_name_is_looked_for_in_its_place(name, path):
    assert manifest_path("s", name) == Path("s/manifests", path)


def test_a_flipped_bit_is_seen(store):
    content = bytearray(plain_blob())
    path = store.put(bytes(content))
    content[-1] ^= 1
    path.write_bytes(content)

    assert "hashes to" in only_violation(check_store(store.root))


def test_a_blob_of_another_length_is_seen(store):
    path = store.put(plain_blob())
    path.write_bytes(plain_blob()[:-1])

    found = check_store(store.root)

    nbytes = len(plain_blob())
    assert any(f"has {nbytes - 1} bytes, expected {nbytes}" in line for line in found)
    assert any("hashes to" in violation for violation in found)


def test_a_missing_blob_is_seen(store):
    store.put(plain_blob()).unlink()

    assert "is missing" in only_violation(check_store(store.root))


@pytest.mark.parametrize("kind", ["directory", "symlink", "fifo"])
def test_a_blob_that_is_no_regular_file_is_seen(store, kind):
    path = store.root / "blobs" / f"sha256-{'0' * 64}"
    if kind == "directory":
        path.mkdir()
    elif kind == "symlink":
        path.symlink_to(store.put(plain_blob()))
    else:
        os.mkfifo(path)

    assert "is not a regular file" in only_violation(check_store(store.root))


@pytest.mark.parametrize("name", [f"sha256-{'A' * 64}", f"sha256-{'0' * 64}-partial", ".x"])
def test_a_foreign_file_among_the_blobs_is_seen(store, name):
    (store.root / "blobs" / name).write_bytes(b"")

    assert "does not belong" in only_violation(check_store(store.root))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"config":{}}',
        b'{"config":{"digest":"sha256:0","size":1},"layers":[]}',
        b'{"layers":[],"layers":[]}',
    ],
)
def test_an_unreadable_manifest_is_seen(store, content):
    store.publish("torn").write_bytes(content)

    assert "is not readable" in only_violation(check_store(store.root))


@pytest.mark.parametrize("path", ["a", "a/b/c", "a/b/c/d/e"])
def test_a_manifest_at_the_wrong_depth_is_seen(store, path):
    manifest = manifest_path(store.root, "x").read_bytes()
    place = store.root / "manifests" / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(manifest)

    assert any("at depth" in violation for violation in check_store(store.root))


def test_a_manifest_that_is_a_symlink_is_seen(store):
    path = manifest_path(store.root, "y")
    path.parent.mkdir()
    path.symlink_to(manifest_path(store.root, "x"))

    assert "at depth 4" in only_violation(check_store(store.root))


def test_a_lost_name_is_seen(store):
    digest = manifest_digest(store.root, "x")

    violation = only_violation(check_store(store.root, reported={"x": digest, "y": digest}))

    assert "y was reported" in violation


def test_a_name_with_another_manifest_than_reported_is_seen(store):
    digest = manifest_digest(store.root, "x")
    store.publish("x")

    assert "x was reported" in only_violation(check_store(store.root, reported={"x": digest}))


@pytest.mark.parametrize("path", ["tmp/host.boot.1.aa", "quarantine/sha256-0.1"])
def test_litter_counts_only_after_gc(store, path):
    (store.root / path).mkdir()

    assert check_store(store.root) == []
    assert "left by gc" in only_violation(check_store(store.root, after_gc=True))


def test_an_unreferenced_blob_counts_only_after_gc(store):
    store.put(b"nobody's")

    assert check_store(store.root) == []
    assert "no manifest names it" in only_violation(check_store(store.root, after_gc=True))


MALFORMED = {
    "too short": b"1234567",
    "length past the end": (1 << 40).to_bytes(8, "little") + b"{}      ",
    "length no multiple of 8": tensor_blob({NAME: entry(0, 1)}, b"1", pad=False),
    "no JSON": (8).to_bytes(8, "little") + b"notjson ",
    "a list": (8).to_bytes(8, "little") + b"[]      ",
    "no tensor": tensor_blob({}, b""),
    "duplicate keys": (16).to_bytes(8, "little") + b'{"a":{},"a":{}} ',
    "unsorted keys": tensor_blob({f"{NAME}.scale": entry(1, 2), NAME: entry(0, 1)}, b"12"),
    "metadata not first": tensor_blob({"a": entry(0, 1), "__metadata__": {}}, b"1"),
    "unsorted metadata": tensor_blob(
        {"__metadata__": {"b": "1", "a": "1"}, NAME: entry(0, 1)}, b"1"
    ),
    "another name": tensor_blob({"other.weight": entry(0, 1)}, b"1"),
    "a name that goes on": tensor_blob({f"{NAME}s": entry(0, 1)}, b"1"),
    "gap": tensor_blob({NAME: entry(0, 1), f"{NAME}.scale": entry(2, 3)}, b"123"),
    "overlap": tensor_blob({NAME: entry(0, 2), f"{NAME}.scale": entry(1, 3)}, b"123"),
    "late start": tensor_blob({NAME: entry(1, 2)}, b"12"),
    "data left over": tensor_blob({NAME: entry(0, 1)}, b"12"),
    "data cut off": tensor_blob({NAME: entry(0, 3)}, b"12"),
    "shape of another size": tensor_blob({NAME: entry(0, 2, "F32")}, b"12"),
    "unknown dtype": tensor_blob({NAME: entry(0, 2, "Q4")}, b"12"),
    "no offsets": tensor_blob({NAME: {"dtype": "U8", "shape": [1]}}, b"1"),
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_tensor_blob_is_seen(store, content):
    store.publish("bad", store.tensor(content))

    assert "is malformed" in only_violation(check_store(store.root))


def test_only_tensor_layers_must_be_tensors(store):
    store.publish("fine", store.layer(b"1234567", name="tokenizer.model"))

    assert check_store(store.root) == []


def test_every_violation_is_reported(store):
    store.put(plain_blob()).unlink()
    (store.root / "blobs" / "x").write_bytes(b"")
    store.publish("torn").write_bytes(b"")

    assert len(check_store(store.root)) == 3


def touch(path):
    os.utime(path, ns=(1, 1))


def rewrite(path):
    status = path.stat()
    path.write_bytes(b"X" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [touch, rewrite, lambda path: path.chmod(0o400), os.unlink],
    ids=["mtime", "content", "mode", "gone"],
)
def test_a_snapshot_sees_a_change(store, change):
    before = snapshot(store.root)
    assert snapshot(store.root) == before

    change(manifest_path(store.root, "x"))

    assert snapshot(store.root) != before


def test_a_snapshot_does_not_see_locks_and_the_memo(store):
    before = snapshot(store.root)

    (store.root / "locks" / "gate").write_bytes(b"")
    (store.root / "memo.sqlite").write_bytes(b"x")
    (store.root / "memo.sqlite-journal").write_bytes(b"x")

    assert snapshot(store.root) == before


@pytest.mark.parametrize(("damage", "code"), [(False, 0), (True, 1)])
def test_as_a_command_it_exits_1_on_violations(store, damage, code):
    if damage:
        store.put(plain_blob()).unlink()

    ended = subprocess.run(
        [sys.executable, judge.__file__, store.root],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, "is missing" in ended.stdout) == (code, damage)


def test_the_judge_shares_no_code_with_ingot():
    source = Path(judge.__file__).read_text("utf-8")

    assert not any(
        line.split()[1].split(".")[0] in {"store", "importer", "cli"}
        for line in source.splitlines()
        if line.startswith(("import ", "from "))
    )
