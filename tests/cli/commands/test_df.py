"""`ingot df`: disk usage, and what would free it."""

from __future__ import annotations

import pytest

from tests.cli.runner import DIGEST, run
from tests.importer.builders import MODELS


def test_a_store_that_is_not_there_is_not_found(store):
    assert "there is no store" in run("df", store=store).failed(9)
    assert not store.exists()


def test_own_bytes_are_what_rm_and_gc_free(filled):
    run("create", "small", MODELS / "tiny-llama", "-q", "int4", store=filled).succeeded()
    before = run("df", "--json", store=filled).succeeded().document
    (small,) = [one for one in before["models"] if one["name"] == "small:latest"]
    assert small["own"] + small["shared"] == small["size"]
    assert small["shared_with"][0]["name"] == "kept:latest"
    assert DIGEST.fullmatch(small["digest"])

    told = run("rm", "small", "--json", store=filled).succeeded().document
    planned = run("df", "--json", store=filled).document["gc"]
    freed = run("gc", "--yes", "--json", store=filled).document

    assert told["to_free"]["bytes"] == planned["bytes"] == freed["bytes"] == small["own"]
    after = run("df", "--json", store=filled).document
    assert after["bytes"] == before["bytes"] - small["own"]
    blobs = list((filled / "blobs").iterdir())
    assert after["bytes"] == sum(path.stat().st_size for path in blobs)
    assert after["blobs"] == len(blobs)


def test_two_names_of_a_model_have_nothing_alone(filled):
    run("cp", "kept", "other", store=filled).succeeded()

    models = run("df", "--json", store=filled).document["models"]

    assert {one["name"]: one["own"] for one in models if one["name"] != "moe:v1"} == {
        "kept:latest": 0,
        "other:latest": 0,
    }
    assert run("rm", "other", "--json", store=filled).document["to_free"]["bytes"] == 0


def test_what_killed_imports_and_quarantine_take_is_told(filled):
    folder = filled / "tmp" / "host.boot.1.x"
    folder.mkdir(parents=True)
    (filled / "quarantine" / "sha256-x.1").write_bytes(b"x" * 100)
    machine = run("df", "--json", store=filled).document["gc"]
    assert machine["quarantined"] == [{"name": "sha256-x.1", "bytes": 100}]
    assert len(machine["kept_writers"]) == 1

    shown = run("df", store=filled).succeeded().stdout

    assert "100 B in 1 corrupt blob" in shown
    assert "by 1 writer" in shown


def test_a_manifest_that_cannot_be_read_is_told(filled):
    (filled / "manifests/registry.ollama.ai/library/moe/v1").write_bytes(b"{")

    outcome = run("df", store=filled).clean()
    document = run("df", "--json", store=filled).document

    assert outcome.code == 5
    assert "kept:latest" in outcome.stdout
    assert "make the model again, or remove it" in outcome.stderr
    assert (document["gc"], len(document["problems"])) == (None, 1)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_it_fits_the_terminal(filled, columns):
    run("cp", "kept", f"team/{'long' * 15}:v1", store=filled).succeeded()

    shown = run("df", store=filled, COLUMNS=str(columns)).succeeded().stdout

    assert max(map(len, shown.splitlines())) <= columns
    assert "kept:latest" in shown


def test_a_partner_is_named_whole_or_counted(filled):
    for number in range(4):
        run("cp", "kept", f"kept:copy-{number}", store=filled).succeeded()

    def partners(columns):
        shown = run("df", store=filled, COLUMNS=str(columns)).succeeded().stdout
        (row,) = (line for line in shown.splitlines() if line.startswith("kept:latest "))
        return row

    assert partners(60).endswith("  5 models")
    assert ", 4 more" in partners(100)
    assert ", 2 more" in partners(200)
    assert "…" not in partners(60) + partners(100) + partners(200)


def test_gc_says_whose_the_blobs_were(filled):
    run("create", "small", MODELS / "tiny-llama", "-q", "int4", store=filled).succeeded()
    run("create", "small", MODELS / "tiny-llama", "-q", "int8", store=filled).succeeded()
    run("rm", "moe:v1", store=filled).succeeded()

    shown = run("gc", "--dry-run", store=filled).succeeded().stdout
    document = run("gc", "--dry-run", "--json", store=filled).document
    df = run("df", store=filled).succeeded().stdout

    owners = {one["name"]: one["bytes"] for one in document["owners"]}
    assert set(owners) == {"moe:v1", "small:latest"}
    assert sum(owners.values()) >= sum(one["bytes"] for one in document["blobs"])
    assert "of former moe:v1" in shown
    assert "of moe:v1" in " ".join(df.split())
    freed = run("gc", "--yes", "--json", store=filled).document
    assert freed["owners"] == document["owners"]
