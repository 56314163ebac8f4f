"""One predicate says which files are kept, and the plan can say why the others are not."""

from __future__ import annotations

import pytest

from importer.sources.roles import is_index, media_type, why_left_out
from store import MediaType


@pytest.mark.parametrize(
    "path",
    [
        "config.json",
        "tokenizer.model",
        "merges.txt",
        "chat_template.jinja",
        "README.md",
        "LICENSE",
        ".gitattributes",
        "1_Pooling/config.json",
        "model_index.json",
        "my.index.json",
        "binary",
        "onnx.md",
        "optimizer_notes.md",
    ],
)
def test_a_file_is_kept(path):
    assert why_left_out(path) is None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".git/config", "in a hidden directory"),
        ("a/.cache/x.json", "in a hidden directory"),
        ("onnx/config.json", "weights in another format"),
        ("a/openvino/x.xml", "weights in another format"),
        ("pytorch_model.bin", "weights in another format"),
        ("a/model.PT", "weights in another format"),
        ("x.pth", "weights in another format"),
        ("tf_model.h5", "weights in another format"),
        ("flax_model.msgpack", "weights in another format"),
        ("rust_model.ot", "weights in another format"),
        ("model.onnx", "weights in another format"),
        ("q4.gguf", "weights in another format"),
        ("optimizer.pt", "optimizer state"),
        ("optimizer.safetensors", "optimizer state"),
        ("model.safetensors.index.json", "shard index"),
        ("model.safetensors.index.fp16.json", "shard index"),
        ("pytorch_model.bin.index.json", "shard index"),
        ("a/diffusion_pytorch_model.safetensors.index.json", "shard index"),
        ("model.safetensors", "weights that were not selected"),
        ("Model.SafeTensors", "weights that were not selected"),
    ],
)
def test_a_file_is_left_out_for_a_reason(path, reason):
    assert why_left_out(path) == reason


@pytest.mark.parametrize(
    "name", ["index.json", "model.index.json", "model.safetensors.index.txt", "x.indexes.json"]
)
def test_not_every_index_is_one_of_shards(name):
    assert not is_index(name)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("config.json", MediaType.JSON),
        ("a/b/tokenizer.json", MediaType.JSON),
        ("LICENSE", MediaType.LICENSE),
        ("license.txt", MediaType.LICENSE),
        ("LICENCE.md", MediaType.LICENSE),
        ("COPYING", MediaType.LICENSE),
        ("LICENSE.json", MediaType.JSON),
        ("a/LICENSE", MediaType.FILE),
        ("tokenizer.model", MediaType.FILE),
        ("chat_template.jinja", MediaType.FILE),
    ],
)
def test_a_kept_file_has_a_media_type(path, expected):
    assert media_type(path) is expected
