"""What was damaged is made again from its source, to the bit; what cannot be is told."""

from __future__ import annotations

import errno
import functools
import json
import os
import shlex
import shutil

import pytest

import importer.engine.write
import importer.verification.rebuild
import importer.verification.repair
from cli.views.remake import advice, again_command, helping_command
from importer.events import BlobDone, Planned
from importer.recipes.options import parse_options
from importer.sources import file as source_file
from importer.verification.repair import repair as repair_store
from store import Digest, MediaType, ModelName, Store
from store.errors import NoSpaceError, StorageError
from store.findings import Problem
from store.fs import FileSystem
from store.verify import verify
from tests.check_store import check_store, snapshot
from tests.cli.runner import run
from tests.importer.builders import (
    FIXTURES,
    MODELS,
    create,
    handmade,
    manifest_bytes,
    model,
    safetensors,
    tensor_layer,
    write,
)
from tests.importer.damage import DAMAGES, become_directory, blob_of, cut, flip, lose

TENSORS = {"a.weight": ("F32", (4,), b"0123456789abcdef"), "b.weight": ("BF16", (2,), b"abcd")}
LAYERS = ["a.weight", "b.weight", "config.json", "tokenizer.model", ""]
each_damage = pytest.mark.parametrize("damage", DAMAGES)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as store:
        yield store


@pytest.fixture
def source(tmp_path):
    return model(tmp_path / "source", TENSORS, tokenizer__model="tokens")


def repair(store, *names, source=None, listen=lambda _: None, quick=False):
    parsed = [ModelName.parse(name) for name in names]
    report = verify(store, parsed, quick=quick)
    return repair_store(store, report, parsed, source=source, threads=2, listen=listen)


def healed(done):
    return {blob.what for blob in done.repaired}


def is_whole(store):
    return check_store(store.layout.root) == []


@each_damage
@pytest.mark.parametrize("layer", LAYERS)
def test_a_damaged_blob_is_healed_from_where_it_was_made(store, source, damage, layer):
    create(store, source)
    before = manifest_bytes(store)
    path = blob_of(store, layer)
    content = path.read_bytes()
    damage(path)

    done = repair(store)

    assert [blob.digest for blob in done.repaired] == [Digest.of(content)]
    assert (done.quarantined, done.remaining, done.unrepaired) == ((), (), ())
    assert path.read_bytes() == content
    assert not path.is_symlink()
    assert manifest_bytes(store) == before
    assert is_whole(store)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_every_kind_of_source_can_heal(store, fixture):
    create(store, MODELS / fixture)
    paths = sorted(store.layout.blobs.iterdir())
    for path, damage in zip(paths, DAMAGES * len(paths), strict=False):
        damage(path)

    done = repair(store)

    assert len(done.repaired) == len(paths)
    assert done.remaining == ()
    assert is_whole(store)


def test_a_single_file_heals_though_others_lie_beside_it(store, tmp_path):
    write(tmp_path / "d", {"one.safetensors": safetensors(TENSORS), "config.json": {}})
    write(tmp_path / "d", {"two.safetensors": safetensors({"c": ("U8", (1,))})})
    create(store, tmp_path / "d" / "one.safetensors")
    flip(blob_of(store, "a.weight"))
    lose(blob_of(store, ""))

    assert healed(repair(store)) == {"a.weight", "configuration"}
    assert is_whole(store)


def test_only_what_is_damaged_is_made(store, source):
    create(store, source)
    flip(blob_of(store, "a.weight"))
    others = {p: p.stat().st_ino for p in store.layout.blobs.iterdir()}
    del others[blob_of(store, "a.weight")]
    events = []

    repair(store, listen=events.append)

    assert [event.blob for event in events if isinstance(event, BlobDone)] == ["a.weight"]
    (planned,) = (event for event in events if isinstance(event, Planned))
    assert planned.blobs == 1
    assert {path: path.stat().st_ino for path in others} == others


