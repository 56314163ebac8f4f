"""Push and pull: digests stay, what is there does not move, and cuts cost what was cut."""

from __future__ import annotations

import random

import pytest

from importer.registry import pull, upload
from store import ModelName, Store
from store.verify import verify
from tests.cli.runner import run
from tests.importer.builders import MODELS, model
from tests.registry.conftest import digest_in
from tests.registry.server import Fault, digest_of


def amounts(outcome, *keys):
    document = outcome.succeeded().document
    return tuple(document[key]["bytes"] for key in keys)


def pushed(registry, store, *words):
    return run("push", "m", f"{registry.host}/me/m", *words, store=store)


def pulled(registry, store, *words, name="p"):
    return run("pull", f"{registry.host}/me/m", name, *words, store=store)


def test_a_model_goes_and_comes_with_its_digest(registry, store, tmp_path):
    digest = digest_in(store, "m")

    assert (
        pushed(registry, store).succeeded().stdout == f"{registry.host}/me/m:latest {digest}\n"
    )
    other = tmp_path / "other"
    assert pulled(registry, other).succeeded().stdout == f"p:latest {digest}\n"

    _, data = registry.manifests["me/m", "latest"]
    assert digest_of(data) == digest
    with Store(other) as opened:
        assert verify(opened).findings == ()


def test_what_is_there_does_not_move(registry, store, tmp_path):
    run("create", "n", MODELS / "tiny-llama", store=store).succeeded()
    pushed(registry, store).succeeded()
    other = tmp_path / "other"
    pulled(registry, other).succeeded()

    assert amounts(pushed(registry, store, "--json"), "moved") == (0,)
    assert amounts(pulled(registry, other, "--json"), "moved") == (0,)
    run("push", "n", f"{registry.host}/me/m:n", store=store).succeeded()
    moved, present = amounts(
        run("pull", f"{registry.host}/me/m:n", "n", "--json", store=other), "moved", "present"
    )
    assert moved > 0
    assert present > 0


def test_a_dry_run_moves_nothing(registry, store, tmp_path):
    told = pushed(registry, store, "--dry-run", "--json").succeeded().document
    assert "pushing" not in pushed(registry, store, "--dry-run").succeeded().stderr
    assert registry.blobs == {}
    assert registry.asked("POST") == []

    done = pushed(registry, store, "--json").succeeded().document
    assert told["moved"] == done["moved"]
    other = tmp_path / "other"
    told = pulled(registry, other, "--dry-run", "--json").succeeded().document
    assert not other.exists()
    assert told["moved"] == pulled(registry, other, "--json").succeeded().document["moved"]


def test_a_name_that_is_taken_is_left_alone_if_that_is_asked(registry, store, tmp_path):
    pushed(registry, store).succeeded()
    other = tmp_path / "other"
    run("create", "p", MODELS / "tiny-moe", store=other).succeeded()
    before = digest_in(other, "p")
    registry.forget()

    assert "already exists" in pulled(registry, other, "--no-clobber").failed(2)

    assert registry.requests == []
    assert digest_in(other, "p") == before
    pulled(registry, other, "--no-clobber", name="free").succeeded()


def test_a_name_that_is_taken_while_blobs_come_is_left_alone(registry, store, monkeypatch):
    pushed(registry, store).succeeded()
    check, taken = pull.lacking, []

    def take_it(writer, own, refs, tally):
        taken.append(run("create", "p", MODELS / "tiny-moe", store=store).succeeded())
        return check(writer, own, refs, tally)

    monkeypatch.setattr(pull, "lacking", take_it)

    assert "already exists" in pulled(registry, store, "--no-clobber").failed(2)

    assert digest_in(store, "p") in taken[0].stdout


def test_what_a_name_stood_for_before_is_pushed_by_its_id(registry, store):
    before = digest_in(store, "m")
    run("create", "m", MODELS / "tiny-moe", store=store).succeeded()
    name = f"m@{before.removeprefix('sha256:')[:12]}"

    done = run("push", name, f"{registry.host}/me/m:old", "--json", store=store)

    assert done.succeeded().document["digest"] == before
    assert digest_of(registry.manifests["me/m", "old"][1]) == before


