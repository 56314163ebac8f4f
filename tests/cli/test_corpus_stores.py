"""Damaged and hostile stores (reliability.md 3.2, rows M): told, never made worse."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.check_store import check_store, manifest_path, snapshot
from tests.cli.runner import run
from tests.importer.builders import MODELS

KEPT = MODELS / "tiny-llama"


def manifest(store, name="kept"):
    return json.loads(manifest_path(store, name).read_bytes())


def put(store, content, name="kept"):
    """Overwrite the manifest of a model: bytes, text or JSON."""
    text = content if isinstance(content, (bytes, str)) else json.dumps(content)
    data = text if isinstance(text, bytes) else text.encode()
    manifest_path(store, name).write_bytes(data)


def changed(store, **layer):
    """The manifest of `kept` with fields of its first layer replaced."""
    document = manifest(store)
    document["layers"][0] |= layer
    return document


def layer_path(store, name="lm_head.weight"):
    (digest,) = [la["digest"] for la in manifest(store)["layers"] if la.get("name") == name]
    return store / "blobs" / digest.replace(":", "-")


def text_of(store):
    return manifest_path(store, "kept").read_text()


HEX = "0" * 64
BROKEN = {
    "M01": (lambda _: b"", "E_MANIFEST"),
    "M01-blank": (lambda _: b"\n \n", "E_MANIFEST"),
    "M01-torn": (lambda store: text_of(store)[:500], "E_MANIFEST"),
    "M02": (lambda store: text_of(store) + "{}", "E_MANIFEST"),
    "M03": (lambda store: text_of(store)[:-2] + ',"layers":[]}', "E_MANIFEST"),
    "M04": (lambda s: changed(s, digest="sha256:../../../../etc/passwd"), "E_DIGEST"),
    "M04-dash": (lambda s: changed(s, digest="sha256-../../../etc/passwd"), "E_DIGEST"),
    "M05-upper": (lambda s: changed(s, digest=f"sha256:{'A' * 64}"), "E_DIGEST"),
    "M05-dash": (lambda s: changed(s, digest=f"sha256-{HEX}"), "E_DIGEST"),
    "M05-63": (lambda s: changed(s, digest=f"sha256:{HEX[1:]}"), "E_DIGEST"),
    "M05-65": (lambda s: changed(s, digest=f"sha256:{HEX}0"), "E_DIGEST"),
    "M05-512": (lambda s: changed(s, digest=f"sha512:{HEX}"), "E_DIGEST"),
    "M05-escape": (lambda s: changed(s, digest="sha256:\x1b[2J"), "E_DIGEST"),
    "M05-none": (lambda s: changed(s, digest=None), "E_MANIFEST"),
    "M06-negative": (lambda s: changed(s, size=-5), "E_MANIFEST"),
    "M06-2^63": (lambda s: changed(s, size=1 << 63), "E_MANIFEST"),
    "M06-true": (lambda s: changed(s, size=True), "E_MANIFEST"),
    "M06-float": (lambda s: changed(s, size=1.5), "E_MANIFEST"),
    "M07": (lambda _: b" " * (40 << 20), "E_LIMIT"),
    "M08-number": (lambda s: manifest(s) | {"schemaVersion": "2"}, "E_MANIFEST"),
    "M08-list": (lambda _: b"[]", "E_MANIFEST"),
    "M08-layers": (lambda s: manifest(s) | {"layers": {}}, "E_MANIFEST"),
    "M08-config": (lambda s: manifest(s) | {"config": None}, "E_MANIFEST"),
    "M09-surrogate": (lambda s: text_of(s).replace("lm_head", "\\ud800"), "E_MANIFEST"),
}


@pytest.mark.parametrize("row", BROKEN)
def test_a_broken_manifest_is_told_and_stops_gc(filled, row):
    make, code = BROKEN[row]
    put(filled, make(filled))
    before = snapshot(filled)

    shown = run("show", "kept", "--json", store=filled)
    assert (shown.clean().error["code"], shown.code) == (code, 5)
    run("show", "kept", store=filled).failed(5)

    verified = run("verify", "--json", store=filled)
    assert verified.code == 5
    (finding,) = [
        f for f in verified.clean().document["findings"] if f["problem"] == "manifest"
    ]
    assert finding["models"] == ["kept:latest"]

    refused = run("gc", "--yes", "--json", store=filled)
    assert (refused.clean().error["code"], refused.code) == ("E_GC_REFUSED", 5)
    assert "kept/latest" in refused.error["message"]
    blobs = {path: facts for path, facts in snapshot(filled).items() if "blobs/" in path}
    assert blobs == {path: facts for path, facts in before.items() if "blobs/" in path}

    # The other model is as it was; this one can be removed or made again.
    run("show", "moe:v1", store=filled).succeeded()
    assert "moe:v1" in run("list", store=filled).clean().stdout
    run("create", "kept", KEPT, store=filled).succeeded()
    assert check_store(filled) == []


def test_m01_a_broken_manifest_can_be_removed(filled):
    put(filled, b"")

    run("rm", "kept", store=filled).succeeded()
    run("gc", "--yes", store=filled).succeeded()

    assert check_store(filled, after_gc=True) == []


def test_m06_a_size_that_is_not_the_blobs(filled):
    put(filled, changed(filled, size=1))

    found = run("verify", "--json", store=filled)

    assert found.code == 5
    assert "size" in {finding["problem"] for finding in found.clean().document["findings"]}


def test_m07_too_many_layers(filled, monkeypatch):
    monkeypatch.setattr("store.limits.LAYERS", 10)

    assert "the limit is 10" in run("show", "kept", store=filled).failed(5)


@pytest.mark.parametrize("field", [{"schemaVersion": 3}, {"mediaType": "application/x"}])
def test_m08_an_unknown_schema_is_shown_with_a_warning_and_stops_gc(filled, field):
    put(filled, manifest(filled) | field)

    shown = run("show", "kept", store=filled).succeeded()
    assert "unknown schema or media type" in shown.stderr
    assert run("verify", store=filled).code == 5
    assert "nothing was removed" in run("gc", "--yes", store=filled).failed(5)


def test_m09_a_layer_name_that_drives_a_terminal(filled):
    put(filled, text_of(filled).replace("lm_head", "\\u001b[2J\\u202e"))

    for command in (["show", "kept", "-v"], ["show", "kept", "--tensors"], ["verify"]):
        outcome = run(*command, store=filled).clean()
        assert "\\x1b[2J\\u202e" in outcome.stdout
    run("show", "kept", "--json", store=filled).clean()


def _flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _directory(path):
    path.unlink()
    path.mkdir()
    (path / "x").touch()


def _pipe(path):
    path.unlink()
    os.mkfifo(path)


def _link(path):
    outside = path.parents[2] / "outside"
    outside.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(outside)


def _loop(path):
    path.unlink()
    path.symlink_to(path.name)


DAMAGES = {
    "M10-missing": (os.unlink, "missing"),
    "M10-short": (lambda path: os.truncate(path, 100), "size"),
    "M10-empty": (lambda path: os.truncate(path, 0), "size"),
    "M10-long": (lambda path: os.truncate(path, path.stat().st_size + 1), "size"),
    "M10-flip": (_flip, "digest"),
    "M10-zero": (lambda path: path.write_bytes(bytes(path.stat().st_size)), "digest"),
    "M11": (_link, "kind"),
    "M11-loop": (_loop, "kind"),
    "M12-directory": (_directory, "kind"),
    "M12-pipe": (_pipe, "kind"),
}


@pytest.mark.parametrize("name", ["lm_head.weight", "config.json"])
@pytest.mark.parametrize("row", DAMAGES)
def test_a_damaged_blob_is_found_and_healed(filled, row, name):
    damage, problem = DAMAGES[row]
    path = layer_path(filled, name)
    if path.exists():
        path.chmod(0o600)
    damage(path)

    found = run("verify", "--json", store=filled)
    assert found.code == 5
    (finding,) = found.clean().document["findings"]
    assert finding["problem"] == problem
    assert finding["subject"] == path.name.replace("-", ":")
    assert finding["models"] == ["kept:latest"]
    assert run("verify", "kept", store=filled).code == 5
    assert run("verify", "moe:v1", store=filled).code == 0
    run("show", "kept", store=filled).clean()

    run("create", "kept", KEPT, store=filled).succeeded()
    run("verify", store=filled).succeeded()
    assert check_store(filled) == []
    if row == "M11":
        assert (filled.parent / "outside").exists()
    run("gc", "--yes", store=filled).succeeded()
    assert check_store(filled, after_gc=True) == []


def test_m13_foreign_files_among_the_blobs_are_left_alone(filled):
    names = [
        "sha256-x",
        ".DS_Store",
        "x.tmp",
        f"sha256-{HEX}-partial",
        f"sha256-{HEX}-partial-0",
    ]
    for name in names:
        (filled / "blobs" / name).write_bytes(b"x")

    found = run("verify", "--json", store=filled).clean().document

    assert sorted(f["subject"] for f in found["findings"]) == ["blobs/sha256-x", "blobs/x.tmp"]
    assert len(found["notes"]) == 3
    run("gc", "--yes", store=filled).succeeded()
    assert all((filled / "blobs" / name).exists() for name in names)


@pytest.mark.parametrize(
    "place", ["x", "registry.ollama.ai/x", "registry.ollama.ai/library/m/t"]
)
@pytest.mark.parametrize("kind", ["link", "file", "directory", "pipe"])
def test_m14_m15_what_is_no_manifest_stops_gc(filled, place, kind):
    path = filled / "manifests" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        path.symlink_to("/")
    elif kind == "file":
        path.write_bytes(b"{}")
    elif kind == "directory":
        path.mkdir()
        if place.count("/") < 3:
            # An empty directory of a host, an owner or a model is nothing bad.
            run("verify", store=filled).succeeded()
            run("gc", "--yes", store=filled).succeeded()
            return
    else:
        os.mkfifo(path)

    assert run("verify", store=filled).clean().code == 5
    assert "nothing was removed" in run("gc", "--yes", store=filled).failed(5)
    run("list", store=filled).clean()


def test_m15_a_manifest_at_a_wrong_depth(filled):
    path = manifest_path(filled, "kept")
    deeper = path.parent / "deeper"
    deeper.mkdir()
    path.rename(deeper / "latest")

    assert run("verify", store=filled).clean().code == 5
    run("gc", "--yes", store=filled).failed(5)


# A store that came from elsewhere, as in an archive.
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_m14_a_link_below_manifests_leads_nowhere(filled, tmp_path, depth):
    outside = tmp_path / "outside"
    parts = ("registry.ollama.ai", "library", "kept")
    shutil.copytree((filled / "manifests").joinpath(*parts[:depth]), outside)
    victim = next(path for path in outside.rglob("latest") if "moe" not in path.parts)
    place = (filled / "manifests").joinpath(*parts[:depth])
    shutil.rmtree(place)
    place.symlink_to(outside)
    before, blobs = snapshot(outside), snapshot(filled / "blobs")

    for words in (["rm", "kept"], ["show", "kept"], ["create", "kept", MODELS / "tiny-moe"]):
        assert "link" in run(*words, store=filled).failed(5)
    assert victim.exists()
    assert snapshot(outside) == before
    assert snapshot(filled / "blobs") == blobs


def test_gc_removes_litter_however_deep(filled):
    place = filled / "tmp" / "litter"
    for depth in range(1500):  # deeper than Python recurses
        os.mkdir(f"{place}{'/a' * depth}")

    run("gc", "--yes", store=filled).succeeded()

    assert check_store(filled, after_gc=True) == []


def test_m15_a_directory_under_the_name_is_refused_before_anything_is_written(filled):
    (filled / "manifests/registry.ollama.ai/library/new/latest").mkdir(parents=True)
    before = snapshot(filled / "blobs")

    assert "directory" in run("create", "new", MODELS / "tiny-moe", store=filled).failed(5)
    assert snapshot(filled / "blobs") == before
