"""What `create` tells before and after: whose name that is, what fits, what was won."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from store.fs import FileSystem
from tests.check_store import manifest_digest, snapshot
from tests.cli.runner import argv, environment, run
from tests.cli.test_read_only_stores import AS_NOBODY, NOBODY, why_not_nobody
from tests.importer.builders import MODELS, model, write

LLAMA = MODELS / "tiny-llama"


@pytest.mark.parametrize(
    ("words", "better"),
    [
        (("./big",), "ingot create NAME ./big"),
        (("big/model",), "ingot create NAME big/model"),
        (("/no/where",), "ingot create NAME /no/where"),
        (("hf:org/repo",), "ingot create NAME hf:org/repo"),
        (("hf.co/org/repo",), "ingot create NAME hf.co/org/repo"),
        (("big/model", "llama"), "ingot create llama big/model"),
        (("./a b", "llama"), "ingot create llama './a b'"),
        (("./new", "big/model"), "ingot create NAME big/model"),
        (("../new", "./nowhere"), "ingot create NAME ./nowhere"),
    ],
)
def test_a_source_in_place_of_the_name_is_told_with_the_call_that_works(
    store, tmp_path, monkeypatch, words, better
):
    model(tmp_path / "big" / "model")
    monkeypatch.chdir(tmp_path)

    text = run("create", *words, store=store).failed(2)

    assert f"`{words[0]}` is a source, expected the name of a model" in text
    assert f"`{better}`" in text
    assert not store.exists()


def test_a_name_with_the_hub_s_address_is_a_name_where_a_source_is_named(store):
    run("create", "hf.co/org/repo:int4", LLAMA, store=store).succeeded()


def test_no_clobber_keeps_the_model_that_is_there(filled):
    before = snapshot(filled)

    text = run("create", "kept", MODELS / "tiny-moe", "--no-clobber", store=filled).failed(2)

    assert f"`kept:latest` already exists ({manifest_digest(filled, 'kept')[7:19]})" in text
    assert snapshot(filled) == before
    run("create", "new", MODELS / "tiny-moe", "--no-clobber", store=filled).succeeded()


def test_a_plan_says_what_it_replaces(filled_store, store):
    words = ("create", "kept", MODELS / "tiny-moe", "--dry-run")
    digest = manifest_digest(filled_store, "kept")

    assert f"replaces kept:latest ({digest[7:19]})" in run(*words, store=filled_store).stdout
    assert run(*words, "--json", store=filled_store).document["replaces"] == digest
    assert "replaces" not in run(*words, store=store).stdout
    assert run(*words, "--json", store=store).document["replaces"] is None


def test_a_source_that_is_a_path_and_a_model_is_noted(filled_store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").symlink_to(LLAMA)

    def noted(name, source):
        told = run("create", name, source, "--dry-run", store=filled_store).succeeded().stderr
        return "note: `kept` is a path and a model in the store: took the path" in told

    assert [noted("x", "kept"), noted("x", "./kept"), noted("x", LLAMA)] == [True, False, False]


def test_a_recipe_where_a_type_is_expected_is_said_to_be_one(store):
    told = run("create", "m", LLAMA, "-q", "mixed_4_6", store=store).failed(2)

    assert "`mixed_4_6` is a recipe, expected a type" in told
    assert "`--recipe mixed_4_6`" in told


def test_a_plan_says_that_it_does_not_fit(store, monkeypatch):
    free = FileSystem.free
    monkeypatch.setattr(FileSystem, "free", lambda *one: free(*one)._replace(nbytes=1000))

    done = run("create", "m", LLAMA, "--dry-run", store=store).succeeded()

    assert "warning: the import needs up to " in done.stdout
    assert " of them content, `" in done.stdout
    assert done.stdout.endswith("has 1.0 KB (1,000 bytes) free\n")
    words = ("create", "m", LLAMA, "--dry-run", "--json")
    assert run(*words, store=store).document["fits"] is False


def test_the_summary_has_sizes_quality_and_the_next_command(store):
    *_, sizes, then = (
        run("create", "m", LLAMA, "-q", "int4", "--report", store=store)
        .succeeded()
        .stderr.splitlines()
    )

    assert sizes.startswith("164 KB -> 65 KB (2.5x), 6.29 bits per weight, worst tensor 2")
    assert sizes.endswith(" dB `model.layers.1.self_attn.v_proj.weight`")
    assert then == f"next: ingot show m:latest --store {store}"
    run(*then.split()[2:], store=store).succeeded()


def test_the_summary_of_an_unchanged_model_says_that_nothing_was_written(store):
    run("create", "m", LLAMA, store=store).succeeded()

    told = run("create", "m", LLAMA, store=store).succeeded().stderr

    assert "29 of 29 blobs already in the store\n" in told
    assert "wrote nothing new, reused 29 blobs (169 KB) and 1 document (900 B)" in told


def test_blobs_that_turn_out_to_be_there_are_made_and_not_written(store, tmp_path):
    run("create", "m", LLAMA, store=store).succeeded()

    told = run("create", "n", shutil.copytree(LLAMA, tmp_path / "copy"), store=store).stderr

    assert "making 29 blobs (169 KB), which the store may have\n" in told
    assert "wrote nothing new, reused 29 blobs (169 KB) and 1 document" in told
    assert "writing" not in told


def test_what_is_made_and_what_was_written_are_counted_alike(store, tmp_path):
    run("create", "m", LLAMA, store=store).succeeded()
    source = shutil.copytree(LLAMA, tmp_path / "copy")
    write(source, {"more.json": {}})

    told = run("create", "n", source, "--rule", "lm_head=int8", store=store).succeeded().stderr

    assert "making 30 blobs (165 KB), of which the store may have 29\n" in told
    assert re.search(
        r"^wrote 2 blobs \(.*\) and 1 document \(.*\), reused 28 blobs", told, re.MULTILINE
    )


def test_blobs_that_are_the_same_are_counted_each(store, tmp_path):
    words = {name: {} for name in ("a.json", "b.json", "c.json")}
    source = write(shutil.copytree(LLAMA, tmp_path / "copy"), words)

    told = run("create", "m", source, store=store).succeeded().stderr

    assert "making 32 blobs (169 KB)\n" in told
    assert re.search(
        r"^wrote 30 blobs \(169 KB\) and .*, reused 2 blobs \(4 B\)", told, re.MULTILINE
    )


def test_what_is_always_left_out_is_not_told(store, tmp_path):
    source = model(tmp_path / "m")
    write(source, {".cache/x": b"", "a.safetensors.index.json": {"weight_map": {}}})

    assert "left out" not in run("create", "m", source, store=store).succeeded().stderr
    write(source, {"pytorch_model.bin": b""})
    plan = run("create", "m", source, "--dry-run", "--json", store=store).document
    assert len(plan["left_out"]) == 3
    assert (
        "left out 3 files (weights in another format, 2 more): see --dry-run"
        in run("create", "m", source, store=store).succeeded().stderr
    )


def test_strict_says_how_many_more_do_not_fit(store, tmp_path):
    names = {f"model.layers.{n}.self_attn.q_proj.weight": ("BF16", (4, 48)) for n in range(15)}
    source = model(tmp_path / "m", names)
    words = ("-q", "int4", "--rule", "*=int4", "--strict")

    text = run("create", "m", source, *words, store=store).failed(3)

    assert "15 tensors do not fit their rules: " in text
    assert "(48 % 32 != 0) and 5 more" in text


@pytest.fixture
def open_place():
    """A directory that everybody may look into."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        yield Path(place)