def test_a_healed_blob_is_known_to_be_good(store, source):
    create(store, source)
    path = blob_of(store, "a.weight")
    flip(path)

    repair(store)

    digest = Digest.from_file_name(path.name)
    assert store.memo.knows(digest, store.blobs.status(digest))


def test_the_bad_copy_is_kept_until_gc(store, source):
    create(store, source)
    path = blob_of(store, "a.weight")
    flip(path)
    bad = path.read_bytes()

    repair(store)

    (kept,) = store.layout.quarantine.iterdir()
    assert (kept.name, kept.read_bytes()) == (f"{path.name}.1", bad)


def test_a_good_store_is_not_touched(store, source):
    create(store, source)
    before = snapshot(store.layout.root)

    done = repair(store)

    assert (done.repaired, done.quarantined, done.remaining) == ((), (), ())
    assert snapshot(store.layout.root) == before


def test_a_variant_is_made_again_as_it_was(store, source):
    half = {"a.weight": ("F16", (4,)), "b.weight": ("F16", (2,))}
    write(source, {"model.fp16.safetensors": safetensors(half)})
    create(store, source, variant="fp16")
    flip(blob_of(store, "a.weight"))
    flip(blob_of(store, "b.weight"))

    assert repair(store).remaining == ()
    assert is_whole(store)


def test_a_record_that_rotted_in_an_unimportant_place_still_serves(store, source):
    half = {"a.weight": ("F16", (4,)), "b.weight": ("F16", (2,))}
    write(source, {"model.fp16.safetensors": safetensors(half)})
    create(store, source, variant="fp16")
    path = blob_of(store, "")
    flip(path, path.read_bytes().index(b"safetensors"))

    assert healed(repair(store)) == {"configuration"}
    assert is_whole(store)


OPTIONS = [
    ["-q", "int4"],
    ["-q", "int8", "--group-size", "32"],
    ["-q", "nvfp4", "--rule", "*k_proj*=keep", "--embedding", "int8"],
    ["--rule", "*.mlp.*=int8/32"],
    ["-q", "bf16"],
    ["-q", "mxfp4", "--recipe", "uniform", "--experts", "stacked"],
    ["-q", "int4", "--on-misaligned", "adjust"],
    ["--recipe", "mixed_4_6"],
    ["--recipe", "mixed_4_6", "--group-size", "32"],
    ["-q", "int4/32", "--recipe", "ollama"],
    ["-q", "int8", "--rule", "*k_proj*=keep", "--rule", "*v_proj*=int4", "--embedding", "bf16"],
]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_a_quantized_model_is_made_again_with_its_own_recipe(store, tmp_path, options):
    source = shutil.copytree(MODELS / "tiny-moe", tmp_path / "s")
    root = store.layout.root
    run("create", "m", source, *options, store=root).succeeded()
    before = manifest_bytes(store)
    paths = sorted(store.layout.blobs.iterdir())
    for path, damage in zip(paths, DAMAGES * len(paths), strict=False):
        if path != blob_of(store, ""):
            damage(path)

    done = repair(store)

    assert len(done.repaired) == len(paths) - 1
    assert is_whole(store)
    # And the command that is told, without a source, makes the very same.
    lose(blob_of(store, "config.json"))
    aside = source.rename(tmp_path / "aside")
    (loss,) = repair(store).unrepaired
    aside.rename(source)
    run(*shlex.split(again_command(loss.provenance))[1:], store=root).succeeded()
    assert manifest_bytes(store) == before


REPORT = "report of quality"


def report_path(store, name="m"):
    (layer,) = [
        layer
        for layer in store.catalog.get(ModelName.parse(name)).parse().layers
        if layer.media_type == MediaType.QUALITY
    ]
    return store.blobs.path(layer.digest)