def test_blobs_are_mounted_from_a_repository_that_has_them(registry, store):
    pushed(registry, store).succeeded()
    registry.forget()

    moved, mounted = amounts(
        run("push", "m", f"{registry.host}/you/m", "--mount", "me/m", "--json", store=store),
        "moved",
        "mounted",
    )

    assert moved == 0
    assert mounted > 0
    assert [one for one in registry.requests if one.received > 20_000] == []


def test_blobs_are_mounted_from_where_another_name_of_the_store_says(registry, store):
    pushed(registry, store).succeeded()
    run("cp", "m", f"{registry.host}/me/m", store=store).succeeded()

    assert amounts(
        run("push", "m", f"{registry.host}/you/m", "--json", store=store), "moved"
    ) == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_a_pull_goes_on_where_the_connection_broke(registry, store, tmp_path, seed):
    pushed(registry, store).succeeded()
    digest, content = max(registry.blobs.items(), key=lambda pair: len(pair[1]))
    cut = random.Random(seed).randrange(1, len(content))
    registry.faults.append(Fault("GET", digest[1], cut=cut))

    pulled(registry, tmp_path / "other").succeeded()

    asked = registry.asked("GET", digest[1])
    assert [one.sent for one in asked] == [cut, len(content) - cut]
    assert digest_in(tmp_path / "other", "p") == digest_in(store, "m")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("keeps_parts", [True, False])
def test_a_push_goes_on_where_the_connection_broke(
    registry, store, monkeypatch, seed, keeps_parts
):
    monkeypatch.setattr(upload, "CHUNK_BYTES", 1000)
    registry.keeps_parts = keeps_parts
    stop = random.Random(seed).randrange(1, 1000)
    registry.faults.append(Fault("PATCH", "", stop=stop, spares=seed % 5))

    document = pushed(registry, store, "--json").succeeded().document

    sent = sum(one.received for one in registry.asked("PATCH"))
    with Store(store) as opened:
        manifest = opened.catalog.get(ModelName.parse("m")).parse()
    large = sum(ref.size for ref in set(manifest.blobs) if ref.size > 1000)
    assert document["moved"]["bytes"] == manifest.nbytes
    if keeps_parts:
        assert sent == large
    assert {digest_of(data) for data in registry.blobs.values()} == {
        digest for _, digest in registry.blobs
    }


def test_a_blob_is_given_up_later_where_bytes_go_through(registry, tmp_path, monkeypatch):
    """A registry that keeps nothing of a cut chunk has a large blob cut many times."""
    monkeypatch.setattr("importer.http.ranges._FIRST_WAIT", 0.0)
    tensors = {"w.weight": ("F32", (1024, 1024))}
    source, store = model(tmp_path / "in", tensors), tmp_path / "store"
    run("create", "m", source, store=store).succeeded()
    registry.keeps_parts = False
    registry.faults.append(Fault("PUT", "uploads", stop=2 << 20, times=12))

    pushed(registry, store).succeeded()

    registry.faults.append(Fault("PUT", "uploads", stop=100, times=None))
    again = run("push", "m", f"{registry.host}/you/m", store=store)
    assert "hint: Run the command again" in again.failed(10)


def test_what_an_interrupted_pull_has_fetched_is_not_fetched_again(registry, store, tmp_path):
    pushed(registry, store).succeeded()
    (_, digest), content = max(registry.blobs.items(), key=lambda pair: len(pair[1]))
    registry.faults.append(Fault("GET", digest, cut=900))
    registry.faults.append(Fault("GET", digest, status=403, times=None))
    other = tmp_path / "other"
    pulled(registry, other).failed(11)
    left = [path for path in (other / "tmp").rglob("*.partial") if path.stat().st_size]
    registry.faults.clear()
    registry.forget()

    document = pulled(registry, other, "--json").succeeded().document

    assert document["moved"]["bytes"] == sum(one.sent for one in registry.asked("GET", "blobs"))
    assert [path.name for path in left if digest[7:] in path.name] != []
    assert [one.sent for one in registry.asked("GET", digest)] == [len(content) - 900]
    assert list((other / "tmp").iterdir()) == []


