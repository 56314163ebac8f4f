"""Modelfiles, parameters and templates are read as Ollama's own Go reads them.

fixtures/ollama/modelfile.jsonl.gz holds what `parser.ParseFile`, `api.FormatParams` with
encoding/json, and text/template with Ollama's functions said, of Ollama fb3076099 compiled with
Go 1.27.
"""

from __future__ import annotations

import gzip
import json

import pytest

from importer.modelfile.go_template import check_template
from importer.modelfile.grammar import Instruction, Place, parse
from importer.modelfile.parameters import encode, read_value
from importer.modelfile.template_tokens import TemplateError
from store.errors import InputError
from tests.importer.builders import MODELS

HERE = Place("Modelfile", 1, 1)


def cases(wanted):
    path = MODELS.parent / "ollama" / "modelfile.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [case for case in map(json.loads, file) if case["op"] == wanted]


def commands(text):
    try:
        found = parse(text.encode(), "Modelfile")
    except InputError:
        return None
    if not any(one.name == "FROM" for one in found):
        return None
    return [command(one) for one in found]


def command(one):
    if one.name == "MESSAGE":
        return ["message", f"{one.key}: {one.value}"]
    return [{"FROM": "model"}.get(one.name, one.key or one.name.lower()), one.value]


def parameters(pairs):
    made = {}
    for key, text in pairs:
        try:
            value = read_value(Instruction("PARAMETER", text, HERE, HERE, key, HERE))
        except InputError:
            return None
        made[key] = made[key] + value if key in made and isinstance(value, list) else value
    return encode(made).decode()


def is_template(text):
    try:
        check_template(text)
    except TemplateError:
        return False
    return True


def test_modelfiles_are_read_as_ollama_reads_them():
    found = cases("modelfile")

    differences = [
        (case["text"], mine, case["commands"])
        for case in found
        if (mine := commands(case["text"])) != case["commands"]
    ]
    assert len(found) > 500
    assert differences == []


def test_parameters_are_written_as_ollama_writes_them():
    found = cases("params")

    differences = [
        (case["pairs"], mine, case["text"])
        for case in found
        if (mine := parameters(case["pairs"])) != case["text"]
    ]
    assert len(found) > 300
    assert differences == []


def test_templates_are_those_that_ollama_parses():
    found = cases("template")

    differences = [
        (case["text"], case["ok"]) for case in found if is_template(case["text"]) != case["ok"]
    ]
    assert len({case["ok"] for case in found}) == 2
    assert differences == []


@pytest.mark.parametrize("wanted", ["modelfile", "params"])
def test_goldens_hold_both(wanted):
    key = {"modelfile": "commands", "params": "text"}[wanted]

    assert {case[key] is None for case in cases(wanted)} == {True, False}
