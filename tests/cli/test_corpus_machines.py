"""Unsafe, foreign and poor machines (reliability.md 3.2, rows M16 to M22 without M21)."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time

import pytest

from tests.check_store import check_store, manifest_path, snapshot
from tests.cli.runner import argv, environment, run, spawn
from tests.importer.builders import MODELS, model

KEPT = MODELS / "tiny-llama"
COMMANDS = [["show", "kept"], ["verify"], ["gc", "--yes"], ["gc", "--dry-run"]]


@pytest.mark.parametrize(
    "place", ["", "blobs", "manifests", "tmp", "quarantine", "locks", "origins"]
)
def test_m16_a_store_that_everybody_can_write(filled, place):
    (filled / place).chmod(0o777)

    text = run("create", "x", KEPT, store=filled).failed(8)

    assert "can be written by everybody" in text
    run("show", "kept", store=filled).succeeded()
    run("create", "x", KEPT, store=filled, INGOT_ALLOW_UNSAFE_STORE="1").succeeded()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_m16_a_store_of_another_user(filled):
    os.chown(filled, 65534, 65534)

    assert "belongs to another user" in run("create", "x", KEPT, store=filled).failed(8)


def test_m17_blobs_on_another_file_system(store):
    shm = "/dev/shm"
    store.mkdir(mode=0o700)
    if not os.access(shm, os.W_OK) or os.stat(shm).st_dev == os.stat(store).st_dev:
        pytest.skip("there is no other file system")
    other = f"{shm}/ingot-test-{os.getpid()}"
    os.mkdir(other)
    (store / "blobs").symlink_to(other)
    try:
        text = run("create", "x", KEPT, store=store).failed(8)
        assert os.listdir(other) == []
    finally:
        shutil.rmtree(other)

    assert "must be on one file system" in text


@pytest.mark.parametrize(
    ("version", "code"), [("2", 4), ("999", 4), ("x", 5), ("", 5), ("-1", 5)]
)
def test_m18_a_store_of_another_version(filled, version, code):
    (filled / "VERSION").write_text(version)
    before = snapshot(filled)

    for command in (*COMMANDS, ["list"], ["create", "x", KEPT], ["rm", "kept"]):
        text = run(*command, store=filled).failed(code)
        assert "VERSION" in text or f"is version {version}" in text
    assert snapshot(filled) == before


@pytest.mark.parametrize("year", [1970, 2100, None], ids=["1970", "2100", "in an hour"])
def test_m19_clocks_decide_nothing(filled, year):
    moment = time.time() + 3600 if year is None else (year - 1970) * 365 * 86400
    doomed = max((filled / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    run("rm", "kept", "moe:v1", store=filled).succeeded()
    for path in filled.rglob("*"):
        os.utime(path, (moment, moment))

    run("list", store=filled).succeeded()
    found = run("gc", "--yes", "--json", store=filled).succeeded().document

    assert doomed.name.replace("-", ":") in [blob["digest"] for blob in found["blobs"]]
    assert check_store(filled, after_gc=True) == []


@pytest.mark.parametrize("mask", [0o000, 0o777, 0o077])
def test_m20_the_umask_takes_nothing_away(store, mask):
    def set_mask():
        os.umask(mask)

    spawn("create", "x", KEPT, store=store, preexec_fn=set_mask).succeeded()

    spawn("show", "x", store=store).succeeded()
    modes = {path.stat().st_mode & 0o777 for path in (store / "blobs").iterdir()}
    assert modes == {0o444}
    assert store.stat().st_mode & 0o777 == 0o700
    spawn("gc", "--yes", store=store, preexec_fn=set_mask).succeeded()


@pytest.mark.parametrize("files", [8, 10, 12, 16, 64])
def test_m22_few_descriptors(filled, tmp_path, files):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    source = model(tmp_path / "m", {f"{n}.weight": ("F32", (9,)) for n in range(40)})
    done = subprocess.run(
        argv("create", "x", source, "--jobs", "8"),
        env=environment(filled),
        capture_output=True,
        preexec_fn=few,
        check=False,
        text=True,
    )

    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in {0, 8}
    assert check_store(filled) == []
    assert manifest_path(filled, "x").exists() == (done.returncode == 0)