@each_damage
def test_a_damaged_report_is_measured_again(store, damage):
    create(store, MODELS / "tiny-moe", recipe=parse_options("int4"), report=True)
    content = report_path(store).read_bytes()
    damage(report_path(store))

    done = repair(store)

    assert healed(done) == {REPORT}
    assert (done.quarantined, done.remaining, done.unrepaired) == ((), (), ())
    assert report_path(store).read_bytes() == content
    assert is_whole(store)


def test_a_report_is_measured_of_tensors_that_were_healed_before(store):
    create(store, MODELS / "tiny-moe", recipe=parse_options("int4"), report=True)
    config = store.blobs.path(store.catalog.get(ModelName.parse("m")).parse().config.digest)
    paths = sorted(set(store.layout.blobs.iterdir()) - {config})
    for path, damage in zip(paths, DAMAGES * len(paths), strict=False):
        damage(path)

    done = repair(store)

    assert REPORT in healed(done)
    assert done.remaining == ()
    assert is_whole(store)


def test_a_report_of_tensors_that_are_lost_is_lost_with_them(store, tmp_path):
    values = b"\x01\x3c\x10\xbd" * 1024
    source = model(tmp_path / "s", {"a.weight": ("BF16", (32, 64), values)})
    create(store, source, recipe=parse_options("int4"), report=True)
    flip(blob_of(store, "a.weight"))
    lose(report_path(store))
    model(source, {"a.weight": ("BF16", (32, 64), values[::-1])})

    done = repair(store)

    assert done.repaired == ()
    (loss,) = done.unrepaired
    assert "gives no report of quality: tensors are missing" in " ".join(loss.reasons)
    assert shlex.split(again_command(loss.provenance))[-1] == "--report"


def test_without_its_source_a_lost_report_is_told_with_its_command(store, tmp_path):
    source = shutil.copytree(MODELS / "tiny-moe", tmp_path / "s")
    create(store, source, recipe=parse_options("int4"), report=True)
    before = manifest_bytes(store)
    lose(report_path(store))
    aside = source.rename(tmp_path / "aside")

    (loss,) = repair(store).unrepaired

    assert again_command(loss.provenance).endswith("--report")
    aside.rename(source)
    run(*shlex.split(again_command(loss.provenance))[1:], store=store.layout.root).succeeded()
    assert manifest_bytes(store) == before
    assert is_whole(store)


# How a model was made is noted twice: in its configuration, and beside its source.


def quantized(store, tmp_path, *options):
    source = shutil.copytree(MODELS / "tiny-moe", tmp_path / "s")
    run(
        "create", "m", source, *(options or ("-q", "int4")), store=store.layout.root
    ).succeeded()
    return source


@each_damage
def test_a_configuration_is_healed_without_its_source(store, tmp_path, damage):
    shutil.rmtree(quantized(store, tmp_path))
    damage(blob_of(store, ""))

    done = repair(store)

    assert [(blob.what, blob.source) for blob in done.repaired] == [
        ("configuration", f"origins/{store.catalog.get(ModelName.parse('m')).digest.file_name}")
    ]
    assert (done.remaining, done.unrepaired) == ((), ())
    assert is_whole(store)


def test_a_configuration_that_no_source_gives_is_healed(store, tmp_path):
    source = quantized(store, tmp_path)
    modelfile = tmp_path / "Modelfile"
    modelfile.write_text(f"FROM {source}\nPARSER qwen3\n")
    run("create", "n", "-f", modelfile, store=store.layout.root).succeeded()
    run("create", "copy", "m", "-q", "int8", store=store.layout.root).succeeded()
    for name in ("n", "copy"):
        lose(blob_of(store, "", name))

    assert healed(repair(store)) == {"configuration"}
    assert is_whole(store)


def test_tensors_are_healed_by_the_recipe_of_a_configuration_that_is_lost(store, tmp_path):
    quantized(store, tmp_path)
    lose(blob_of(store, ""))
    weight = next(name for name in _quantized_layers(store))
    flip(blob_of(store, weight))

    assert healed(repair(store)) == {"configuration", weight}
    assert is_whole(store)


