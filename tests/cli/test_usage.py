"""Wrong calls: our words, what was meant, what peers' words are here, and no silent winner."""

from __future__ import annotations

import re

import pytest

from cli.usage import PEERS
from tests.cli.runner import COMMANDS, run
from tests.importer.builders import MODELS

LLAMA = MODELS / "tiny-llama"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("create m . --quantise int4", "`--quantise`\nhint: Did you mean `--quantize`?"),
        ("list --nope", "`ingot list` has no option `--nope`\nhint: `ingot list --help`"),
        ("list --hlep", "Did you mean `--help`?"),
        ("list --dry", "`ingot list --help` explains"),
        ("gc --dry", "Did you mean `--dry-run`?"),
        ("gc --force", "hint: `--yes` frees without asking"),
        ("create m . --force", "hint: `ingot create` replaces"),
        ("list --format json", "hint: `--json` prints JSON"),
        ("df --sort size", "hint: `ingot df --help` explains"),
        ("list -z", "`ingot list` has no option `-z`"),
        ("--bogus list", "`ingot` has no option `--bogus`"),
        ("create m . --jobs x", "`--jobs x`: expected an integer of 1 or more"),
        ("create m . --jobs 0", "`--jobs 0`: expected an integer of 1 or more"),
        ("gc --wait soon", "`--wait soon`: expected a number of 0 or more"),
        ("create m . --experts stakced", "stakced`: expected one of packed, stacked"),
        ("create m . --experts stakced", "Did you mean `stacked`?"),
        ("create m . --store", "`--store` needs a value, expected DIR"),
        ("create m . --json=yes", "`--json` takes no value"),
        ("show", "NAME is missing, expected `ingot show NAME [GLOB]`"),
        ("rm", "NAME is missing, expected `ingot rm NAME...`"),
        ("save a", "NAME or DEST is missing, expected `ingot save NAME... DEST`"),
        ("cp a", "TARGET is missing, expected `ingot cp SOURCE TARGET`"),
        ("show a b c d", "unexpected `c d`, expected `ingot show NAME [GLOB]`"),
        (
            "export m x",
            "`--to` is missing, expected `ingot export NAME DEST --to gguf|hf|mlx|uqff`",
        ),
        ("crate m", "`crate` is not a command, expected one of create, show"),
        ("crate m", "Did you mean `create`?"),
        ("zzz", "`zzz` is not a command"),
        ("--store x", "missing command, expected `ingot COMMAND`"),
        ("--store= list", "`--store` is empty"),
        ("show \x1b[2J a b", r"unexpected `b`"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_told_in_our_words(store, words, told):
    assert told in run(*words.split(" "), store=store).failed(2)


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("create", "m", LLAMA, "-q", "int4", "--quantize", "int8"), "--quantize"),
        (("create", "m", LLAMA, "--json", "--json"), "--json"),
        (("list", "--store", "a", "--store", "b"), "--store"),
        (("--store", "a", "--store", "b", "list"), "--store"),
        (("--store", "a", "list", "--store", "b"), "--store"),
        (("list", "--quiet", "--quiet"), "--quiet"),
    ],
)
def test_a_flag_that_is_given_twice_is_an_error(tmp_path, monkeypatch, words, flag):
    monkeypatch.chdir(tmp_path)

    outcome = run(*words)

    told = outcome.error["message"] if "--json" in words else outcome.failed(2)
    assert f"`{flag}` is given twice" in told
    assert list(tmp_path.iterdir()) == []


def test_what_may_be_repeated_is_not_given_twice(store):
    rules = ("--rule", "*.q_proj.*=int8", "--rule", "*.k_proj.*=int8")

    run("create", "m", LLAMA, *rules, "--dry-run", store=store).succeeded()


def test_the_store_is_named_before_the_command_or_after_it(filled_store, store):
    listed = run("list", store=filled_store).succeeded().stdout

    for words in (
        ("--store", filled_store, "list"),
        (f"--store={filled_store}", "list"),
        ("list", "--store", filled_store),
    ):
        # The flag goes before the variable.
        assert run(*words, store=store).succeeded().stdout == listed


def test_quiet_says_nothing_but_warnings_and_errors(store):
    done = run("create", "m", LLAMA, "-q", "int2", "--quiet", store=store).succeeded()

    assert re.fullmatch(r"m:latest sha256:[0-9a-f]{64}\n", done.stdout)
    assert all(line.startswith("warning: ") for line in done.stderr.splitlines())
    assert done.stderr
    assert "error: " in run("show", "n", "--quiet", store=store).failed(9)
    assert "copied" not in run("cp", "m", "n", "--quiet", store=store).stderr


@pytest.mark.parametrize("word", PEERS)
def test_a_word_of_another_program_is_answered_with_what_does_it_here(word):
    told = run(word, "x").failed(2)

    assert f"`{word}` is not a command" in told
    named = set(re.findall(r"`ingot ([a-z]+)", told))
    assert named <= set(COMMANDS)
    assert "hint: " in told


def test_no_word_of_another_program_hides_a_command():
    assert not PEERS.keys() & {*COMMANDS, "ls"}


def test_a_hint_names_the_command_that_was_called(filled_store):
    text = run("show", "kept", "--sort", "size", store=filled_store).failed(2)

    assert "hint: `ingot help show` explains the command" in text
