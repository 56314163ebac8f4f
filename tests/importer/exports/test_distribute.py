"""An export that a cluster fills has the bytes of one that this machine writes."""

from __future__ import annotations

import fcntl
import os

import pytest

from importer.engine.cluster import batches as batching
from importer.engine.cluster import reports
from importer.engine.cluster.fitness import View, look
from importer.events import Distributed, Planned, Wrote
from importer.exports import distribute
from importer.exports.distribute import Shared
from importer.exports.export import export_model
from importer.exports.fill import Filler
from importer.recipes.options import parse_options
from importer.sources.file import find
from store import ModelName, Store
from store.errors import InputError, IntegrityError, NetworkError, UsageError
from tests.importer.builders import MODELS, REPOSITORY, create, model
from tests.importer.exports.exporting import export, planned, tree
from tests.importer.exports.gguf_checkpoints import checkpoint

FIXTURES = REPOSITORY / "fixtures"


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


@pytest.fixture
def source(tmp_path):
    tensors = {f"w{i}.weight": ("F32", (64, 64 + i)) for i in range(9)}
    return model(tmp_path / "in", {**tensors, "empty": ("F32", (0, 7))}, tokenizer__model=b"x")


def both(store, tmp_path, address, to, **asked):
    """Export alone and on the cluster; return the two trees, or files."""
    places = tmp_path / "alone", tmp_path / "cluster"
    for place, scheduler in zip(places, (None, address), strict=True):
        export(store, place, to, scheduler=scheduler, **asked)
    assert {path.name for path in tmp_path.iterdir()} <= {"in", "store", "alone", "cluster"}
    return [tree(place) if place.is_dir() else place.read_bytes() for place in places]


@pytest.mark.parametrize("fixture", ["tiny-moe", "tiny-pipeline"])
@pytest.mark.parametrize("kinds", [(None, None), ("int4", "BF16"), ("nvfp4", None)])
def test_a_stored_model_comes_out_alike(address, store, tmp_path, fixture, kinds):
    stored, dtype = kinds
    create(store, MODELS / fixture, recipe=parse_options(stored))

    alone, made = both(store, tmp_path, address, "hf", dtype=dtype, shard_size=40_000)

    assert made == alone


@pytest.mark.parametrize(
    ("path", "to", "asked"),
    [
        ("models/tiny-llama", "mlx", {"q": "int4"}),
        ("models/tiny-llama", "uqff", {"q": "afq4,q8_0"}),
        ("models/tiny-llama", "uqff", {"q": "hqq4"}),
        ("quantized/mo-nvfp4", "hf", {}),
        ("quantized/ct-int4-channel", "hf", {"dtype": "F32"}),
        ("packed/gptq-4-act-order", "hf", {"dtype": "F16"}),
        ("onnx/external-one.onnx", "hf", {}),
        ("uqff/qwen2-afq4", "hf", {}),
    ],
)
def test_every_kind_of_source_and_format_can_be_sent(address, tmp_path, path, to, asked):
    alone, made = both(None, tmp_path, address, to, source=FIXTURES / path, **asked)

    assert made == alone


@pytest.mark.parametrize(
    ("name", "asked"),
    [("qwen2moe", {"q": "q4_k_m"}), ("llama", {"q": "q8_0", "shard_size": 30_000})],
)
def test_gguf_comes_out_alike(address, tmp_path, name, asked):
    source = checkpoint(tmp_path / "in", name)

    alone, made = both(None, tmp_path, address, "gguf", source=source, **asked)

    assert made == alone


def test_files_that_stand_nowhere_are_made_by_workers(address, store, tmp_path):
    """The configuration and the tokenizer of a GGUF file, which it has inside of it."""
    source = tmp_path / "in" / "m.gguf"
    export(None, source, "gguf", source=checkpoint(tmp_path / "in" / "m", "llama"), q="f16")
    create(store, source, unpack=True)
    kept = store.catalog.get(ModelName.parse("m")).parse().layers

    alone, made = both(None, tmp_path, address, "hf", source=source)

    assert len(kept) > len(alone) > 1
    assert made == alone


@pytest.mark.parametrize("smallest", [1, 20_000])
def test_how_jobs_are_batched_changes_no_byte(address, tmp_path, source, smallest, monkeypatch):
    monkeypatch.setattr(batching, "SMALLEST", smallest)

    alone, made = both(None, tmp_path, address, "hf", source=source)

    assert made == alone


def test_every_byte_is_told_once(address, tmp_path, source, monkeypatch):
    monkeypatch.setattr(reports, "_INTERVAL", 0)
    monkeypatch.setattr(reports, "_REPORTS", 10**9)
    heard = []
    request, plan = planned(None, tmp_path / "out", source=source, scheduler=address)

    export_model(request, plan, None, heard.append)

    (total,) = [event for event in heard if isinstance(event, Planned)]
    heads = sum(len(f.head) + sum(len(d) for _, d in f.fixed) for f in plan.write.files)
    assert sum(e.nbytes for e in heard if isinstance(e, Wrote)) == total.nbytes - heads
    assert Distributed(2, 4) in heard