def _quantized_layers(store):
    manifest = store.catalog.get(ModelName.parse("m")).parse()
    return [layer.name for layer in manifest.layers if "k_proj" in layer.name]


def test_a_configuration_that_rotted_keeps_its_options(store, tmp_path):
    source = quantized(store, tmp_path, "-q", "int8", "--group-size", "32")
    path = blob_of(store, "")
    flip(path, path.read_bytes().index(b'"recipe"'))
    lose(blob_of(store, "config.json"))
    shutil.rmtree(source)

    (loss,) = repair(store).unrepaired

    command = again_command(loss.provenance)
    assert command.endswith(" -q int8/32 --recipe default")


def forget_recipe(store):
    """Leave origins as earlier versions wrote them."""
    for path in store.layout.origins.iterdir():
        path.write_bytes(path.read_bytes().partition(b"\0")[0])


@pytest.mark.parametrize("damage", [lose, functools.partial(flip, place=0)])
def test_a_lost_recipe_is_told_and_never_that_the_source_changed(store, tmp_path, damage):
    source = quantized(store, tmp_path)
    forget_recipe(store)
    damage(blob_of(store, ""))
    for name in _quantized_layers(store):
        lose(blob_of(store, name))

    (loss,) = repair(store).unrepaired

    assert loss.reasons == ("its recipe is lost with its configuration",)
    assert advice(loss) == (
        "make it again with the options that it was made with: "
        f"ingot create m:latest {source} OPTIONS"
    )


def test_a_plain_configuration_is_healed_though_its_recipe_is_lost(store, source):
    create(store, source)
    forget_recipe(store)
    lose(blob_of(store, ""))

    assert healed(repair(store)) == {"configuration"}


def test_a_damaged_source_is_not_to_be_imported_under_the_good_name(store, tmp_path):
    source = quantized(store, tmp_path)
    good = shutil.copytree(source, tmp_path / "good")
    for path in source.glob("*.safetensors"):
        flip(path, -100)
        flip(path, -5000)
    for name in store.catalog.get(ModelName.parse("m")).parse().layers:
        if name.media_type == MediaType.TENSOR:
            lose(store.blobs.path(name.digest))

    (loss,) = repair(store).unrepaired

    assert "changed:" in loss.reasons[0]
    command = "ingot verify m:latest --repair --source SOURCE"
    assert advice(loss) == f"name a good copy of its source: {command}"
    assert helping_command(loss) == command
    assert repair(store, "m", source=good).unrepaired == ()
    assert is_whole(store)


# What cannot be healed.


def test_without_its_source_a_bad_file_leaves_its_name(store, source):
    create(store, source)
    create(store, source, "n:tag")
    path = blob_of(store, "a.weight")
    flip(path)
    shutil.rmtree(source)

    done = repair(store)

    assert done.repaired == ()
    assert [(bad.digest.file_name, bad.models) for bad in done.quarantined] == [
        (path.name, ("m:latest", "n:tag"))
    ]
    assert not path.exists()
    assert [finding.problem for finding in done.remaining] == [Problem.MISSING]
    assert [(loss.model, again_command(loss.provenance)) for loss in done.unrepaired] == [
        ("m:latest", f"ingot create m:latest {source}"),
        ("n:tag", f"ingot create n:tag {source}"),
    ]
    assert all("does not exist" in loss.reasons[0] for loss in done.unrepaired)


def test_what_is_missing_without_its_source_is_told(store, source):
    create(store, source)
    lose(blob_of(store, "a.weight"))
    shutil.rmtree(source)

    done = repair(store)

    assert (done.repaired, done.quarantined) == ((), ())
    assert [finding.problem for finding in done.remaining] == [Problem.MISSING]
    assert len(done.unrepaired) == 1


