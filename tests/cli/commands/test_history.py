"""`ingot list --history` and `ingot cp NAME@ID`: what names stood for before, until gc."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from tests.cli.runner import run
from tests.importer.builders import MODELS

LLAMA = MODELS / "tiny-llama"


def ids(store, *args):
    listed = run("list", "--history", *args, "--json", store=store).succeeded().document
    return [one["digest"].removeprefix("sha256:") for one in listed["models"]]


def now(store, name):
    (one,) = run("list", name, "--json", store=store).succeeded().document["models"]
    return one["digest"].removeprefix("sha256:")


@pytest.fixture
def replaced(filled):
    """A store where `kept` stands for what `moe` is, and once stood for a llama."""
    run("cp", "moe:v1", "kept", store=filled).succeeded()
    return filled


def test_a_store_where_nothing_was_replaced_has_no_history(filled):
    assert run("list", "--history", store=filled).succeeded().stdout.split() == [
        "NAME",
        "ID",
        "SIZE",
        "SET",
        "REPLACED",
        "BY",
    ]


def test_history_says_what_came_after(replaced):
    run("rm", "kept", store=replaced).succeeded()

    first, second = run("list", "--history", "kept", store=replaced).stdout.splitlines()[1:]

    by = {line.split()[1]: line.split()[-1] for line in (first, second)}
    moe = now(replaced, "moe:v1")[:12]
    assert by.pop(moe) == "removed"
    assert list(by.values()) == [moe]


def test_history_has_what_a_name_stood_for_before(filled):
    before = now(filled, "kept")
    run("cp", "moe:v1", "kept", store=filled).succeeded()

    assert ids(filled) == [before]
    shown = run("list", "--history", store=filled).succeeded().stdout
    assert f"kept:latest    {before[:12]}" in shown
    assert ids(filled, "kep") == [before]
    assert ids(filled, "m") == []


@pytest.mark.parametrize("text", ["kept@{}", "kept:latest@sha256:{}", "library/kept@{:.4}"])
def test_what_a_name_stood_for_is_brought_back(replaced, text):
    (before,) = ids(replaced)

    done = run("cp", text.format(before), "kept", store=replaced).succeeded()

    assert done.stdout == f"copied 'kept:latest@{before[:12]}' to 'kept:latest'\n"
    assert now(replaced, "kept") == before
    assert ids(replaced) == [now(replaced, "moe")]


def test_a_removed_name_comes_back(filled):
    before = now(filled, "kept")
    run("rm", "kept", store=filled).succeeded()

    document = run("cp", f"kept@{before}", "kept", "--json", store=filled).succeeded().document

    assert document["source"] == f"kept:latest@{before[:12]}"
    assert document["replaced"] is None
    run("verify", store=filled).succeeded()


def test_what_a_name_stands_for_now_is_named_by_its_id_too(filled):
    run("cp", f"kept@{now(filled, 'kept')[:6]}", "twin", store=filled).succeeded()

    assert now(filled, "twin") == now(filled, "kept")


@pytest.mark.parametrize("text", ["kept@", "kept@abc", "kept@xyz1", "kept@ABCD", "k@a@bcde"])
def test_what_is_not_an_id_is_refused(replaced, text):
    assert "expected at least four digits" in run("cp", text, "b", store=replaced).failed(2)


def test_a_pattern_without_a_former_version_is_said(replaced):
    told = run("list", "zzz", "--history", store=replaced).succeeded().stderr

    assert "no former version has a name that matches `zzz`" in told


def test_a_damaged_former_version_is_not_said_to_be_none(filled):
    run("cp", "moe:v1", "kept", store=filled).succeeded()
    (one,) = (filled / "history").rglob("sha256-*")
    one.with_name(f"sha256-{sha256(b'{').hexdigest()}").write_bytes(b"{")
    one.unlink()

    told = run("list", "--history", store=filled).succeeded().stderr

    assert "warning: kept:latest@" in told
    assert "no name has a former version" not in told


def test_an_id_that_history_lacks_is_not_found(replaced):
    (before,) = ids(replaced)
    other = ("0" if before[0] != "0" else "1") * 12

    said = run("cp", f"kept@{other}", "kept", store=replaced).failed(9)

    assert f"`kept:latest` has no `{other}` in its history" in said
    assert f"hint: `ingot list --history --store {replaced}`" in said


def test_gc_says_that_it_empties_history(replaced):
    (before,) = ids(replaced)
    plan = run("gc", "--dry-run", "--json", store=replaced).succeeded().document
    assert plan["history"] == [{"name": "kept:latest", "digest": f"sha256:{before}"}]
    assert ids(replaced) == [before]

    assert "1 former version" in run("gc", "--yes", store=replaced).succeeded().stdout

    assert ids(replaced) == []
    run("cp", f"kept@{before}", "kept", store=replaced).failed(9)


def test_what_lost_its_blobs_says_so(replaced):
    (before,) = ids(replaced)
    (entry,) = (replaced / "history").rglob("sha256-*")
    lost = json.loads(entry.read_bytes())["layers"][0]["digest"]
    (replaced / "blobs" / lost.replace(":", "-")).unlink()

    assert "1 blob gone" in run("list", "--history", store=replaced).succeeded().stdout
    said = run("cp", f"kept@{before}", "kept", store=replaced).failed(9)
    assert f"1 blob of `kept:latest@{before[:12]}` cannot be found" in said
    assert "hint: Create the model again" in said


def test_a_damaged_entry_is_left_out_with_a_warning(replaced):
    (entry,) = (replaced / "history").rglob("sha256-*")
    torn = b'{"schemaVersion":'
    entry.unlink()
    (entry.parent / f"sha256-{sha256(torn).hexdigest()}").write_bytes(torn)

    listed = run("list", "--history", store=replaced).succeeded()

    assert "warning: kept:latest@" in listed.stderr
    assert "kept" not in listed.stdout


def test_ids_that_begin_alike_are_asked_about(replaced):
    (entry,) = (replaced / "history").rglob("sha256-*")
    first: dict[str, bytes] = {}
    for number in range(10_000):
        data = str(number).encode()
        digest = sha256(data).hexdigest()
        twin = first.setdefault(digest[:4], data)
        if twin != data:
            break
    for one in (data, twin):
        (entry.parent / f"sha256-{sha256(one).hexdigest()}").write_bytes(one)

    said = run("cp", f"kept@{digest[:4]}", "b", store=replaced).failed(2)

    assert f"`kept@{digest[:4]}` may be any of {digest[:4]}" in said
    assert "hint: Give more digits" in said


READS = {
    "show {}": 0,
    "show {} --tensors": 0,
    "show {} --tensor lm_head.weight": 0,
    "show {} --tree": 0,
    "show {} --config": 0,
    "verify {}": 0,
    "verify {} --source {source}": 0,
    "diff {} {source}": 0,
    "create again {}": 0,
    "create again {} -q int4": 0,
    "export {} {out} --to hf": 0,
}


@pytest.mark.parametrize("call", READS)
def test_what_a_name_stood_for_is_read_wherever_a_model_is(replaced, tmp_path, call):
    (before,) = ids(replaced)
    assert run("verify", "kept", "--source", LLAMA, store=replaced).code == 5
    words = [
        word.format(f"kept@{before[:8]}", source=LLAMA, out=tmp_path / "out")
        for word in call.split()
    ]

    run(*words, store=replaced).succeeded()

    if call == "create again {}":
        run("diff", "again", LLAMA, store=replaced).succeeded()
    if call.startswith("export"):
        run(
            "verify", f"kept@{before}", "--export", tmp_path / "out", store=replaced
        ).succeeded()
        assert run("verify", "kept", "--export", tmp_path / "out", store=replaced).code == 5


def test_a_modelfile_begins_from_what_a_name_stood_for(replaced, tmp_path):
    (before,) = ids(replaced)
    (tmp_path / "Modelfile").write_text(f"FROM kept@{before[:8]}\n")

    run("create", "again", "-f", tmp_path / "Modelfile", store=replaced).succeeded()

    assert now(replaced, "again") == before


def test_a_former_model_that_lost_a_blob_is_found_damaged(replaced):
    (before,) = ids(replaced)
    (found,) = (replaced / "history").rglob(f"sha256-{before}")
    layers = json.loads(found.read_bytes())["layers"]
    digest = next(one["digest"] for one in layers if one.get("name") == "lm_head.weight")
    (replaced / "blobs" / digest.replace(":", "-")).unlink()

    found = run("verify", f"kept@{before}", "--json", store=replaced)

    assert found.code == 5
    assert [one["problem"] for one in found.document["findings"]] == ["missing"]
    assert "a name first" in run("verify", f"kept@{before}", "--repair", store=replaced).failed(
        2
    )
    assert run("show", f"kept@{before}", store=replaced).clean().code == 5
    assert "cannot be found" in run("cp", f"kept@{before}", "x", store=replaced).failed(9)


def test_cp_replaces_nothing_when_it_must_not(filled):
    before = now(filled, "kept")

    text = run("cp", "moe:v1", "kept", "--no-clobber", store=filled).failed(2)

    assert "`kept:latest` already exists" in text
    assert now(filled, "kept") == before
    run("cp", "moe:v1", "free", "--no-clobber", store=filled).succeeded()