def test_a_job_that_runs_twice_or_late_changes_nothing(address, tmp_path, source, monkeypatch):
    """As when a worker is thought dead, and goes on."""
    fill = Filler.__call__

    def twice(self, job):
        fill(self, job)
        fill(self, job)

    monkeypatch.setattr(Filler, "__call__", twice)

    alone, made = both(None, tmp_path, address, "hf", source=source)

    assert made == alone


def test_a_worker_opens_files_for_writing_alone_and_syncs_what_it_wrote(
    address, tmp_path, source, monkeypatch
):
    """A page that was read goes back to an NFS server whole, over what others wrote to it."""
    modes, synced = set(), set()
    sync = Shared.sync

    class Watched(Shared):
        def open(self, path):
            file = super().open(path)
            modes.add(fcntl.fcntl(file.descriptor, fcntl.F_GETFL) & os.O_ACCMODE)
            return file

        def sync(self, path):
            synced.add(path)
            sync(self, path)

    monkeypatch.setattr(distribute, "Shared", Watched)

    export(None, tmp_path / "out", source=source, scheduler=address)

    assert modes == {os.O_WRONLY}
    assert synced == {"model.safetensors", "config.json", "tokenizer.model"} & synced
    assert "model.safetensors" in synced


def test_files_have_their_size_before_a_worker_sees_them(
    address, tmp_path, source, monkeypatch
):
    seen = []

    def look_first(plan, directory, *_):
        seen.extend((directory.path / f.path).stat().st_size - f.nbytes for f in plan.files)
        raise KeyboardInterrupt

    monkeypatch.setattr(distribute, "fill_on_cluster", look_first)

    with pytest.raises(KeyboardInterrupt):
        export(None, tmp_path / "out", source=source, scheduler=address)

    assert seen
    assert set(seen) == {0}


def test_a_rotten_blob_and_a_value_that_does_not_fit_are_the_errors_of_one_machine(
    address, store, tmp_path
):
    create(store, MODELS / "tiny-llama")
    layer = store.catalog.get(ModelName.parse("m")).parse().layers[3]
    path = store.blobs.path(layer.digest)
    content = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    values = {"model.layers.0.mlp.up_proj.weight": ("F32", (64, 64), b"\xff" * 64 * 64 * 4)}
    bad = model(tmp_path / "in", values)

    with pytest.raises(IntegrityError, match=str(layer.digest)):
        export(store, tmp_path / "out", scheduler=address)
    with pytest.raises(InputError) as caught:
        export(None, tmp_path / "out", "mlx", source=bad, q="int4", scheduler=address)

    assert caught.value.code == "E_QUANT_NONFINITE"
    assert {one.name for one in tmp_path.iterdir()} == {"in", "store"}


def test_an_interrupt_leaves_nothing(address, tmp_path, source, monkeypatch):
    monkeypatch.setattr(batching, "SMALLEST", 1)

    def interrupt(event):
        if isinstance(event, Wrote):
            raise KeyboardInterrupt

    request, plan = planned(None, tmp_path / "out", source=source, scheduler=address)
    with pytest.raises(KeyboardInterrupt):
        export_model(request, plan, None, interrupt)

    assert [one.name for one in tmp_path.iterdir()] == ["in"]


def test_without_a_scheduler_nothing_is_left(tmp_path, source):
    with pytest.raises(NetworkError, match="no scheduler answers"):
        export(None, tmp_path / "out", source=source, scheduler="tcp://127.0.0.1:1")

    assert [one.name for one in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"root": "/nowhere"}, "the directory `/nowhere` is not there"),
        ({"folder": "other"}, "is another directory there, without `other`"),
        ({"files": [("/nowhere/weights", 5, 0)]}, "No such file"),
    ],
)
def test_a_worker_must_see_the_very_directory_and_the_source(tmp_path, change, expected):
    (tmp_path / "folder").mkdir()
    (tmp_path / "weights").write_bytes(b"12345")
    view = View.of_directory(tmp_path / "folder", [find("weights", tmp_path / "weights")])

    assert not look(*view)["problem"]
    assert expected in look(*view._replace(**change))["problem"]


def test_a_refused_worker_is_named_and_nothing_is_left(address, tmp_path, source, monkeypatch):
    monkeypatch.setattr(
        View, "of_directory", lambda *_: View("directory", "/nowhere", "x", ["x"], [])
    )

    with pytest.raises(UsageError, match=r"worker inproc:.*nothing was begun") as caught:
        export(None, tmp_path / "out", source=source, scheduler=address)

    assert caught.value.code == "E_CLUSTER_PATH"
    assert [one.name for one in tmp_path.iterdir()] == ["in"]
