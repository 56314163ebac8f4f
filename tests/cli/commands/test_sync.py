"""`ingot sync`: what a list says is made, once; the lock holds what came out."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest

from tests.check_store import check_store, manifest_digest, snapshot
from tests.cli.runner import run
from tests.importer.builders import MODELS, write
from tests.importer.formats.imatrix.builders import dat, ended, entry

PLAIN = '[[model]]\nname = "plain"\nsource = "llama"\n'
SMALL = '[[model]]\nname = "small:int4"\nsource = "./llama"\nquantize = "int4"\n'
DERIVED = '[[model]]\nname = "derived"\nsource = "plain"\nquantize = "int8"\n'


@pytest.fixture
def listing(tmp_path):
    """A list beside the checkpoint that it names, and where nothing else is."""
    shutil.copytree(MODELS / "tiny-llama", tmp_path / "list" / "llama")
    path = tmp_path / "list" / "models.toml"
    path.write_text(PLAIN + SMALL)
    return path


def sync(listing, store, *words):
    return run("sync", listing, *words, "--json", store=store)


def actions(outcome):
    models = outcome.succeeded().document["models"]
    return {one["name"]: one["action"] for one in models}


def lock_of(listing):
    return json.loads((listing.parent / f"{listing.name}.lock").read_text())


def test_what_is_missing_is_made_and_then_left_alone(listing, store):
    # Files that are seconds old are not believed to be unchanged.
    shutil.rmtree(listing.parent / "llama")
    (listing.parent / "llama").symlink_to(MODELS / "tiny-llama")
    made = sync(listing, store)

    assert actions(made) == {"plain:latest": "made", "small:int4": "made"}
    assert check_store(store) == []
    before = snapshot(store / "manifests")
    assert actions(sync(listing, store)) == {
        "plain:latest": "unchanged",
        "small:int4": "unchanged",
    }
    assert snapshot(store / "manifests") == before


def test_the_models_are_those_that_create_makes(listing, store, tmp_path):
    sync(listing, store).succeeded()
    source = listing.parent / "llama"
    run("create", "plain", source, store=tmp_path / "other").succeeded()
    run("create", "small:int4", source, "-q", "int4", store=tmp_path / "other").succeeded()

    for name in ("plain", "small:int4"):
        assert manifest_digest(store, name) == manifest_digest(tmp_path / "other", name)


def test_the_lock_says_what_came_out(listing, store):
    sync(listing, store).succeeded()

    found = lock_of(listing)
    assert found["schema"] == "ingot.lock/1"
    assert [one["name"] for one in found["models"]] == ["plain:latest", "small:int4"]
    assert found["models"][1] == {
        "name": "small:int4",
        "source": "./llama",
        "options": {"quantize": "int4"},
        "commit": None,
        "manifest": manifest_digest(store, "small:int4"),
    }


def test_the_lock_is_mentioned_when_it_is_written(listing, store):
    told = [run("sync", listing, store=store).succeeded().stderr for _ in range(2)]

    assert [f"wrote {listing}.lock: commit it" in text for text in told] == [True, False]


def test_what_differs_is_made_again(listing, store):
    sync(listing, store).succeeded()
    listing.write_text(
        PLAIN + SMALL.replace("int4", "int8").replace("small:int8", "small:int4")
    )

    assert actions(sync(listing, store)) == {
        "plain:latest": "unchanged",
        "small:int4": "replaced",
    }
    assert lock_of(listing)["models"][1]["options"] == {"quantize": "int8"}


def test_a_source_that_changed_is_made_again(listing, store):
    sync(listing, store).succeeded()
    write(listing.parent / "llama", {"more.json": {}})

    assert set(actions(sync(listing, store)).values()) == {"replaced"}


def test_a_name_that_stands_for_something_else_is_set_again(listing, store):
    sync(listing, store).succeeded()
    run("cp", "small:int4", "plain", store=store).succeeded()

    assert actions(sync(listing, store))["plain:latest"] == "replaced"


def test_a_model_is_made_of_one_before_it(listing, store):
    listing.write_text(PLAIN + DERIVED)

    planned = sync(listing, store, "--dry-run")
    assert actions(planned) == {"plain:latest": "made", "derived:latest": "made"}
    assert not store.exists()
    sync(listing, store).succeeded()
    assert set(actions(sync(listing, store)).values()) == {"unchanged"}


def test_a_dry_run_does_nothing(listing, store):
    before = snapshot(listing.parent)

    found = sync(listing, store, "--dry-run")
    assert actions(found) == {"plain:latest": "made", "small:int4": "made"}
    assert [one["digest"] for one in found.document["models"]] == [None, None]
    assert snapshot(listing.parent) == before
    assert not store.exists()


def test_a_dry_run_says_what_only_making_tells(listing, store):
    """Nothing is remembered of sources that are very new, or after the memo is gone."""
    listing.write_text(PLAIN + DERIVED)
    sync(listing, store).succeeded()
    for memo in store.rglob("memo.sqlite*"):
        memo.unlink()

    told = run("sync", listing, "--dry-run", store=store).succeeded().stdout
    found = actions(sync(listing, store, "--dry-run"))

    assert "would be made to see whether it differs: plain:latest\n" in told
    assert found == {"plain:latest": "unknown", "derived:latest": "unknown"}
    assert set(actions(sync(listing, store)).values()) == {"unchanged"}


def test_a_misspelled_key_is_told_before_the_missing_one(listing, store):
    listing.write_text('[[model]]\nname = "m"\nsorce = "x"\n')

    text = run("sync", listing, store=store).failed(3)

    assert "`sorce` is not a key" in text
    assert "Did you mean `source`?" in text


def test_what_is_not_listed_is_named_and_removed_on_demand(listing, store):
    sync(listing, store).succeeded()
    run("cp", "plain", "extra", store=store).succeeded()

    assert "not listed: extra:latest" in run("sync", listing, store=store).succeeded().stdout
    planned = run("sync", listing, "--prune", "--dry-run", store=store).succeeded().stdout
    assert "would be removed: extra:latest" in planned
    assert manifest_digest(store, "extra") is not None
    done = sync(listing, store, "--prune").succeeded().document
    assert (done["unlisted"], done["removed"]) == (["extra:latest"], ["extra:latest"])
    assert manifest_digest(store, "extra") is None
    assert manifest_digest(store, "plain") is not None


def test_locked_makes_what_is_missing_as_it_was(listing, store):
    sync(listing, store).succeeded()
    lock = lock_of(listing)
    run("rm", "plain", store=store).succeeded()

    assert actions(sync(listing, store, "--locked"))["plain:latest"] == "made"
    assert lock_of(listing) == lock


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda path: path.write_text(PLAIN), "the lock has `small:int4`, which is not listed"),
        (
            lambda path: path.write_text(PLAIN + SMALL + DERIVED),
            "`derived:latest` is listed, and the lock does not have it",
        ),
        (
            lambda path: path.write_text(PLAIN + SMALL + "group_size = 64\n"),
            "`small:int4` is listed with group_size `64`, locked nothing",
        ),
        (
            lambda path: write(path.parent / "llama", {"more.json": {}}),
            "`plain:latest`: the manifest would be ",
        ),
        (lambda path: os.unlink(f"{path}.lock"), "there is no lock `"),
    ],
)
def test_locked_fails_when_anything_would_differ(listing, store, change, told):
    sync(listing, store).succeeded()
    change(listing)
    before = snapshot(store / "manifests"), snapshot(listing.parent)

    refused = sync(listing, store, "--locked")

    assert (refused.error["code"], refused.code) == ("E_SYNC_LOCKED", 12)
    assert told in refused.error["message"]
    assert (snapshot(store / "manifests"), snapshot(listing.parent)) == before


def test_an_error_names_the_model_and_keeps_those_before_it(listing, store):
    listing.write_text(PLAIN + '[[model]]\nname = "bad"\nsource = "./nowhere"\n')

    text = run("sync", listing, store=store).failed(9)

    assert "`bad:latest`: source `" in text
    assert manifest_digest(store, "plain") is not None
    assert not (listing.parent / "models.toml.lock").exists()


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("org/model", ["source `org/model` does not exist", "Did you mean `hf:org/model`"]),
        ("nowhere", ["nowhere` does not exist"]),
    ],
)
def test_a_source_that_is_neither_there_nor_stored_is_told_as_by_create(
    listing, store, source, told
):
    listing.write_text(f'[[model]]\nname = "bad"\nsource = "{source}"\n')

    for words in ((), ("--dry-run",)):
        text = run("sync", listing, *words, store=store).failed(9)
        assert all(part in text for part in told), text


BAD = {
    "not TOML": ("model: x", "line 1"),
    "no models": ("", "it has no [[model]]"),
    "a table": ('[model]\nname = "x"\n', "`model` is written [[model]]"),
    "no source": ('[[model]]\nname = "x"\n', "model 1: expected `name` and `source`"),
    "an unknown key": (PLAIN + 'quantise = "int4"\n', "`quantise` is not a key"),
    "a bad name": (PLAIN.replace("plain", "../x"), "invalid model name"),
    "a bad type": (PLAIN + 'quantize = "int7"\n', "`int7` is not a type"),
    "a bad word": (PLAIN + 'experts = "flat"\n', "expected packed or stacked"),
    "no recipe": (PLAIN + 'recipe = "nope"\n', "there is no recipe `nope`"),
    "twice": (PLAIN + PLAIN.replace("plain", "PLAIN"), "is listed twice"),
    "a revision of a directory": (
        PLAIN + 'revision = "v1"\n',
        "belongs to a source on the Hub",
    ),
    "itself": ('[[model]]\nname = "x"\nsource = "x"\n', "is made of itself"),
    "text as a flag": (PLAIN + 'report = "yes"\n', "`report` is neither true nor false"),
    "escape codes": ('"\\u001b[2J" = 1\n' + PLAIN, r"`\x1b[2J` is not a key"),
    "too large": ("#" * (1 << 21), "more than 1048576 bytes"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_file_that_is_not_a_list_is_one_clean_error(listing, store, what):
    content, told = BAD[what]
    listing.write_text(content)

    refused = sync(listing, store)

    assert (refused.clean().error["code"], refused.code) == ("E_SYNC", 3)
    assert told in refused.error["message"]
    assert str(listing) in refused.error["message"]
    assert not store.exists()


@pytest.mark.parametrize(
    ("wrong", "meant"), [("quantise", "quantize"), ("q", "quantize"), ("rule", "rules")]
)
def test_a_misspelled_key_is_asked_about(listing, store, wrong, meant):
    listing.write_text(f'{PLAIN}{wrong} = "int4"\n')

    assert sync(listing, store).error["hint"] == f"Did you mean `{meant}`?"


def test_a_key_like_no_other_is_answered_with_all_that_there_are(listing, store):
    listing.write_text(PLAIN + "zzz = 1\n")

    error = sync(listing, store).error
    assert error["message"].endswith("model 1: `zzz` is not a key of a list of models")
    assert error["hint"].startswith("The keys are allow, allow_nonfinite, ")
    assert error["hint"].endswith(", unpack, variant, vision")


def test_a_list_that_is_not_there_is_not_found(store, tmp_path):
    assert "there is no list of models" in run("sync", tmp_path / "no", store=store).failed(9)


ROW = {"name": "x", "source": "y", "options": {}, "commit": None, "manifest": "z"}
NO_LOCKS = {
    "an object": {},
    "a list": [],
    "another version": {"schema": "ingot.lock/2", "models": []},
    "no models": {"schema": "ingot.lock/1"},
    "too little": {"schema": "ingot.lock/1", "models": [{"name": "x"}]},
    "no digest": {"schema": "ingot.lock/1", "models": [ROW]},
    "no options": {"schema": "ingot.lock/1", "models": [ROW | {"options": []}]},
}


@pytest.mark.parametrize("content", ["", "{", *map(json.dumps, NO_LOCKS.values())])
def test_a_file_that_is_not_a_lock_is_one_clean_error(listing, store, content):
    (listing.parent / "models.toml.lock").write_text(content)

    refused = sync(listing, store)

    assert (refused.error["code"], refused.code) == ("E_SYNC_LOCK", 3)


def test_locked_and_upgrade_contradict_each_other(listing, store):
    assert "contradict" in run("sync", listing, "--locked", "--upgrade", store=store).failed(2)


OPTIONS = {
    'quantize = "int4"\ncalibrate = "mse"\nsymmetric = true': (
        "-q int4 --calibrate mse --symmetric"
    ),
    'target_bpw = 6\nallow = ["int4", "int8"]': "--target-bpw 6 --allow int4,int8",
    'target_size = "80KB"\nsensitivity = "factors.json"': (
        "--target-size 80KB --sensitivity {here}/factors.json"
    ),
    'quantize = "int4"\nimatrix = "m.dat"': "-q int4 --imatrix {here}/m.dat",
}


@pytest.mark.parametrize("lines", OPTIONS)
def test_options_of_scales_and_sizes_are_those_of_create(listing, store, tmp_path, lines):
    here = listing.parent
    write(here, {"factors.json": {"*.down_proj.weight": 4.0}})
    numbers = np.arange(1, 129, dtype=np.float32)
    (here / "m.dat").write_bytes(dat(entry("blk.0.ffn_down.weight", 1, numbers), end=ended()))
    listing.write_text(f"{PLAIN}{lines}")

    assert actions(sync(listing, store)) == {"plain:latest": "made"}
    assert actions(sync(listing, store)) == {"plain:latest": "unchanged"}
    assert actions(sync(listing, store, "--locked")) == {"plain:latest": "unchanged"}

    asked = OPTIONS[lines].format(here=here).split()
    run("create", "plain", here / "llama", *asked, store=tmp_path / "other").succeeded()
    assert manifest_digest(store, "plain") == manifest_digest(tmp_path / "other", "plain")
    listing.write_text(PLAIN)
    assert sync(listing, store, "--locked").clean().code == 12


def test_what_a_budget_and_a_way_of_finding_scales_are_not_is_said(listing, store):
    for line, told in (
        ('target_size = "many"', "`target_size` is `many`"),
        ('quantize = "int4"\ncalibrate = "best"', "expected one of minmax, mse, percentile"),
        ("target_bpw = 0", "`target_bpw` is not a number above 0"),
        ('target_bpw = 5\nquantize = "int4"', "`int4` cannot be combined with"),
        ('imatrix = "nowhere"\nquantize = "int4"', "nowhere"),
    ):
        listing.write_text(f"{PLAIN}{line}\n")

        assert told in run("sync", listing, store=store).clean().stderr


def test_a_source_may_be_an_id_or_what_a_name_stood_for(listing, store):
    run("create", "m", MODELS / "tiny-llama", store=store).succeeded()
    digest = manifest_digest(store, "m").partition(":")[2][:8]
    run("create", "m", MODELS / "tiny-moe", store=store).succeeded()
    text = SMALL.replace("./llama", f"m@{digest}")
    listing.write_text(text)

    assert actions(sync(listing, store)) == {"small:int4": "made"}
    run("cp", f"m@{digest}", "again", store=store).succeeded()
    listing.write_text(text.replace(f"m@{digest}", digest))
    assert sync(listing, store).succeeded().document["models"][0]["name"] == "small:int4"