def test_what_a_dead_pull_has_fetched_is_for_gc_to_free(registry, store, tmp_path):
    pushed(registry, store).succeeded()
    (_, digest), _ = max(registry.blobs.items(), key=lambda pair: len(pair[1]))
    registry.faults.append(Fault("GET", digest, cut=900))
    registry.faults.append(Fault("GET", digest, status=403, times=None))
    other = tmp_path / "other"
    pulled(registry, other).failed(11)

    assert "p:latest" in run("gc", "--yes", store=other).succeeded().stdout
    assert list((other / "tmp").iterdir()) == []


def test_a_part_of_an_earlier_run_that_is_damaged_is_fetched_again(registry, store, tmp_path):
    pushed(registry, store).succeeded()
    (_, digest), content = max(registry.blobs.items(), key=lambda pair: len(pair[1]))
    registry.faults.append(Fault("GET", digest, cut=900))
    registry.faults.append(Fault("GET", digest, status=403, times=None))
    other = tmp_path / "other"
    pulled(registry, other).failed(11)
    (part,) = (other / "tmp").rglob(f"*{digest[7:]}.partial")
    part.write_bytes(b"\0" * 900)
    registry.faults.clear()

    pulled(registry, other).succeeded()

    assert registry.asked("GET", digest)[-1].sent == len(content)
    with Store(other) as opened:
        assert verify(opened).findings == ()


def test_a_blob_with_a_wrong_hash_gets_no_name(registry, store, tmp_path):
    pushed(registry, store).succeeded()
    (_, digest), _ = max(registry.blobs.items(), key=lambda pair: len(pair[1]))
    registry.faults.append(Fault("GET", digest, flip=17, times=None))
    other = tmp_path / "other"

    message = pulled(registry, other).failed(10)

    assert "damaged" in message
    assert not (other / "blobs" / digest.replace(":", "-")).exists()
    run("show", "p", store=other).failed(9)


def test_a_blob_that_another_program_put_there_is_hashed(registry, store, tmp_path):
    pushed(registry, store).succeeded()
    other = tmp_path / "other"
    run("create", "x", MODELS / "tiny-moe", store=other).succeeded()
    items = sorted(registry.blobs.items(), key=lambda pair: -len(pair[1]))
    (_, good), content = items[0]
    (_, bad), other_content = items[1]
    blobs = other / "blobs"
    (blobs / good.replace(":", "-")).write_bytes(content)
    (blobs / bad.replace(":", "-")).write_bytes(b"\0" * len(other_content))
    registry.forget()

    pulled(registry, other).succeeded()

    assert registry.asked("GET", good) == []
    assert len(registry.asked("GET", bad)) == 1
    with Store(other) as opened:
        assert verify(opened).findings == ()


def test_a_blob_that_rotted_is_not_pushed(registry, store):
    with Store(store) as opened:
        manifest = opened.catalog.get(ModelName.parse("m")).parse()
    largest = max(manifest.blobs, key=lambda ref: ref.size)
    path = store / "blobs" / largest.digest.file_name
    path.chmod(0o600)
    path.write_bytes(b"\0" * largest.size)

    message = pushed(registry, store).failed(5)

    assert "damaged" in message
    assert registry.manifests == {}


def test_a_blob_is_asked_for_and_sent_once(registry, store):
    pushed(registry, store).succeeded()

    for digest in {digest for _, digest in registry.blobs}:
        assert len(registry.asked("HEAD", digest)) == 1
        assert len(registry.asked("PUT", digest)) == 1
