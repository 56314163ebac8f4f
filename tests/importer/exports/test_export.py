"""An export is whole or not there, the same for any number of threads, and never rotten."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from importer.exports.export import export_model
from importer.recipes.options import parse_options
from store import ModelName, Store
from store.errors import (
    InputError,
    IntegrityError,
    NoSpaceError,
    StorageError,
    UsageError,
)
from store.fs import FileSystem
from store.status import Free
from tests.cli.runner import argv, environment
from tests.importer.builders import MODELS, create, framed, model, write
from tests.importer.exports.exporting import arrays, export, nothing_else, planned, tree

MANY = {f"model.layers.{i}.mlp.up_proj.weight": ("BF16", (64, 128)) for i in range(8)}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def rot(store, digest, offset):
    """Flip a bit of a blob without a trace: size, times and inode stay."""
    path = store.blobs.path(digest)
    seen = path.stat()
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    path.chmod(0o444)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


@pytest.mark.parametrize("asked", [None, "int4"])
def test_the_number_of_threads_changes_no_byte(store, tmp_path, asked):
    create(store, MODELS / "tiny-moe", recipe=parse_options(asked))

    for threads in (1, 2, 7):
        export(store, tmp_path / str(threads), threads=threads, shard_size=40_000)

    assert tree(tmp_path / "1") == tree(tmp_path / "2") == tree(tmp_path / "7")


@pytest.mark.parametrize(("asked", "stacked"), [(None, True), ("int4", False)])
def test_a_rotten_blob_of_any_kind_is_named_and_nothing_published(
    store, tmp_path, asked, stacked
):
    """Every layer in turn: a bit of the header, of the first bytes, of the last."""
    create(store, MODELS / "tiny-moe", recipe=parse_options(asked, stacked=stacked))
    manifest = store.catalog.get(ModelName.parse("m")).parse()
    layers = (manifest.config, *manifest.layers)
    for layer in layers:
        for offset in {0, 9, layer.size // 2, layer.size - 1}:
            rot(store, layer.digest, offset)
            with pytest.raises(IntegrityError) as caught:
                export(store, tmp_path / "out")
            assert str(layer.digest) in str(caught.value)
            assert nothing_else(tmp_path, "store")
            rot(store, layer.digest, offset)
    export(store, tmp_path / "out")


def test_a_blob_that_is_gone_or_short_is_named(store, tmp_path):
    create(store, MODELS / "tiny-llama")
    layer = store.catalog.get(ModelName.parse("m")).parse().layers[3]
    path = store.blobs.path(layer.digest)
    content = path.read_bytes()
    path.unlink()
    for short in (None, content[:-1]):
        if short is not None:
            path.write_bytes(short)
        with pytest.raises(IntegrityError, match=str(layer.digest)):
            export(store, tmp_path / "out")
    assert nothing_else(tmp_path, "store")


def test_a_large_blob_with_many_tensors_is_shared_by_threads(store, tmp_path, monkeypatch):
    create(store, MODELS / "tiny-moe")
    export(store, tmp_path / "alone")
    monkeypatch.setattr("importer.exports.jobs._SHARED", 100)

    export(store, tmp_path / "shared")

    assert tree(tmp_path / "alone") == tree(tmp_path / "shared")
    group = store.catalog.get(ModelName.parse("m")).parse().layers
    big = max(group, key=lambda layer: layer.size)
    rot(store, big.digest, big.size - 1)
    with pytest.raises(IntegrityError, match=str(big.digest)):
        export(store, tmp_path / "out")


def test_a_source_is_exported_without_a_store(tmp_path):
    source = model(tmp_path / "in", MANY)

    export(None, tmp_path / "out", source=source)

    assert tree(tmp_path / "out") == tree(source) | {
        "model.safetensors": tree(tmp_path / "out")["model.safetensors"]
    }
    assert arrays(tmp_path / "out") == arrays(source)


def test_a_source_that_changes_meanwhile_is_not_published(tmp_path):
    source = model(tmp_path / "in", MANY)
    request, plan = planned(None, tmp_path / "out", source=source)
    os.utime(source / "model.safetensors", ns=(1, 1))

    with pytest.raises(InputError) as caught:
        export_model(request, plan, None)

    assert caught.value.code == "E_SOURCE_CHANGED"
    assert nothing_else(tmp_path, "in")


def test_no_space_is_said_before_the_first_byte(store, tmp_path, monkeypatch):
    create(store, MODELS / "tiny-llama")
    request, plan = planned(store, tmp_path / "out")
    monkeypatch.setattr(FileSystem, "free", lambda *_: Free(1000, 4096, None))
    with pytest.raises(NoSpaceError, match="the export needs up to"):
        export_model(request, plan, store)

    assert nothing_else(tmp_path, "store")


def test_an_empty_directory_is_taken_and_parents_are_made(store, tmp_path):
    create(store, MODELS / "tiny-llama")
    (tmp_path / "empty").mkdir()

    export(store, tmp_path / "empty")
    export(store, tmp_path / "a" / "b" / "c")

    assert tree(tmp_path / "empty") == tree(tmp_path / "a" / "b" / "c")
    assert nothing_else(tmp_path / "a" / "b", "c")


def test_a_link_to_an_empty_directory_is_followed(store, tmp_path):
    create(store, MODELS / "tiny-llama")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")

    export(store, tmp_path / "link")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "config.json").is_file()


def _file(place):
    place.write_text("mine")


def _full(place):
    place.mkdir()
    (place / ".hidden").write_text("mine")


def _fifo(place):
    os.mkfifo(place)


def _socket(place):
    with socket.socket(socket.AF_UNIX) as one:
        os.chdir(place.parent)
        one.bind(place.name)


def _link_to_file(place):
    (place.parent / "file").write_text("mine")
    place.symlink_to("file")


def _loop(place):
    place.symlink_to(place.name)


def _below_a_file(place):
    place.parent.rmdir()
    place.parent.write_text("mine")


TAKEN = (_file, _full, _fifo, _socket, _link_to_file, _loop, _below_a_file)


@pytest.mark.parametrize("there", TAKEN)
def test_what_is_there_is_never_touched(store, tmp_path, there, monkeypatch):
    monkeypatch.chdir(tmp_path)
    create(store, model(tmp_path / "in"))
    place = tmp_path / "p" / "out"
    place.parent.mkdir()
    there(place)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises((UsageError, StorageError)) as caught:
        planned(store, place)

    assert caught.value.code == "E_EXPORT_PLACE"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("inside", ["store", "store/blobs/x", "store/new/x", "in/x", "."])
def test_a_place_inside_of_store_or_source_is_refused(store, tmp_path, inside):
    source = model(tmp_path / "in")
    create(store, source)

    for asked in ({}, {"source": source}):
        if asked or not inside.startswith("in"):
            with pytest.raises(UsageError):
                planned(store, tmp_path / inside, **asked)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_export_leaves_no_place_and_the_next_one_cleans_up(tmp_path, number):
    source = model(tmp_path / "in", {f"w{i}.weight": ("F32", (512, 512)) for i in range(12)})
    words = ("export", source, tmp_path / "p" / "out", "--to", "hf", "--jobs", "1")
    (tmp_path / "p").mkdir()
    store = tmp_path / "store"
    for wait in (0.0, 0.01):
        process = subprocess.Popen(
            argv(*words),
            env=environment(store),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < deadline:
            if any((tmp_path / "p").iterdir()):
                time.sleep(wait)
                break
            time.sleep(0.001)
        process.send_signal(number)
        process.wait()
        left = list((tmp_path / "p").iterdir())
        if tmp_path / "p" / "out" in left:  # it was whole before the signal came
            assert [path.name for path in left] == ["out"]
            assert arrays(tmp_path / "p" / "out") == arrays(source)
            shutil.rmtree(tmp_path / "p" / "out")
            continue
        assert not (tmp_path / "p" / "out").exists()
        assert number == signal.SIGKILL or left == []
    done = subprocess.run(
        argv(*words), env=environment(store), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert nothing_else(tmp_path / "p", "out")
    assert arrays(tmp_path / "p" / "out") == arrays(source)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process had at most")
def test_memory_does_not_grow_with_the_model(tmp_path):
    """512 MB of one tensor, which becomes another dtype."""
    entry = {"dtype": "F32", "shape": [1 << 17, 1024], "data_offsets": [0, 1 << 29]}
    header = framed({"w.weight": entry})
    write(tmp_path / "in", {"model.safetensors": header})
    os.truncate(tmp_path / "in" / "model.safetensors", len(header) + (1 << 29))
    code = (  # not ru_maxrss, which begins with what the parent had
        "from pathlib import Path; from cli.main import run\n"
        "try: run()\n"
        "finally:\n"
        "    status = Path('/proc/self/status').read_text()\n"
        "    print(status.partition('VmHWM:')[2].split()[0])"
    )
    words = (tmp_path / "in", tmp_path / "out", "--to", "hf", "--dtype", "bf16", "--no-fsync")
    done = subprocess.run(
        [sys.executable, "-c", code, "export", *map(str, words)],
        env=environment(tmp_path / "store"),
        capture_output=True,
        check=True,
        text=True,
    )
    assert int(done.stdout.splitlines()[-1]) << 10 < 250 << 20
