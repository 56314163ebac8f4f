"""What commands say of a source, a plan and a layout: precisely, and each thing once."""

from __future__ import annotations

import re

from tests.cli.runner import run
from tests.importer.builders import MODELS, model, write

LLAMA = MODELS / "tiny-llama"
NUMBERED = re.compile(r"^ +\d+ +\*", re.MULTILINE)


def test_a_config_json_beside_the_file_that_was_named_is_said_to_be_left_alone(store, tmp_path):
    source = model(tmp_path / "m") / "model.safetensors"

    told = run("create", "m", source, store=store).succeeded().stderr

    assert "note: the config.json beside this file is not part of the model" in told
    assert f"name the directory: {tmp_path / 'm'}" in told
    assert "there is no config.json" not in told


def test_a_pointer_of_git_lfs_is_told_with_what_fetches_the_file(store, tmp_path):
    source = write(tmp_path / "m", {"model.safetensors": b"version https://git-lfs.github.com"})

    told = run("create", "m", source, store=store).failed(3)

    assert "hint: `git lfs pull` fetches the file itself" in told
    (source / "model.safetensors").write_bytes(b"\x89HDF" + bytes(99))
    told = run("create", "m", source, store=store).failed(3)
    assert "hint: Fetch the file again" in told
    assert "lfs" not in told


def test_a_plan_numbers_its_rules_where_a_column_names_them(store):
    words = ("create", "m", LLAMA, "-q", "int4", "--dry-run")

    wide = run(*words, store=store).succeeded().stdout
    narrow = run(*words, store=store, COLUMNS="60").succeeded().stdout

    assert " RULE " in wide
    assert NUMBERED.search(wide.partition("MATCHES")[2])
    assert " RULE " not in narrow
    assert not NUMBERED.search(narrow.partition("MATCHES")[2])


def test_what_the_store_has_is_read_from_blobs_and_both_sides_of_a_diff_are_named(filled):
    told = run("diff", "kept", LLAMA, store=filled).succeeded().stderr

    assert "scanned kept:latest: 21 tensors in 21 blobs (167 KB)\n" in told
    assert f"scanned {LLAMA}: 21 tensors in 3 files (167 KB)\n" in told
    again = run("create", "again", "kept", store=filled).succeeded().stderr
    assert "scanned 21 tensors in 21 blobs (167 KB)\n" in again


def test_saving_and_loading_count_the_same_blobs_and_name_the_models(filled, tmp_path):
    saved = run("save", "kept", tmp_path / "m.tar", store=filled).succeeded().stderr
    loaded = run("load", tmp_path / "m.tar", store=tmp_path / "other").succeeded().stderr

    (begun,) = re.findall(r"m\.tar: (.*) in all\n", saved)
    assert f"saved {begun} in an archive of " in saved
    assert "loaded kept:latest: " in loaded
