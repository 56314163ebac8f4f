"""Stores that can be read and not written: reading works, writing fails and changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.check_store import check_store, snapshot
from tests.cli.runner import argv, environment, run, spawn
from tests.importer.builders import MODELS
from tests.soak import disks

READING = [["list"], ["show", "kept"], ["show", "kept", "--tensors"], ["verify"]]
WRITING = [
    ["create", "x", MODELS / "tiny-llama"],
    ["create", "kept", MODELS / "tiny-llama"],
    ["cp", "kept", "y"],
    ["rm", "kept"],
    ["gc", "--yes"],
]
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")


def why_not_nobody():
    """Why no command can be run as another user, or None."""
    if os.geteuid() != 0:
        return "only root can become another user"
    if shutil.which("setpriv") is None:
        return "setpriv is not installed"
    done = subprocess.run(
        [*AS_NOBODY, *argv("--version")],
        env=environment(),
        capture_output=True,
        check=False,
    )
    return None if done.returncode == 0 else "another user cannot read this checkout"


@pytest.fixture(scope="module")
def nobody():
    """Options that let a command run as another user."""
    if why := why_not_nobody():
        pytest.skip(why)
    return {"prefix": AS_NOBODY, "env": {"HOME": "/nonexistent"}}


@pytest.fixture
def foreign(filled_store):
    """A store of root's that anybody may read but for its origins, where anybody may look."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        store = Path(shutil.copytree(filled_store, Path(place) / "store"))
        for path in (store, *store.rglob("*")):
            if "origins" not in path.parts:
                path.chmod(0o755 if path.is_dir() else 0o644)
        yield store


@pytest.fixture
def mounted(filled):
    """A store behind a read-only mount."""
    if why := disks.why_no_mount():
        pytest.skip(why)
    place = filled.parent / "mounted"
    place.mkdir()
    disks.shell("mount", "--bind", str(filled), str(place))
    try:
        disks.shell("mount", "-o", "remount,bind,ro", str(place))
        yield place
    finally:
        disks.shell("umount", str(place))


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_read_only_mount_can_be_read(mounted, words):
    run(*words, store=mounted).succeeded()


@pytest.mark.parametrize("words", WRITING, ids=lambda words: " ".join(map(str, words[:2])))
def test_a_read_only_mount_refuses_to_be_written(mounted, words):
    before = snapshot(mounted)

    text = run(*words, store=mounted).failed(8)

    assert "Read-only file system (EROFS)" in text
    assert snapshot(mounted) == before


def test_a_damaged_blob_is_found_on_a_read_only_mount(filled, mounted):
    blob = next(iter((filled / "blobs").iterdir()))
    blob.chmod(0o600)
    blob.write_bytes(b"")

    assert run("verify", store=mounted).clean().code == 5


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_the_store_of_another_user_can_be_read(foreign, nobody, words):
    before = snapshot(foreign)

    spawn(*words, store=foreign, **nobody).succeeded()

    assert snapshot(foreign) == before


@pytest.mark.parametrize("words", WRITING, ids=lambda words: " ".join(map(str, words[:2])))
def test_the_store_of_another_user_refuses_to_be_written(foreign, nobody, words):
    before = snapshot(foreign)

    text = spawn(*words, store=foreign, **nobody).failed(8)

    assert "Permission denied (EACCES)" in text
    assert snapshot(foreign) == before


@pytest.mark.parametrize(
    "words", [["list"], ["verify"], WRITING[0], ["gc", "--yes"]], ids=lambda words: words[0]
)
def test_a_private_store_of_another_user_is_not_entered(foreign, nobody, words):
    foreign.chmod(0o700)

    assert "Permission denied" in spawn(*words, store=foreign, **nobody).failed(8)
    assert check_store(foreign) == []


@pytest.mark.parametrize(
    "place", ["blobs", "manifests", "tmp", "locks", "quarantine", "origins"]
)
def test_one_directory_that_cannot_be_written(filled, nobody, place):
    with tempfile.TemporaryDirectory() as outside:
        os.chmod(outside, 0o755)
        store = Path(shutil.copytree(filled, Path(outside) / "store"))
        for path in (store, *store.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        for path in (store / "origins").iterdir():
            path.unlink()  # what is noted already is not written again
        for path in (store / place, *(store / place).rglob("*")):
            if path.is_dir():
                path.chmod(0o555)

        outcome = spawn("create", "x", MODELS / "tiny-llama", store=store, **nobody)

        assert outcome.clean().code == (0 if place in {"locks", "quarantine"} else 8)
        assert list((store / "tmp").iterdir()) == []
        assert check_store(store) == []
        spawn("verify", store=store, **nobody).succeeded()
