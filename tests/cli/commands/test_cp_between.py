"""`ingot cp` between two stores."""

from __future__ import annotations

import pytest

from store import ModelName, Store
from tests.cli.runner import run
from tests.cli.test_signals import ended, is_writing, large, start, wait_for
from tests.importer.builders import MODELS


@pytest.fixture
def here(tmp_path):
    run("create", "m", MODELS / "tiny-moe", store=tmp_path / "here").succeeded()
    return tmp_path / "here"


def digest_in(store, name):
    with Store(store) as opened:
        return opened.catalog.get(ModelName.parse(name)).digest


def test_a_model_goes_to_another_store_and_comes_from_there(here, tmp_path):
    there, third = tmp_path / "there", tmp_path / "third"

    run("cp", "m", "--to", there, store=here).succeeded()
    told = run("cp", "m", "x", "--from", there, "--link", "--json", store=third)

    assert digest_in(there, "m") == digest_in(third, "x") == digest_in(here, "m")
    document = told.succeeded().document
    assert document["blobs"]["linked"] > 10
    assert run("verify", store=third).succeeded()


def test_a_name_that_is_taken_is_kept_on_demand(here, tmp_path):
    there = tmp_path / "there"
    run("create", "m", MODELS / "tiny-llama", store=there).succeeded()

    run("cp", "m", "--to", there, "--no-clobber", store=here).failed(2)
    assert "replaced" in run("cp", "m", "--to", there, store=here).succeeded().stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("m",), 2),
        (("m", "--to", "{here}"), 2),
        (("m", "--from", "{here}"), 2),
        (("m", "--from", "{tmp}/a", "--to", "{tmp}/b"), 2),
        (("m", "n", "--link"), 2),
        (("m", "--from", "{tmp}/nothing"), 9),
        (("absent", "--to", "{tmp}/there"), 9),
    ],
)
def test_what_cannot_be_copied_is_said(here, tmp_path, words, code):
    told = [word.format(here=here, tmp=tmp_path) for word in words]

    run("cp", *told, store=here).failed(code)


def test_a_copy_between_stores_says_how_far_it_is_and_what_is_kept(store, tmp_path):
    run("create", "m", large(tmp_path / "m", 1 << 29), store=store).succeeded()
    process = start("cp", "m", "--to", tmp_path / "other", store=store)
    wait_for(lambda: is_writing(tmp_path / "other"))

    process.send_signal(2)
    stdout, stderr = ended(process)

    assert stdout == ""
    begun, told = stderr.splitlines()
    assert begun == f"copying {tmp_path / 'other'}: 2 blobs (537 MB) in all"
    kept = [f"interrupted: kept {number} of 2 blobs; " for number in (0, 1)]
    assert told in [f"{one}run the same command to go on" for one in kept]