def test_a_source_that_changed_heals_what_did_not_change(store, source):
    create(store, source)
    for layer in ("a.weight", "b.weight", "config.json"):
        flip(blob_of(store, layer))
    changed = TENSORS | {"a.weight": ("F32", (4,), b"another content!")}
    model(source, changed, tokenizer__model="tokens")
    good = {path.name for path in store.layout.blobs.iterdir()}

    done = repair(store)

    assert healed(done) == {"b.weight", "config.json"}
    assert len(done.quarantined) == 1
    (loss,) = done.unrepaired
    assert "changed: `a.weight` gives sha256:" in loss.reasons[0]
    # Nothing of what the source has now came into the store.
    assert {path.name for path in store.layout.blobs.iterdir()} < good


def test_a_changed_source_is_told_though_its_blobs_are_known(store, source):
    create(store, source)
    model(source, TENSORS | {"a.weight": ("F32", (4,), b"another content!")})
    create(store, source, "other")
    flip(blob_of(store, "a.weight"))

    (loss,) = repair(store).unrepaired

    assert f"changed: `a.weight` gives {_digest(store, 'other', 'a.weight')}" in loss.reasons[0]


def _digest(store, name, layer):
    return Digest.from_file_name(blob_of(store, layer, name).name)


def test_a_blob_that_was_good_once_and_cannot_be_read_is_replaced(store, source, monkeypatch):
    create(store, source)
    path = blob_of(store, "a.weight")
    bad = path.stat().st_ino
    real = FileSystem.read_into

    def rotten(self, file, buffer, offset):
        if self.status_of(file).inode == bad:
            raise OSError(errno.EIO, "Input/output error", str(file.path))
        return real(self, file, buffer, offset)

    monkeypatch.setattr(FileSystem, "read_into", rotten)

    done = repair(store)

    assert (healed(done), done.remaining) == ({"a.weight"}, ())
    assert path.stat().st_ino != bad


def test_what_was_healed_is_told_though_a_writer_keeps_the_rest_from_quarantine(
    store, source, monkeypatch
):
    create(store, source)
    flip(blob_of(store, "a.weight"))
    flip(blob_of(store, "b.weight"))
    model(source, TENSORS | {"b.weight": ("BF16", (2,), b"zzzz")}, tokenizer__model="tokens")
    hasty = functools.partial(importer.verification.repair.quarantine, wait=0.01)
    monkeypatch.setattr(importer.verification.repair, "quarantine", hasty)

    with Store(store.layout.root) as other, other.lock.shared():
        done = repair(store)

    assert (healed(done), done.quarantined) == ({"a.weight"}, ())
    assert "is locked" in done.hindrance
    assert [loss.model for loss in done.unrepaired] == ["m:latest"]


class Logging(FileSystem):
    """Notes what a power cut could take back, until it is synced."""

    def __init__(self):
        self.unsynced = set()

    def rename(self, source, target):
        super().rename(source, target)
        self.unsynced |= {source.parent, target.parent}

    def sync_directory(self, path):
        super().sync_directory(path)
        self.unsynced.discard(path)


def test_what_was_repaired_is_durable(tmp_path, source):
    with Store(tmp_path / "store", Logging()) as store:
        create(store, source)
        flip(blob_of(store, "a.weight"))

        assert healed(repair(store)) == {"a.weight"}
        assert store.layout.blobs not in store.fs.unsynced


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        (TENSORS | {"a.weight": ("F32", (5,), b"0" * 20)}, "changed: `a.weight` has"),
        ({"b.weight": TENSORS["b.weight"]}, "has no `a.weight`"),
    ],
)
def test_a_source_of_another_shape_is_told(store, source, tensors, words):
    create(store, source)
    flip(blob_of(store, "a.weight"))
    model(source, tensors)

    (loss,) = repair(store).unrepaired

    assert words in loss.reasons[0]


