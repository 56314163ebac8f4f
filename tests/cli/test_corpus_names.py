"""Bad model names (reliability.md 3.2, rows N): a usage error, and nothing written."""

from __future__ import annotations

import pytest

from tests.check_store import snapshot
from tests.cli.runner import run, spawn
from tests.importer.builders import MODELS, model

SOURCE = MODELS / "single-file"
BAD = {
    "N01": ["../../x", "a/../b", "a//b", "/a", "a/", "a/./b", "..\\x", "a\\b"],
    "N02": ["..", ".", "a/b/c/d/e", "a/b/c/d", "x:..", ".hidden", "~"],
    "N03": ["con", "nul:latest", "a.", "x:tag.", "com1", "aux/x", "a/lpt1:com1", "x:prn.y"],
    "N04": ["a:b:c", "a:", ":x", "", "m" * 81, f"x:{'t' * 81}", f"{'h' * 400}/n/m", "a:/b"],
    "N05": ["m\u043edel", "\uff4d\uff4f", "e\u0301", "\u00e9", "m\u200b", "\u0661"],
    "N08": ["a\nb", "a\x1b[2Jb", "a\x00b", "a\tb", "a b", "a\u202eb", "\udcff", "a\x7f"],
}
NAMES = {f"{row}-{n}": name for row, names in BAD.items() for n, name in enumerate(names)}


@pytest.mark.parametrize("row", NAMES)
def test_a_bad_name_is_a_usage_error(judge, row):
    judge.refused("create", NAMES[row], SOURCE, code="E_NAME", exit_code=2)


@pytest.mark.parametrize("row", ["N01-0", "N02-0", "N03-0", "N04-0", "N05-0", "N08-1"])
@pytest.mark.parametrize(
    "words",
    [["show", "?"], ["rm", "?"], ["cp", "kept", "?"], ["cp", "?", "x"], ["verify", "?"]],
)
def test_every_command_refuses_a_bad_name(judge, row, words):
    words = [NAMES[row] if word == "?" else word for word in words]

    if words[:2] != ["cp", "kept"]:
        judge.refused(*words, code="E_NAME", exit_code=2)
    else:
        run(*words, store=judge.filled).failed(2)


@pytest.mark.parametrize("word", ["-x", "--nope", "-"])
def test_n06_a_leading_dash_is_a_flag(judge, word):
    code = "E_NAME" if word == "-" else "E_USAGE"

    judge.refused("create", word, SOURCE, code=code, exit_code=2)


@pytest.mark.parametrize("name", ["--help", "-x", "--", "--json"])
def test_n06_two_dashes_end_the_flags(store, name):
    outcome = spawn("create", "--", name, SOURCE, store=store)

    assert outcome.code == 2
    assert outcome.clean().stdout == ""
    assert not store.exists()


@pytest.mark.parametrize("name", ["Kept", "KEPT:latest", "kept:LATEST", "Library/kept"])
def test_n07_a_name_that_differs_in_case_alone(filled_store, tmp_path, name):
    before = snapshot(filled_store)
    source = model(tmp_path / "m")

    for json in ((), ("--json",)):
        outcome = run("create", name, source, *json, store=filled_store)
        assert outcome.code == 2
        assert "differs only in case" in outcome.clean().stderr

    assert outcome.error["code"] == "E_NAME_COLLISION"
    assert snapshot(filled_store) == before


def test_n07_a_copy_that_differs_in_case_alone(filled):
    names = run("list", "--json", store=filled).stdout

    assert "differs only in case" in run("cp", "moe:v1", "KEPT", store=filled).failed(2)
    assert run("list", "--json", store=filled).stdout == names


GOOD = [
    "m",
    "m:t",
    "ns/m",
    "host/ns/m:t",
    "host:5000/ns/m",
    "https://host/ns/m",
    "Llama-3.2_1B",
    "m" * 80,
    "_x",
    "console",
    "1",
]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_name_is_shown_as_it_is_stored(store, name):
    created = run("create", name, SOURCE, "--json", store=store).succeeded().document["name"]

    assert created.removesuffix(":latest") in name or created in f"{name}:latest"
    listed = run("list", "--json", store=store).succeeded().document["models"]
    assert [found["name"] for found in listed] == [created]
    run("show", created, store=store).succeeded()
    run("rm", name, store=store).succeeded()
