"""Sources that change, fail or are not ours to read (reliability.md 3.2, rows D26 to D30)."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shutil
import struct
import subprocess

import pytest

from importer.events import BlobDone
from tests.check_store import check_store, manifest_digest, snapshot
from tests.cli.runner import run, spawn
from tests.importer.builders import MODELS, SMALL, model, safetensors, write


def during_the_import(monkeypatch, do):
    """Do something once, when the first blob is done."""
    todo = [do]

    def listen(event):
        if isinstance(event, BlobDone) and todo:
            todo.pop()()

    monkeypatch.setattr(
        "cli.views.progress.listening", lambda *_: contextlib.nullcontext(listen)
    )


CHANGES = {
    "D26-mtime": lambda path: os.utime(path, ns=(1, 1)),
    "D26-size": lambda path: os.truncate(path, path.stat().st_size + 1),
    "D26-inode": lambda path: (
        shutil.copy2(path, f"{path}.new"),
        os.replace(f"{path}.new", path),
    ),
    "D26-gone": os.unlink,
    "D27": lambda path: os.truncate(path, 20),
}


@pytest.mark.parametrize("row", CHANGES)
def test_a_source_that_changes_during_the_import(filled, tmp_path, monkeypatch, row):
    source = model(tmp_path / "m", {f"{n}.weight": ("F32", (99,)) for n in range(9)})
    during_the_import(monkeypatch, lambda: CHANGES[row](source / "model.safetensors"))
    before = manifest_digest(filled, "kept")

    outcome = run("create", "kept", source, "--jobs", "1", "--json", store=filled)

    assert outcome.clean().error["code"] == "E_SOURCE_CHANGED"
    assert outcome.code == 3
    assert manifest_digest(filled, "kept") == before
    assert list((filled / "tmp").iterdir()) == []
    assert check_store(filled) == []


# Row -> values of one row of weights that are not finite, and the type that is asked for.
NONFINITE = {
    "S64-nan": ((0.0, math.nan, 1.0), "int4"),
    "S64-inf": ((math.inf, -math.inf), "mxfp8"),
    "S64-overflow": ((65520.0, -1e30), "f16"),
}


@pytest.mark.parametrize("row", NONFINITE)
def test_weights_that_their_type_cannot_hold(filled, tmp_path, row):
    values, target = NONFINITE[row]
    bad = [value for value in values if not -65519 < value < 65519]
    data = struct.pack("<64f", *values, *[0.5] * (64 - len(values))) * 32
    source = model(tmp_path / "m", {"bad.weight": ("F32", (32, 64), data)})
    before = manifest_digest(filled, "kept")
    words = ("create", "kept", source, "-q", target)

    outcome = run(*words, "--json", store=filled)

    error = outcome.clean().error
    assert (outcome.code, error["code"]) == (3, "E_QUANT_NONFINITE")
    assert f"`bad.weight` has {32 * len(bad)} values" in error["message"]
    assert manifest_digest(filled, "kept") == before
    assert list((filled / "tmp").iterdir()) == []
    assert check_store(filled) == []
    run(*words, "--allow-nonfinite", store=filled).succeeded()


def test_d28_a_source_inside_the_store(filled):
    source = model(filled / "blobs" / "m")
    before = snapshot(filled)

    outcome = run("create", "x", source, "--json", store=filled)

    assert (outcome.clean().error["code"], outcome.code) == ("E_STORE_OVERLAP", 2)
    assert snapshot(filled) == before


def test_a_single_file_may_lie_beside_the_store(tmp_path):
    # As in `ingot create m ~/model.safetensors` with a store in ~/.models.
    file = write(tmp_path, {"m.safetensors": safetensors({"w": ("F32", (4,))})})

    run("create", "m", file / "m.safetensors", store=tmp_path / "store").succeeded()
    inside = tmp_path / "store" / "blobs" / "m.safetensors"
    inside.write_bytes((tmp_path / "m.safetensors").read_bytes())
    run("create", "n", inside, store=tmp_path / "store").failed(2)


@pytest.mark.parametrize(
    ("place", "words"), [("", ("--init",)), ("store", ()), ("a/b/store", ())]
)
def test_d28_a_store_inside_the_source(tmp_path, place, words):
    source = model(tmp_path / "m")
    before = snapshot(source)

    outcome = run("create", "x", source, *words, store=source / place)

    assert "are inside each other" in outcome.failed(2)
    assert snapshot(source) == before


def test_a_source_that_is_the_store_is_not_a_store(tmp_path):
    source = model(tmp_path / "m")
    before = snapshot(source)

    assert "does not become one" in run("create", "x", source, store=source).failed(2)
    assert snapshot(source) == before


def without_privileges(*words, store):
    """Run the command as a user to whom permissions apply: as root, without its privileges."""
    prefix = ()
    if os.geteuid() == 0:
        lost = "-dac_override,-dac_read_search"
        prefix = ("setpriv", f"--bounding-set={lost}", f"--inh-caps={lost}")
        if (
            shutil.which("setpriv") is None
            or subprocess.run([*prefix, "true"], check=False).returncode
        ):
            pytest.skip("root cannot lose its privileges here")
    return spawn(*words, store=store, prefix=prefix)


@pytest.mark.parametrize("what", ["model.safetensors", "config.json", "sub"])
def test_d29_a_source_that_may_not_be_read(store, tmp_path, what):
    source = model(tmp_path / "m", SMALL, **{"sub/x__txt": "x"})
    (source / what).chmod(0)
    try:
        outcome = without_privileges("create", "x", source, store=store)
    finally:
        (source / what).chmod(0o700)

    text = outcome.failed(8)
    assert f"{what}`: Permission denied (EACCES)" in text
    assert not store.exists()


@pytest.mark.parametrize("command", ["create", "rm", "cp", "gc"])
def test_d29_a_store_that_may_not_be_written(filled, command):
    words = {
        "create": ("kept", MODELS / "tiny-moe"),
        "rm": ("kept",),
        "cp": ("kept", "other"),
        "gc": ("--yes",),
    }[command]
    before = snapshot(filled)
    directories = [filled, *(path for path in filled.rglob("*") if path.is_dir())]
    for directory in directories:
        directory.chmod(0o555)
    try:
        text = without_privileges(command, *words, store=filled).failed(8)
    finally:
        for directory in directories:
            directory.chmod(0o755)

    assert "Permission denied" in text
    assert {p: f[2:4] for p, f in snapshot(filled).items()} == {
        p: f[2:4] for p, f in before.items()
    }


def test_d29_a_store_that_may_only_be_read_is_read(filled):
    for directory in [filled, *(path for path in filled.rglob("*") if path.is_dir())]:
        directory.chmod(0o555)

    without_privileges("list", store=filled).succeeded()
    without_privileges("show", "kept", store=filled).succeeded()
    without_privileges("verify", store=filled).succeeded()


def test_d30_a_device_that_fails_in_the_middle(store, tmp_path, monkeypatch):
    source = model(tmp_path / "m", {"w": ("U8", (4 << 20,), bytes(4 << 20))})
    real = os.preadv

    def fail(descriptor, buffers, offset):
        if offset > 2 << 20:
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", fail)

    text = run("create", "x", source, store=store).failed(8)

    assert "`model.safetensors`: Input/output error at byte" in text
    assert check_store(store) == []
    assert list((store / "tmp").iterdir()) == []
