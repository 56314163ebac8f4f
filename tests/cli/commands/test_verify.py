"""`ingot verify`: findings are a result, on stdout, with exit code 5."""

from __future__ import annotations

import os

import pytest

from tests.check_store import snapshot
from tests.cli.runner import DIGEST, run
from tests.importer.builders import MODELS, model


def damage(store):
    """Flip a bit of one blob; give its digest."""
    path = max((store / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return path.name.replace("-", ":")


def test_a_good_store_has_no_problems(filled_store):
    outcome = run("verify", store=filled_store).succeeded()

    assert outcome.stdout.startswith("verified 2 models, ")
    assert outcome.stdout.endswith(": no problems\n")


def test_the_document_of_a_good_store(filled_store):
    document = run("verify", "--json", store=filled_store).succeeded().document

    assert document["schema"] == "ingot.verify/1"
    assert (document["ok"], document["models"], document["findings"]) == (True, 2, [])
    blobs = list((filled_store / "blobs").iterdir())
    assert document["blobs"] == len(blobs)
    assert document["bytes"] == sum(path.stat().st_size for path in blobs)


def test_a_finding_is_a_result(filled):
    digest = damage(filled)

    text = run("verify", store=filled).clean()
    document = run("verify", "--json", store=filled).clean().document

    assert text.code == 5
    assert text.stdout.startswith(f"digest: {digest} ")
    assert text.stdout.endswith(": 1 problem\n")
    assert "error" not in text.stderr
    assert document["ok"] is False
    (finding,) = document["findings"]
    assert list(finding) == ["problem", "subject", "message", "models"]
    assert finding["subject"] == digest
    assert len(finding["models"]) == 1
    assert DIGEST.search(finding["message"])


def test_the_name_chooses_what_is_verified(filled):
    digest = damage(filled)
    found = run("verify", "--json", store=filled).document["findings"][0]["models"]
    other = {"kept:latest": "moe:v1", "moe:v1": "kept"}[found[0]]

    assert run("verify", found[0], store=filled).code == 5
    assert run("verify", other, store=filled).code == 0
    assert run("verify", found[0], other, store=filled).code == 5
    assert digest in run("verify", *found, store=filled).stdout


def test_a_quick_look_hashes_nothing(filled):
    damage(filled)

    outcome = run("verify", "--quick", store=filled).succeeded()
    document = run("verify", "--quick", "--json", store=filled).document

    assert outcome.stdout.startswith("looked at 2 models, ")
    assert document["bytes"] == 0


@pytest.mark.parametrize("jobs", ["1", "3", "1000"])
def test_findings_are_the_same_with_any_number_of_jobs(filled, jobs):
    for path in sorted((filled / "blobs").iterdir())[:9]:
        os.truncate(path, 1) if path.chmod(0o600) is None else None

    one = run("verify", "--jobs", "1", store=filled)
    many = run("verify", "--jobs", jobs, store=filled)

    assert (one.code, many.code) == (5, 5)
    assert one.stdout == many.stdout


def test_the_source_is_compared_on_demand(filled_store):
    outcome = run("verify", "kept", "--source", MODELS / "tiny-llama", store=filled_store)

    assert "; compared 21 tensors and 8 files with the source: no problems\n" in outcome.stdout
    words = ("verify", "kept", "--source", MODELS / "tiny-llama", "--json")
    document = run(*words, store=filled_store).succeeded().document
    assert document["source"]["tensors"] == 21
    assert all(type(value) is int for value in document["source"].values())


def test_a_stored_model_is_a_source_to_compare_with(store):
    run("create", "big", MODELS / "tiny-llama", store=store).succeeded()
    run("create", "small", "big", "-q", "int4", store=store).succeeded()
    words = ("verify", "small", "--source", "big")

    outcome = run(*words, store=store).succeeded()
    assert "; compared 21 tensors and 8 files with the source: no problems\n" in outcome.stdout

    run("create", "big", MODELS / "tiny-moe", store=store).succeeded()
    assert run(*words, store=store).code == 5


def test_a_source_that_differs_is_a_finding(filled_store):
    outcome = run("verify", "kept", "--source", MODELS / "tiny-moe", store=filled_store)

    assert outcome.clean().code == 5
    assert outcome.stdout.startswith("source: ")


@pytest.mark.parametrize("names", [(), ("kept", "moe:v1")])
def test_a_source_needs_one_name(filled_store, names):
    text = run("verify", *names, "--source", "x", store=filled_store).failed(2)

    assert "exactly one NAME" in text


def test_a_source_that_is_not_there_is_not_found(filled_store, tmp_path):
    run("verify", "kept", "--source", tmp_path / "no", store=filled_store).failed(9)


def test_a_source_that_is_broken_is_an_error(filled_store, tmp_path):
    source = model(tmp_path / "m")
    (source / "model.safetensors").write_bytes(b"")

    run("verify", "kept", "--source", source, store=filled_store).failed(3)


def test_what_nobody_names_is_a_note(filled):
    run("rm", "kept", store=filled)

    outcome = run("verify", store=filled).succeeded()

    assert outcome.stderr.startswith("note: ")
    assert " blobs (" in outcome.stderr
    assert run("verify", "--json", store=filled).succeeded().document["notes"]


@pytest.mark.parametrize("words", [(), ("--quick",), ("kept",), ("--json",)])
def test_verifying_changes_nothing(filled, words):
    damage(filled)
    before = snapshot(filled)

    run("verify", *words, store=filled)

    assert snapshot(filled) == before


def test_an_export_is_compared(filled, tmp_path):
    place = tmp_path / "out"
    run("export", "kept", place, "--to", "hf", store=filled).succeeded()
    words = ("verify", "kept", "--export", place)

    text = run(*words, store=filled).succeeded().stdout
    assert "compared 21 tensors and 8 files with the export: no problems" in text
    (place / "tokenizer.json").write_bytes(b"{}")
    found = run(*words, "--json", store=filled)

    assert found.code == 5
    (finding,) = found.document["findings"]
    assert (finding["problem"], finding["subject"]) == ("export", "tokenizer.json")
    assert found.document["export"]["tensors"] == 21


@pytest.mark.parametrize("words", [[], ["kept", "moe:v1"], ["kept", "--repair"]])
def test_an_export_is_of_one_model(filled_store, words):
    run("verify", *words, "--export", "x", store=filled_store).failed(2)


def test_a_damaged_manifest_is_not_said_to_be_repairable(store):
    run("create", "m", MODELS / "tiny-llama", store=store).succeeded()
    (path,) = (path for path in (store / "manifests").rglob("latest") if path.is_file())
    path.unlink()
    path.write_bytes(b"{")

    done = run("verify", store=store)

    assert done.code == 5
    assert "--repair" not in done.stderr
    assert "`ingot create`, `ingot pull` or `ingot load`" in done.stderr


def test_a_missing_blob_is_one_problem_beside_its_source(store):
    run("create", "m", MODELS / "tiny-llama", store=store).succeeded()
    max((store / "blobs").iterdir(), key=lambda path: path.stat().st_size).unlink()

    outcome = run("verify", "m", "--source", MODELS / "tiny-llama", store=store)

    assert outcome.code == 5
    assert outcome.stdout.endswith(": 1 problem\n")
    assert f"`ingot verify m --repair --source {MODELS / 'tiny-llama'}`" in outcome.stderr


def test_another_model_s_source_is_one_problem_and_all_of_them_in_json(store):
    run("create", "m", MODELS / "tiny-llama", store=store).succeeded()
    words = ("verify", "m", "--source", MODELS / "tiny-moe")

    lines = run(*words, store=store).stdout.splitlines()

    assert len(lines) == 2
    assert "tiny-moe` is of another model: " in lines[0]
    assert len(run(*words, "--json", store=store).document["findings"]) > 20


def test_the_blobs_of_a_torn_manifest_are_not_promised_to_gc(store):
    run("create", "m", MODELS / "tiny-llama", store=store).succeeded()
    (manifest,) = (path for path in (store / "manifests").rglob("*") if path.is_file())
    manifest.write_bytes(manifest.read_bytes()[:500])

    outcome = run("verify", store=store)

    assert "gc keeps them until every manifest can be read or is removed" in outcome.stderr
    assert outcome.stdout.count("m:latest") == 1
    assert "`ingot gc` deletes those" in run("rm", "m", store=store).succeeded().stderr
    assert "named by no model, such as" in run("verify", store=store).stderr
