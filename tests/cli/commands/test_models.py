"""`ingot list`, `cp` and `rm`: the names in the store."""

from __future__ import annotations

import re

import pytest

from importer.models.summary import shortened
from tests.check_store import check_store, manifest_digest, manifest_path, snapshot
from tests.cli.runner import DIGEST, RFC3339, run
from tests.importer.builders import MODELS

HEAD = ["NAME", "ID", "SIZE", "MODIFIED", "TYPE", "PARAMETERS", "ARCHITECTURE"]


def names(store):
    return [found["name"] for found in run("list", "--json", store=store).document["models"]]


def test_an_empty_store_lists_nothing(store):
    (store / "blobs").mkdir(parents=True)
    assert run("list", store=store).succeeded().stdout.split() == HEAD
    assert names(store) == []
    assert [path.name for path in store.iterdir()] == ["blobs"]


def test_models_are_listed_as_ollama_lists_them(filled_store):
    lines = run("list", store=filled_store).succeeded().stdout.splitlines()

    assert lines[0].split() == HEAD
    assert lines[1].split()[:4] == [
        "kept:latest",
        manifest_digest(filled_store, "kept")[7:19],
        "170",
        "KB",
    ]
    assert lines[2].startswith("moe:v1")
    columns = [line.split()[:4] for line in run("ls", store=filled_store).stdout.splitlines()]
    assert columns == [line.split()[:4] for line in lines]


def test_the_document_of_list(filled_store):
    document = run("list", "--json", store=filled_store).succeeded().document

    assert document["schema"] == "ingot.list/1"
    for found in document["models"]:
        assert list(found)[:4] == ["name", "digest", "size", "modified"]
        assert DIGEST.fullmatch(found["digest"])
        assert type(found["size"]) is int
        assert RFC3339.fullmatch(found["modified"])


@pytest.mark.parametrize(("prefix", "found"), [("ke", 1), ("KE", 1), ("moe:v", 1), ("x", 0)])
def test_a_prefix_chooses_names(filled_store, prefix, found):
    document = run("list", prefix, "--json", store=filled_store).succeeded().document

    assert len(document["models"]) == found


def test_a_manifest_that_cannot_be_read_is_told_and_the_rest_listed(filled):
    manifest_path(filled, "kept").write_bytes(b"")

    outcome = run("list", store=filled).clean()

    assert "moe:v1" in outcome.stdout
    assert "manifest of `kept:latest`" in outcome.stderr


def test_a_copy_is_the_same_model(filled):
    outcome = run("cp", "kept", "team/other:v2", store=filled).succeeded()

    assert outcome.stdout == "copied 'kept:latest' to 'team/other:v2'\n"
    assert manifest_digest(filled, "team/other:v2") == manifest_digest(filled, "kept")
    assert check_store(filled) == []


def test_the_document_of_cp(filled):
    kept, moe = manifest_digest(filled, "kept"), manifest_digest(filled, "moe:v1")

    first = run("cp", "kept", "other", "--json", store=filled).succeeded().document
    second = run("cp", "moe:v1", "other", "--json", store=filled).succeeded().document

    assert first == {
        "schema": "ingot.cp/1",
        "source": "kept:latest",
        "target": "other:latest",
        "replaced": None,
    }
    assert second["replaced"] == kept
    assert manifest_digest(filled, "other") == moe


def test_a_copy_over_a_name_tells_what_was_there(filled):
    run("cp", "kept", "other", store=filled)

    outcome = run("cp", "moe:v1", "other", store=filled).succeeded()

    was = manifest_digest(filled, "kept")[7:19]
    assert outcome.stderr == f"replaced other:latest (was {was})\n"


def test_a_copy_of_a_model_to_itself_changes_nothing(filled):
    before = manifest_digest(filled, "kept")

    outcome = run("cp", "kept", "kept", store=filled).succeeded()

    assert outcome.stdout == "'kept:latest' is unchanged\n"
    assert not outcome.stderr
    assert manifest_digest(filled, "kept") == before


def test_a_copy_to_a_name_of_the_same_model_says_that_it_has_it_already(filled):
    run("cp", "kept", "twin", store=filled).succeeded()

    again = run("cp", "kept", "twin", store=filled).succeeded()

    assert again.stdout == "'twin:latest' is unchanged: it is 'kept:latest' already\n"


def test_names_are_listed_by_their_parts(filled):
    for name in ("llama4", "llama", "llama:1b"):
        run("cp", "kept", name, store=filled).succeeded()

    listed = run("list", "llama*", store=filled).stdout.splitlines()[1:]

    assert [line.split()[0] for line in listed] == ["llama:1b", "llama:latest", "llama4:latest"]


