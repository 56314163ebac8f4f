"""Templates and parameters of a model, wherever they are, and what Ollama uses of them."""

from __future__ import annotations

import pytest

from importer.models.conversation import parameters_of, templates_of
from importer.models.description import describe
from importer.pipeline import import_model, plan_import
from importer.request import ImportRequest, Use
from store import ModelName, Store
from tests.importer.builders import model

NAME = ModelName.parse("m")
FILES = {
    "tokenizer_config__json": {"chat_template": "of the tokenizer"},
    "chat_template__jinja": "of the file",
    "generation_config__json": {"eos_token_id": 2},
}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def described(store, tmp_path, architecture="LlamaForCausalLM", use=None, **files):
    source = model(tmp_path / "source", config={"architectures": [architecture]}, **files)
    request = ImportRequest(NAME, source, use=use or Use())
    import_model(request, plan_import(request, store), store)
    return describe(store, NAME)


def told(found):
    return [(one.source, one.text, one.is_used) for one in found]


def test_every_template_is_told_and_ollama_reads_none_of_the_files(store, tmp_path):
    found = described(store, tmp_path, **FILES)

    assert told(templates_of(store, found)) == [
        ("tokenizer_config.json", "of the tokenizer", False),
        ("chat_template.jinja", "of the file", False),
    ]


def test_the_template_of_a_modelfile_is_used(store, tmp_path):
    found = described(store, tmp_path, use=Use(template="{{ .Prompt }}"), **FILES)

    assert told(templates_of(store, found))[0] == ("TEMPLATE", "{{ .Prompt }}", True)


def test_a_renderer_goes_before_every_template(store, tmp_path):
    found = described(store, tmp_path, "Qwen3ForCausalLM", Use(template="x"), **FILES)

    assert not any(one.is_used for one in templates_of(store, found))


def test_a_list_of_templates_is_told_by_name(store, tmp_path):
    templates = [{"name": "default", "template": "a"}, {"name": "tools", "template": "b"}, 3]
    found = described(store, tmp_path, tokenizer_config__json={"chat_template": templates})

    assert told(templates_of(store, found)) == [
        ("tokenizer_config.json, default", "a", False),
        ("tokenizer_config.json, tools", "b", False),
    ]


def test_parameters_are_those_of_the_modelfile_and_the_end_tokens_of_the_file(store, tmp_path):
    found = described(store, tmp_path, use=Use(parameters={"top_k": 1}), **FILES)

    assert [(one.source, one.used) for one in parameters_of(store, found)] == [
        ("PARAMETER", "all"),
        ("generation_config.json", "eos_token_id"),
    ]


def test_a_model_without_any_has_none(store, tmp_path):
    found = described(store, tmp_path)

    assert list(templates_of(store, found)) == list(parameters_of(store, found)) == []
