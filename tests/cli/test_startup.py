"""A quick command imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer.main

from cli import app
from cli.app import make_app
from cli.commands.models import list_models
from cli.commands.show import show
from tests.cli.runner import environment
from tests.importer.builders import MODELS

HEAVY = {
    "numpy",
    "numba",
    "llvmlite",
    "rich",
    "huggingface_hub",
    "safetensors",
    "xxhash",
    "httpx",
    "hashlib",
}
SCRIPT = """
import sys
from cli.main import run
sys.argv = ["ingot", *sys.argv[1:]]
try:
    run()
except SystemExit as leaving:
    print(leaving.code, *sys.modules, file=sys.stderr)
"""


def imported(*words, store):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        env=environment(store),
        capture_output=True,
        check=True,
        text=True,
    )
    code, *modules = done.stderr.split("\n")[-2].split()
    return int(code), set(modules)


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("show", "--help"),
        ("list",),
        ("list", "--json"),
        ("show", "kept"),
        ("show", "moe:v1", "-v"),
        ("show", "kept", "--json"),
        ("show", "no"),
    ],
    ids=" ".join,
)
def test_a_quick_command_imports_nothing_heavy(filled_store, words):
    code, modules = imported(*words, store=filled_store)

    assert code == (9 if words[-1] == "no" else 0)
    assert modules & HEAVY == set()


@pytest.mark.parametrize("words", [("list",), ("show", "kept")], ids=" ".join)
def test_the_usual_commands_define_no_dataclass(filled_store, words):
    _, modules = imported(*words, store=filled_store)

    assert modules & {"dataclasses", "shlex", "importer.recipes.recipe"} == set()


@pytest.mark.parametrize("words", [("list",), ("show", "kept")], ids=" ".join)
def test_a_look_at_a_model_does_not_import_what_reads_sources(filled_store, words):
    _, modules = imported(*words, store=filled_store)

    assert within(modules, ("importer.sources.inventory", "importer.sources.containers")) == []


def test_typer_finds_the_annotations_of_quick_commands_compiled():
    for command in (show, list_models):
        assert not [one for one in command.__annotations__.values() if isinstance(one, str)]


def test_help_does_not_import_the_importer(filled_store):
    _, modules = imported("--help", store=filled_store)

    assert not [name for name in modules if name.startswith("importer")]


def test_the_help_of_all_commands_imports_none(filled_store):
    _, modules = imported("--help", store=filled_store)

    assert within(modules, ("cli.commands",)) == ["cli.commands", "cli.commands.options"]


@pytest.mark.parametrize(
    ("words", "looked_at"),
    [
        (["--help"], []),
        ([], []),
        (["help", "create"], ["create", "help"]),
        (["show", "create"], ["show"]),
        (["--store", "help", "list"], ["list"]),
    ],
    ids=" ".join,
)
def test_typer_looks_at_the_parameters_of_the_commands_that_are_named(words, looked_at):
    commands = typer.main.get_command(make_app(words)).commands

    own = {"quiet"}  # every command's
    found = [
        name for name, one in commands.items() if own < {param.name for param in one.params}
    ]
    assert sorted(found) == looked_at


def test_rm_and_cp_import_nothing_heavy(filled):
    for words in (("cp", "kept", "other"), ("rm", "other")):
        code, modules = imported(*words, store=filled)
        assert code == 0
        assert modules & {"numpy", "numba", "llvmlite", "rich", "safetensors"} == set()


OF_OTHER_SOURCES = (
    # what joins, decodes and reads what this source does not have
    *("importer.sources.schemes.registry", "importer.sources.schemes.base"),
    *(
        "importer.sources.schemes.parts",
        "importer.sources.stored.source",
        "importer.modelfile.grammar",
    ),
    *("importer.formats.gguf", "importer.formats.onnx", "importer.formats.pytorch"),
    *("importer.codecs.views", "importer.codecs.ggml", "importer.codecs.scaled"),
    *("importer.exports", "importer.verification", "importer.hub", "importer.registry"),
)
OF_WORK = (
    *("concurrent.futures", "importer.engine.workers", "tempfile", "ctypes", "numpy"),
    "hashlib",
)
"""Of what reads weights and writes blobs, of which an unchanged source has none to do."""


@pytest.mark.parametrize("options", [(), ("-q", "int4")], ids=["plain", "int4"])
def test_an_unchanged_source_imports_nothing_of_others_and_nothing_that_works(store, options):
    words = ("create", "again", str(MODELS / "tiny-llama"), *options)
    imported(*words, store=store)
    code, modules = imported(*words, store=store)

    assert code == 0
    assert within(modules, (*OF_OTHER_SOURCES, *OF_WORK)) == []


def within(modules, packages):
    """Those of the modules that are one of the packages, or in one."""
    return sorted(
        name for name in modules if any(f"{name}.".startswith(f"{p}.") for p in packages)
    )


def test_an_import_does_not_need_the_hub(filled, tmp_path):
    from tests.importer.builders import model

    code, modules = imported("create", "m", str(model(tmp_path / "m")), store=filled)

    assert code == 0
    assert modules & {"huggingface_hub", "numba", "llvmlite", "torch", "transformers"} == set()


@pytest.mark.parametrize("name", app.names_of_commands())
def test_the_summary_of_a_command_is_the_first_paragraph_of_its_help(name):
    command = app._COMMANDS[name]
    first, *_ = (command.load().__doc__ or "").strip().split("\n\n")
    assert command.summary == " ".join(first.split())