def test_a_source_that_is_broken_is_told_and_the_rest_is_done(store, source, tmp_path):
    other = model(tmp_path / "other", {"c": ("U8", (9,))})
    create(store, source)
    create(store, other, "other")
    flip(blob_of(store, "a.weight"))
    flip(blob_of(store, "c", "other"))
    (source / "model.safetensors").write_bytes(b"")

    done = repair(store)

    assert healed(done) == {"c"}
    assert [loss.model for loss in done.unrepaired] == ["m:latest"]


def test_a_file_of_the_source_that_cannot_be_read_keeps_no_other(store, source, monkeypatch):
    create(store, source)
    for layer in ("a.weight", "b.weight", "tokenizer.model"):
        flip(blob_of(store, layer))
    real = source_file.read_into

    def rotten(descriptor, buffer, offset):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("tokenizer.model"):
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, buffer, offset)

    monkeypatch.setattr(source_file, "read_into", rotten)

    done = repair(store)

    assert healed(done) == {"a.weight", "b.weight"}
    assert "Input/output error" in done.unrepaired[0].reasons[0]


def test_a_store_that_cannot_be_written_is_no_fault_of_the_source(store, source, monkeypatch):
    create(store, source)
    flip(blob_of(store, "a.weight"))
    path = blob_of(store, "a.weight")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(store.layout.tmp))

    monkeypatch.setattr(importer.verification.rebuild, "write_blobs", full)

    with pytest.raises(OSError, match="No space"):
        repair(store)
    assert path.exists()


def test_what_does_not_fit_is_refused_and_nothing_is_moved(store, source, monkeypatch):
    create(store, source)
    flip(blob_of(store, "a.weight"))

    def full(*_):
        raise NoSpaceError("full", code="E_NOSPACE")

    monkeypatch.setattr(importer.verification.rebuild, "check_space", full)

    with pytest.raises(NoSpaceError):
        repair(store)
    assert blob_of(store, "a.weight").exists()


def test_a_failing_pin_is_no_fault_of_the_source(store, source, monkeypatch):
    create(store, source)
    flip(blob_of(store, "a.weight"))

    def fail(*_):
        raise StorageError("an earlier pin failed", code="E_PIN")

    monkeypatch.setattr("store.writer.Writer._pin", fail)

    with pytest.raises(StorageError):
        repair(store)


# Who can heal what.


def test_a_blob_is_healed_from_the_source_of_any_model_that_uses_it(store, source, tmp_path):
    twin = shutil.copytree(source, tmp_path / "twin")
    write(twin, {"more.txt": "x"})
    create(store, source)
    create(store, twin, "twin")
    flip(blob_of(store, "a.weight"))
    shutil.rmtree(source)

    done = repair(store, "m")

    assert healed(done) == {"a.weight"}
    assert done.repaired[0].source == twin
    assert is_whole(store)


def test_what_is_shared_is_quarantined_for_all_who_use_it(store, source):
    create(store, source)
    create(store, source, "twin")
    flip(blob_of(store, "a.weight"))
    shutil.rmtree(source)

    done = repair(store, "m")

    assert done.quarantined[0].models == ("m:latest", "twin:latest")
    assert [loss.model for loss in done.unrepaired] == ["m:latest", "twin:latest"]


def test_a_given_source_is_used_instead(store, source, tmp_path):
    moved = tmp_path / "moved"
    create(store, source)
    source.rename(moved)
    flip(blob_of(store, "a.weight"))
    flip(blob_of(store, ""))

    done = repair(store, "m", source=moved)

    assert healed(done) == {"a.weight", "configuration"}
    assert is_whole(store)


def test_without_the_memo_everything_is_healed(store, source):
    create(store, source)
    flip(blob_of(store, "a.weight"))
    store.memo.close()
    store.layout.memo.unlink()

    assert healed(repair(store)) == {"a.weight"}
    assert is_whole(store)


def test_without_its_origin_the_source_must_be_given(store, source):
    create(store, source)
    flip(blob_of(store, "a.weight"))
    for origin in store.layout.origins.iterdir():
        origin.unlink()

    first = repair(store)
    again = repair(store, "m", source=source)

    assert first.unrepaired[0].reasons == ("its source was not recorded",)
    assert again_command(first.unrepaired[0].provenance) == "ingot create m:latest SOURCE"
    assert healed(again) == {"a.weight"}
    assert is_whole(store)


