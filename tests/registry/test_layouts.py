"""Save and load: the same bytes each time, and nothing from an archive that deceives."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile

import pytest

from store import Store
from store.verify import verify
from tests.cli.runner import run
from tests.importer.builders import MODELS
from tests.importer.formats.test_tar import HOSTILE
from tests.registry.conftest import digest_in


@pytest.fixture
def two(store):
    """A store with the models `m` and `n`."""
    run("create", "n", MODELS / "tiny-moe", store=store).succeeded()
    return store


def files_of(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("place", ["layout", "models.tar"])
def test_what_was_saved_is_loaded(two, tmp_path, place):
    place, other = tmp_path / place, tmp_path / "other"
    run("save", "m", "n", place, store=two).succeeded()

    out = run("load", place, store=other).succeeded().stdout

    assert out.splitlines() == [f"{name}:latest {digest_in(two, name)}" for name in "mn"]
    assert digest_in(other, "m") == digest_in(two, "m")
    with Store(other) as opened:
        assert verify(opened).findings == ()
    moved = run("load", place, "--json", store=other).succeeded().document["models"]
    assert [one["moved"]["blobs"] for one in moved] == [0, 0]


def test_the_same_models_give_the_same_bytes(two, tmp_path):
    again = tmp_path / "again"
    for name, words in (("n", ("tiny-moe",)), ("m", ("tiny-llama", "-q", "int4"))):
        run("create", name, MODELS / words[0], *words[1:], store=again).succeeded()
    for store, place in ((two, "a"), (again, "b")):
        names = ("m", "n") if place == "a" else ("n", "m")
        run("save", *names, tmp_path / place, store=store).succeeded()
        run("save", *names, tmp_path / f"{place}.tar", store=store).succeeded()

    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    with tarfile.open(tmp_path / "a.tar") as tar:
        found = {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}
    assert found == files_of(tmp_path / "a")


def test_nothing_is_written_where_something_is(two, tmp_path):
    (tmp_path / "taken.tar").write_bytes(b"mine")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_bytes(b"mine")

    assert "is not empty" in run("save", "m", tmp_path / "taken", store=two).failed(2)
    assert "exists already" in run("save", "m", tmp_path / "taken.tar", store=two).failed(2)
    assert (tmp_path / "taken.tar").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["m.tar.gz", "m.tgz", "m.tar.ZST", "m.zip"])
def test_the_name_of_a_compressed_archive_is_not_a_directory(two, tmp_path, name):
    told = run("save", "m", tmp_path / name, store=two).failed(2)

    assert f"`{tmp_path / name}` would be a compressed archive" in told
    assert "`m.tar`" in told
    assert not (tmp_path / name).exists()


def test_a_glob_saves_what_it_matches_once(two, tmp_path):
    words = ("save", "m", "[mn]*", tmp_path / "layout")

    assert len(run(*words, store=two).succeeded().stdout.splitlines()) == 2
    assert "no model matches `x*`" in run("save", "x*", tmp_path / "other", store=two).failed(9)


def test_what_is_not_an_archive_is_said(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(2000))

    told = run("load", tmp_path / "m.gguf", store=tmp_path / "store").failed(3)

    assert "m.gguf` is not a tar archive" in told


def test_a_damaged_blob_is_not_saved(two, tmp_path):
    largest = max((two / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    largest.chmod(0o600)
    largest.write_bytes(b"\0" * largest.stat().st_size)

    run("save", "m", "n", tmp_path / "layout", store=two).failed(5)

    assert [path.name for path in tmp_path.iterdir() if "layout" in path.name] == []


def test_a_damaged_blob_is_not_loaded(two, tmp_path):
    place, other = tmp_path / "layout", tmp_path / "other"
    run("save", "m", place, store=two).succeeded()
    largest = max((place / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(b"\0" * largest.stat().st_size)

    assert "has the hash" in run("load", place, store=other).failed(3)

    assert not (other / "blobs" / f"sha256-{largest.name}").exists()
    run("show", "m", store=other).failed(9)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_writes_nothing(tmp_path, name):
    place = tmp_path / "in" / "x.tar"
    place.parent.mkdir()
    place.write_bytes(HOSTILE[name])

    run("load", place, store=tmp_path / "in" / "store").failed(3)

    assert [path.name for path in tmp_path.rglob("*")] == ["in", "x.tar"]


def test_a_hostile_entry_behind_a_good_layout_is_refused(two, tmp_path):
    place = tmp_path / "m.tar"
    run("save", "m", place, store=two).succeeded()
    with tarfile.open(place, "a") as tar:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info, io.BytesIO())

    run("load", place, store=tmp_path / "other").failed(3)

    assert not (tmp_path / "other").exists()


def edited(place, path, change):
    document = json.loads((place / path).read_text())
    change(document)
    (place / path).write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("path", "change", "code"),
    [
        ("oci-layout", lambda d: d.update(imageLayoutVersion="2.0.0"), 3),
        ("index.json", lambda d: d.update(manifests=[]), 3),
        ("index.json", lambda d: d.update(manifests={}), 3),
        ("index.json", lambda d: d["manifests"][0].update(digest="sha256:../../etc"), 3),
        ("index.json", lambda d: d["manifests"][0].update(size=10**12), 3),
        ("index.json", lambda d: d["manifests"][0].update(size=1), 3),
        ("index.json", lambda d: d["manifests"][0].update(digest="sha256:" + "0" * 64), 3),
        ("index.json", lambda d: d["manifests"][0].pop("annotations"), 2),
    ],
)
def test_a_layout_that_contradicts_itself_is_refused(two, tmp_path, path, change, code):
    place = tmp_path / "layout"
    run("save", "m", place, store=two).succeeded()
    edited(place, path, change)

    run("load", place, store=tmp_path / "other").failed(code)

    assert not (tmp_path / "other").exists()


def test_a_layout_may_be_in_an_index_of_indexes(two, tmp_path):
    place = tmp_path / "layout"
    run("save", "m", place, store=two).succeeded()
    inner = (place / "index.json").read_bytes()
    digest = hashlib.sha256(inner).hexdigest()
    (place / "blobs/sha256" / digest).write_bytes(inner)
    descriptor = {
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "digest": f"sha256:{digest}",
        "size": len(inner),
    }
    edited(place, "index.json", lambda d: d.update(manifests=[descriptor]))

    run("load", place, store=tmp_path / "other").succeeded()


def test_what_has_no_name_is_given_one(two, tmp_path):
    place = tmp_path / "layout"
    run("save", "m", place, store=two).succeeded()
    edited(
        place,
        "index.json",
        lambda d: d["manifests"][0]["annotations"].update(
            {"org.opencontainers.image.ref.name": "latest"}
        ),
    )

    assert "ingot load SOURCE NAME" in run("load", place, store=tmp_path / "other").failed(2)
    run("load", place, "x", store=tmp_path / "other").succeeded()
    assert digest_in(tmp_path / "other", "x") == digest_in(two, "m")


def test_one_name_is_not_for_two_models(two, tmp_path):
    run("save", "m", "n", tmp_path / "layout", store=two).succeeded()

    run("load", tmp_path / "layout", "x", store=tmp_path / "other").failed(2)


def test_a_compressed_archive_and_a_missing_one_are_said(two, tmp_path):
    run("save", "m", tmp_path / "layout", store=two).succeeded()
    packed = shutil.make_archive(str(tmp_path / "m"), "gztar", tmp_path / "layout")

    assert "gzip" in run("load", packed, store=tmp_path / "other").failed(4)
    run("load", tmp_path / "nothing", store=tmp_path / "other").failed(9)
    run("load", MODELS / "tiny-llama", store=tmp_path / "other").failed(3)


def test_links_in_a_layout_are_not_followed(two, tmp_path):
    place = tmp_path / "layout"
    run("save", "m", place, store=two).succeeded()
    secret = tmp_path / "secret"
    secret.write_bytes((place / "index.json").read_bytes())
    (place / "index.json").unlink()
    (place / "index.json").symlink_to(secret)

    run("load", place, store=tmp_path / "other").failed(3)
