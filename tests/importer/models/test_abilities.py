"""Whose `completion` is shown, and whose is only in the configuration, as Ollama wants it."""

from __future__ import annotations

import pytest

from importer.models.abilities import abilities_of
from importer.models.description import describe
from store import ModelName, Store
from tests.importer.builders import MODELS, create, model, write


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def described(store, source):
    create(store, source)
    return describe(store, ModelName.parse("m"))


@pytest.mark.parametrize(
    ("architecture", "writes"),
    [
        ("LlamaForCausalLM", True),
        ("GPT2LMHeadModel", True),
        ("T5ForConditionalGeneration", True),
        ("InternVLChat", True),
        ("BertModel", False),
        ("BertForMaskedLM", False),
        ("BertForSequenceClassification", False),
        ("Wav2Vec2ForPreTraining", False),
    ],
)
def test_completion_is_of_what_writes_text(store, tmp_path, architecture, writes):
    found = described(store, model(tmp_path / "s", config={"architectures": [architecture]}))

    assert found.capabilities == ("completion",)
    assert abilities_of(found) == (("completion",) if writes else ())


def test_tensors_that_nothing_describes_complete_no_text(store, tmp_path):
    source = model(tmp_path / "s")
    (source / "config.json").unlink()

    assert abilities_of(described(store, source)) == ()


def test_a_template_tells_that_text_is_written(store, tmp_path):
    source = model(tmp_path / "s", config={"architectures": ["ChatGLMModel"]})
    write(source, {"chat_template.jinja": b"{{ messages }}"})

    assert "completion" in abilities_of(described(store, source))


def test_a_pipeline_makes_images_alone(store):
    assert abilities_of(described(store, MODELS / "tiny-pipeline")) == ("image",)