def test_a_model_of_another_program_is_healed_from_a_given_source(store, source):
    content = safetensors({"b.weight": TENSORS["b.weight"]}, None)
    create(store, source, "ours")
    content = blob_of(store, "b.weight", "ours").read_bytes()
    handmade(store, [tensor_layer(content, "b.weight", dtype="BF16", shape=(2,))])
    store.remove([ModelName.parse("ours")])
    flip(blob_of(store, "b.weight"))

    assert healed(repair(store, "m", source=source)) == {"b.weight"}


def test_what_nobody_names_needs_no_healing(store, source):
    create(store, source)
    flip(blob_of(store, "a.weight"))
    path = blob_of(store, "a.weight")
    store.remove([ModelName.parse("m")])

    done = repair(store)

    assert [bad.models for bad in done.quarantined] == [()]
    assert (done.remaining, done.unrepaired) == ((), ())
    assert not path.exists()


# Findings that are no bad file.


def rewrite(store, change, name="m"):
    path = store.catalog.path(ModelName.parse(name))
    document = json.loads(path.read_bytes())
    change(document)
    path.write_bytes(json.dumps(document, separators=(",", ":")).encode() + b"\n")


def test_a_size_that_is_the_mistake_of_a_manifest_moves_no_blob(store, source):
    create(store, source)
    rewrite(store, lambda document: document["layers"][0].update(size=1))
    before = {path.name for path in store.layout.blobs.iterdir()}

    done = repair(store)

    assert (done.repaired, done.quarantined) == ((), ())
    assert [finding.problem for finding in done.remaining] == [Problem.SIZE]
    assert {path.name for path in store.layout.blobs.iterdir()} == before
    assert [loss.model for loss in done.unrepaired] == ["m:latest"]


def test_a_torn_manifest_is_told_and_keeps_its_blobs(store, source):
    create(store, source)
    store.catalog.path(ModelName.parse("m")).write_bytes(b"")
    before = {path.name for path in store.layout.blobs.iterdir()}

    done = repair(store)

    assert [finding.problem for finding in done.remaining] == [Problem.MANIFEST]
    assert [again_command(loss.provenance) for loss in done.unrepaired] == [
        "ingot create m:latest SOURCE OPTIONS"
    ]
    assert {path.name for path in store.layout.blobs.iterdir()} == before


def test_a_torn_manifest_does_not_keep_others_from_being_healed(store, source, tmp_path):
    create(store, source)
    create(store, model(tmp_path / "other", {"c": ("U8", (9,))}), "other")
    flip(blob_of(store, "c", "other"))
    store.catalog.path(ModelName.parse("m")).write_bytes(b"{")

    assert healed(repair(store)) == {"c"}


def test_a_quick_look_heals_what_it_finds(store, source):
    create(store, source)
    cut(blob_of(store, "a.weight"))
    become_directory(blob_of(store, "b.weight"))
    flip(blob_of(store, "tokenizer.model"))

    done = repair(store, quick=True)

    assert healed(done) == {"a.weight", "b.weight"}
    assert done.remaining == ()


def test_what_was_healed_since_is_left_alone(store, source):
    create(store, source)
    flip(blob_of(store, "a.weight"))
    report = verify(store)
    create(store, source)
    before = {path: path.stat().st_ino for path in store.layout.blobs.iterdir()}

    done = repair_store(store, report)

    assert (done.repaired, done.quarantined, done.remaining) == ((), (), ())
    assert {path: path.stat().st_ino for path in before} == before


def test_what_went_with_its_model_since_is_nobody_s_loss(store, source):
    create(store, source)
    lose(blob_of(store, "a.weight"))
    report = verify(store, [ModelName.parse("m")])
    store.remove([ModelName.parse("m")])

    done = repair_store(store, report, [ModelName.parse("m")])

    assert (done.repaired, done.remaining, done.unrepaired) == ((), (), ())