def test_a_copy_of_a_damaged_model_is_refused(filled):
    next((filled / "blobs").iterdir()).unlink()

    codes = {run("cp", name, "other", store=filled).code for name in ("kept", "moe:v1")}

    assert codes == {0, 5}


@pytest.mark.parametrize("words", [("cp", "no", "x"), ("rm", "no"), ("verify", "no")])
@pytest.mark.parametrize("json", [(), ("--json",)])
def test_a_model_that_is_not_there_is_not_found(filled_store, store, words, json):
    before = snapshot(filled_store)

    for place in (filled_store, store):
        outcome = run(*words, *json, store=place)
        assert outcome.code == 9
        assert outcome.clean().stdout == ""
        what = "model `no:latest` not found" if place == filled_store else "there is no store"
        assert what in outcome.stderr

    assert snapshot(filled_store) == before
    assert not store.exists()


def test_a_removed_name_is_gone_and_its_blobs_stay(filled):
    blobs = sorted((filled / "blobs").iterdir())

    outcome = run("rm", "kept", store=filled).succeeded()

    assert outcome.stdout == "deleted 'kept:latest'\n"
    assert names(filled) == ["moe:v1"]
    assert sorted((filled / "blobs").iterdir()) == blobs


def test_several_names_are_removed_or_none(filled):
    before = names(filled)
    run("rm", "kept", "no", "moe:v1", store=filled).failed(9)
    assert names(filled) == before

    document = run("rm", "kept", "moe:v1", "--json", store=filled).succeeded().document
    assert document["removed"] == ["kept:latest", "moe:v1"]
    assert document["to_free"] == {
        "blobs": len(list((filled / "blobs").iterdir())),
        "bytes": sum(path.stat().st_size for path in (filled / "blobs").iterdir()),
    }
    assert names(filled) == []


def test_a_name_may_be_given_twice(filled):
    run("rm", "kept", "kept:latest", store=filled).succeeded()

    assert names(filled) == ["moe:v1"]


def test_names_that_are_needed_and_missing_are_a_usage_error(store):
    for words in (("rm",), ("cp",), ("cp", "a", "b", "c"), ("show",)):
        hint = f"`ingot {words[0]} --help` explains the command"
        assert hint in run(*words, store=store).failed(2)
    assert "the name may stay" in run("cp", "a", store=store).failed(2)


@pytest.mark.parametrize(
    "words", [("list", "--store"), ("create", "x", "--embedding"), ("rm", "--no"), ("gc", "x")]
)
def test_the_hint_names_the_command_that_was_meant(words):
    assert f"`ingot {words[0]} --help` explains" in run(*words).failed(2)


def test_removing_and_creating_again_gives_the_same_model(filled):
    before = manifest_digest(filled, "kept")
    run("rm", "kept", store=filled).succeeded()
    run("gc", "--yes", store=filled).succeeded()

    run("create", "kept", MODELS / "tiny-llama", store=filled).succeeded()

    assert manifest_digest(filled, "kept") == before
    assert check_store(filled, after_gc=True) == []


def test_list_tells_of_what_it_cannot_read(filled):
    bad = filled / "manifests" / "registry.ollama.ai" / "library" / "bad"
    bad.mkdir()
    (bad / "latest").write_text("{")
    (bad / "two").mkdir()

    document = run("list", "--json", store=filled).succeeded().document

    assert len(document["problems"]) == 2