def test_a_file_that_cannot_be_read_is_told_before_anything_is_written(open_place):
    if why := why_not_nobody():
        pytest.skip(why)
    source, store = shutil.copytree(LLAMA, open_place / "m"), open_place / "store"
    for path in (source, *source.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (source / "tokenizer.json").chmod(0o600)
    store.mkdir()
    os.chown(store, NOBODY, NOBODY)

    done = subprocess.run(
        [*AS_NOBODY, *argv("create", "m", source)],
        env=environment(store, HOME="/nonexistent"),
        capture_output=True,
        check=False,
        text=True,
    )

    assert done.returncode == 8, done.stderr
    assert "tokenizer.json`: Permission denied (EACCES)" in done.stderr
    assert "hint: Give yourself the permission" in done.stderr
    assert "writing" not in done.stderr
    assert list(store.glob("blobs/*")) == []


def test_every_name_that_is_missing_is_told_at_once(filled):
    text = run("rm", "a", "kept", "b:v1", store=filled).failed(9)

    assert "models `a:latest`, `b:v1` not found" in text
    run("show", "kept", store=filled).succeeded()


def test_a_foreign_file_among_the_blobs_is_told_with_what_to_do(filled):
    (filled / "blobs" / "foo").write_bytes(b"x")

    told = run("verify", store=filled).stdout

    assert "foreign: blobs/foo is a file that is not a blob: no model needs it, move it" in told


def test_a_file_without_tensors_is_named_itself(store, tmp_path):
    source = model(tmp_path / "m", {}) / "model.safetensors"

    assert f"no weights in `{source}`" in run("create", "m", source, store=store).failed(3)


def test_a_result_that_is_larger_than_what_was_quantized_is_noted(store):
    run("create", "small", LLAMA, "-q", "int2", store=store).succeeded()

    told = run("create", "big", "small", "-q", "int8", store=store).succeeded().stderr
    again = run("create", "big", LLAMA, "-q", "int8", store=store).succeeded().stderr

    assert "larger than the source, which was quantized already" in told
    assert "larger than the source" not in again


def test_an_importance_matrix_without_a_type_is_refused(store):
    told = run("create", "m", LLAMA, "--imatrix", "no.safetensors", store=store).failed(2)

    assert "an importance matrix weighs how values are quantized, expected a type" in told


def test_a_source_without_config_json_is_noted(store, tmp_path):
    source = model(tmp_path / "m")
    (source / "config.json").unlink(missing_ok=True)
    note = "note: there is no config.json"

    assert note in run("create", "m", source, "--dry-run", store=store).succeeded().stdout
    assert note in run("create", "m", source, store=store).succeeded().stderr
    assert note not in run("create", "n", LLAMA, store=store).succeeded().stderr


@pytest.mark.parametrize("source", ["hf:org/model", MODELS / "tiny-llama"])
def test_a_cluster_that_is_not_there_is_known_before_anything_is_fetched_or_made(store, source):
    outcome = run("create", "m", source, "--scheduler", "nonsense", store=store)

    outcome.failed(2)
    assert "`nonsense` is not the address of a scheduler" in outcome.stderr
    assert "fetching" not in outcome.stderr
    assert not list(store.glob("blobs/*"))


def test_without_a_source_it_is_said_which_directory_is_read(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    done = run("create", "x", store=store)

    done.failed(3)
    assert f"reading the current directory, `{tmp_path}`" in done.stderr


def test_scales_of_an_f32_source_are_told_with_what_makes_them_smaller(store, tmp_path):
    data = bytes(range(1, 65)) * 1024  # small numbers, none of them NaN
    tensors = {"model.layers.0.mlp.up_proj.weight": ("F32", (64, 256), data)}
    run("create", "wide", model(tmp_path / "m", tensors), store=store).succeeded()

    wide = run("create", "a", "wide", "-q", "int4", store=store).succeeded()
    run("create", "copy", "wide", "-q", "bf16", store=store).succeeded()
    narrow = run("create", "b", "copy", "-q", "int4", store=store).succeeded()

    assert "6.00 bits per weight" in wide.stderr
    assert "would save 2.0 KB" in wide.stderr
    assert "5.00 bits per weight" in narrow.stderr
    assert "note: the source is F32" not in narrow.stderr


def test_what_is_unchanged_is_not_said_to_be_published(store):
    first = run("create", "m", LLAMA, store=store).succeeded().stderr
    again = run("create", "m", LLAMA, store=store).succeeded().stderr

    assert "published manifest" in first
    assert "published manifest" not in again
    assert "m:latest is unchanged" in again


@pytest.mark.parametrize(
    "words",
    [
        ("create", "other", "tiny-lama:int4"),
        ("diff", "tiny-lama:int4", "tiny-llama:int4"),
        ("export", "tiny-lama:int4", "out", "--to", "hf"),
        ("create", "other", "tiny-llama"),
    ],
)
def test_a_source_that_is_nearly_the_name_of_a_model_says_which(store, words):
    run("create", "tiny-llama:int4", LLAMA, store=store).succeeded()

    done = run(*words, store=store)

    assert done.code == 9
    assert "Did you mean `tiny-llama:int4`?" in done.stderr


def planned_and_made(store, *words):
    planned = run("create", *words, "--dry-run", "--json", store=store).succeeded().document
    made = run("create", *words, "--json", store=store).succeeded().document
    return planned, made


@pytest.mark.parametrize(
    "words",
    [
        (LLAMA,),
        (LLAMA, "-q", "int4"),
        (LLAMA, "-q", "int4", "--report"),
        (MODELS / "tiny-moe", "-q", "nvfp4", "--report"),
        (MODELS / "tiny-pipeline", "-q", "int8", "--report"),
    ],
    ids=lambda words: " ".join(map(str, (words[0].name, *words[1:]))),
)
def test_no_import_writes_more_than_its_plan_says(store, words):
    planned, made = planned_and_made(store, "m", *words)

    new = made["blobs"]["new"]
    assert planned["total"]["blobs"] == new["count"]
    assert planned["new_bytes_at_most"] >= new["bytes"]
    assert planned["new_bytes_at_most"] < 1.1 * new["bytes"] or "--report" in words
    written = sum(path.stat().st_size for path in (store / "blobs").iterdir())
    assert written == new["bytes"]


def test_the_words_of_a_modelfile_are_in_the_plan(store, tmp_path):
    modelfile = tmp_path / "Modelfile"
    modelfile.write_text(f"FROM {LLAMA}\nSYSTEM Be brief.\nPARAMETER seed 1\nPARSER qwen3\n")

    planned, made = planned_and_made(store, "m", "-f", modelfile)

    assert planned["documents"]["blobs"] == 3
    assert planned["total"]["blobs"] == made["blobs"]["new"]["count"]
    assert planned["new_bytes_at_most"] == made["blobs"]["new"]["bytes"]


def test_a_plan_tells_what_a_name_will_stand_for_where_that_is_known(store):
    run("create", "m", LLAMA, "-q", "int4", "--report", store=store).succeeded()
    (before,) = run("list", "--json", store=store).document["models"]

    plan = run("create", "m", LLAMA, "-q", "int4", "--dry-run", store=store).succeeded().stdout
    made = run("create", "m", LLAMA, "-q", "int4", "--json", store=store).document

    assert "writes no new blob: all are in the store\n" in plan
    short = before["digest"][7:19]
    assert f"replaces m:latest ({short}) by {made['digest'][7:19]}\n" in plan
    assert made["blobs"]["new"]["count"] == 0

    again, done = planned_and_made(store, "m", LLAMA, "-q", "int4")
    assert again["digest"] == done["digest"] == made["digest"]
    told = run("create", "m", LLAMA, "-q", "int4", "--dry-run", store=store).stdout
    assert f"leaves m:latest as it is ({done['digest'][7:19]})\n" in told


def test_what_a_name_will_stand_for_is_open_where_blobs_are_not_known(store):
    run("create", "m", LLAMA, store=store).succeeded()

    words = ("create", "m", LLAMA, "-q", "int4", "--dry-run")
    assert run(*words, "--json", store=store).document["digest"] is None
    assert ", unless it is the same\n" in run(*words, store=store).stdout