def test_a_file_that_cannot_be_read_is_made_again(store, source, monkeypatch):
    create(store, source)
    path = blob_of(store, "a.weight")
    inode = path.stat().st_ino
    real = store.fs.read_into

    def rotten(file, buffer, offset):
        if file.path == path and path.stat().st_ino == inode:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return real(file, buffer, offset)

    monkeypatch.setattr(type(store.fs), "read_into", lambda _, *words: rotten(*words))

    assert healed(repair(store)) == {"a.weight"}
    assert is_whole(store)


@pytest.mark.parametrize("damage", [flip, lose])
def test_what_another_process_heals_meanwhile_is_no_loss(store, source, monkeypatch, damage):
    create(store, source)
    path = blob_of(store, "a.weight")
    good = path.read_bytes()
    damage(path)
    shutil.rmtree(source)
    move = importer.verification.repair.quarantine

    def heal_first(*words):
        fresh = path.with_name("fresh")
        fresh.write_bytes(good)
        fresh.rename(path)
        return move(*words)

    monkeypatch.setattr(importer.verification.repair, "quarantine", heal_first)

    done = repair(store)

    assert (done.repaired, done.quarantined, done.remaining, done.unrepaired) == (
        (),
        (),
        (),
        (),
    )


def test_a_file_that_cannot_be_read_nor_made_again_stays(store, source, monkeypatch):
    create(store, source)
    path = blob_of(store, "a.weight")
    shutil.rmtree(source)
    real = store.fs.read_into

    def rotten(_, file, buffer, offset):
        if file.path == path:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return real(file, buffer, offset)

    monkeypatch.setattr(type(store.fs), "read_into", rotten)

    done = repair(store)

    assert (done.repaired, done.quarantined) == ((), ())
    assert Problem.UNREADABLE in {finding.problem for finding in done.remaining}
    assert path.exists()


# A hostile record.


def test_a_recipe_that_is_none_is_told(store, source):
    create(store, source)
    content = blob_of(store, "a.weight").read_bytes()
    layers = [tensor_layer(content, "a.weight", dtype="F32", shape=(4,))]
    handmade(store, layers, "n", b'{"ingot":{"recipe":{"rule":[{"match":7}]}}}')
    store.remove([ModelName.parse("m")])
    flip(blob_of(store, "a.weight", "n"))

    (loss,) = repair(store, "n", source=source).unrepaired

    assert "match" in loss.reasons[0]
    assert again_command(loss.provenance) == f"ingot create n:latest {source} --recipe FILE"


@pytest.mark.parametrize(
    "hub",
    [
        {"repository": "../../etc", "commit": "main"},
        {"repository": "org/name", "commit": "../../x"},
        {"repository": "org/name"},
        {"repository": 1, "commit": []},
        [],
        "org/name",
    ],
)
def test_a_record_that_cannot_be_names_no_repository(store, source, hub):
    create(store, source)
    content = blob_of(store, "a.weight").read_bytes()
    layers = [tensor_layer(content, "a.weight", dtype="F32", shape=(4,))]
    handmade(store, layers, "n", json.dumps({"ingot": {"hub": hub}}).encode())
    store.remove([ModelName.parse("m")])
    flip(blob_of(store, "a.weight", "n"))

    (loss,) = repair(store, "n").unrepaired

    assert loss.reasons == ("its source was not recorded",)


def test_a_name_and_a_path_are_quoted_for_the_shell(store, tmp_path):
    source = model(tmp_path / "it's $(here); rm", TENSORS)
    create(store, source, variant=None)
    lose(blob_of(store, "a.weight"))
    shutil.rmtree(source)

    (loss,) = repair(store).unrepaired

    assert again_command(loss.provenance).endswith("/it'\"'\"'s $(here); rm'")