def test_an_empty_store_or_source_is_not_the_current_directory(filled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert run("list", "--store", "", store=filled).code == 2
    assert run("create", "x", "", store=filled).code == 2
    assert not (tmp_path / "blobs").exists()


def test_a_store_that_is_a_file_is_refused(tmp_path):
    place = tmp_path / "file"
    place.write_text("x")

    assert run("list", store=place).code == 8


def test_an_id_means_a_model_wherever_one_is_read(filled, tmp_path):
    digest = manifest_digest(filled, "kept")
    short = digest[7:15]

    assert run("show", short, "--json", store=filled).document["digest"] == digest
    assert run("verify", digest, "--quick", store=filled).succeeded()
    run("cp", short, "other", store=filled).succeeded()
    assert manifest_digest(filled, "other") == digest
    run("create", "small", short, "-q", "int4", store=filled).succeeded()
    run("export", digest, tmp_path / "hf", "--to", "hf", store=filled).succeeded()
    assert run("cp", "kept", short, store=filled).succeeded()
    assert f"{short}:latest" in names(filled)


def test_a_mistyped_name_is_answered_with_a_near_one(filled_store):
    for words in (("show", "kpet"), ("verify", "kpet"), ("cp", "kpet", "x"), ("rm", "kpet")):
        assert "hint: Did you mean `kept:latest`?" in run(*words, store=filled_store).failed(9)


def test_an_id_is_not_a_name_that_is_removed(filled):
    short = manifest_digest(filled, "kept")[7:19]

    assert "Did you mean `kept:latest`?" in run("rm", short, store=filled).failed(9)


def test_rm_takes_globs_and_says_what_became_free(filled):
    run("cp", "kept", "kept:backup", store=filled).succeeded()

    one = run("rm", "kept:backup", store=filled).succeeded()
    assert one.stderr == ""
    run("cp", "kept", "kept:backup", store=filled).succeeded()
    both = run("rm", "kept*", store=filled).succeeded()

    assert both.stdout == "deleted 'kept:backup'\ndeleted 'kept:latest'\n"
    assert (
        both.stderr == "29 blobs (169 KB) are no longer referenced; `ingot gc` deletes them\n"
    )
    assert names(filled) == ["moe:v1"]


def test_models_are_chosen_and_ordered(filled):
    run("cp", "moe:v1", "a", store=filled).succeeded()

    by_size = run("list", "--names", "--sort", "size", store=filled).succeeded().stdout
    latest = run("list", "--names", "--sort", "modified", store=filled).succeeded().stdout
    chosen = run("list", "*oe:*", "--names", store=filled).succeeded().stdout

    assert by_size.split() == ["a:latest", "moe:v1", "kept:latest"]
    assert latest.split()[0] == "a:latest"
    assert chosen == "moe:v1\n"
    for words in (
        ("--names", "--json"),
        ("--history", "--names"),
        ("--history", "--sort", "size"),
    ):
        assert run("list", *words, store=filled).code == 2


def test_a_list_has_types_parameters_and_architectures(filled_store):
    document = run("list", "--json", store=filled_store).document
    shown = run("list", store=filled_store).stdout

    found = {one["name"]: one for one in document["models"]}
    kept = found["kept:latest"]
    assert (kept["type"], kept["parameter_size"]) == ("BF16", "82.2K")
    assert found["moe:v1"]["architecture"] == "Glm4MoeForCausalLM"
    assert "LlamaForCausalLM" in shown
    narrow = run("list", store=filled_store, COLUMNS="60").stdout
    assert "LlamaForCausalLM" not in narrow
    assert "kept:latest" in narrow


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_a_type_of_floats_is_spelled_as_that_of_tensors(store, kind):
    run("create", "m", MODELS / "tiny-llama", "-q", kind, store=store).succeeded()

    (row,) = run("list", "--json", store=store).document["models"]
    shown = run("show", "m", store=store).succeeded().stdout

    assert row["type"] == kind.upper()
    assert re.search(rf"^    {kind.upper()} +\d", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("22.57M", "22.6M"),
        ("8.03B", "8.0B"),
        ("137.02M", "137M"),
        ("999.4K", "999K"),
        ("1.5T", "1.5T"),
        ("82.2K", "82.2K"),
        ("49K", "49K"),
        ("512", "512"),
        ("8x7B", "8x7B"),
        ("M", "M"),
        ("", ""),
    ],
)
def test_numbers_of_parameters_have_as_many_digits_whoever_wrote_them(stored, shown):
    assert shortened(stored) == shown


def test_a_model_whose_configuration_is_damaged_is_warned_of(store):
    run("create", "m", MODELS / "tiny-llama", store=store).succeeded()
    (config,) = [
        path for path in (store / "blobs").iterdir() if b'"ingot":' in path.read_bytes()
    ]
    config.chmod(0o644)
    config.write_bytes(config.read_bytes().replace(b'"ingot"', b'"ingat"'))

    told = "the configuration of m:latest is missing or damaged"
    assert run("list", "--json", store=store).document["problems"] == [told]
    shown = run("show", "m", store=store)
    assert shown.code == 5
    assert "the configuration, is damaged" in shown.stderr
    assert "LlamaForCausalLM" in shown.stdout
    for part in ("--recipe", "--modelfile", "--metadata", "--quality"):
        outcome = run("show", "m", part, store=store)
        assert (outcome.code, outcome.stdout) == (5, "")
        assert "the configuration, is damaged" in outcome.stderr


def test_a_model_without_its_configuration_is_warned_of(store):
    run("create", "m", MODELS / "tiny-llama", store=store).succeeded()
    config = run("show", "m", "--json", store=store).document["config"]
    lost = [path for path in (store / "blobs").iterdir() if b'"ingot":' in path.read_bytes()]
    assert config
    (only,) = lost
    only.unlink()

    outcome = run("list", store=store).succeeded()

    told = "the configuration of m:latest is missing or damaged"
    command = f"ingot verify m:latest --repair --store {store}"
    assert f"{told}; `{command}` makes it again" in outcome.stderr
    assert run("list", "--json", store=store).document["problems"] == [told]
