"""One decision says what a file is, and the plan can say why it is not kept."""

from __future__ import annotations

import pytest

from importer.sources.containers import FORMATS
from importer.sources.roles import role_of as decide
from store import MediaType


def role_of(path):
    return decide(path, FORMATS)


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
    assert (role_of(path).is_kept, role_of(path).reason) == (True, "")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".git/config", "in a hidden directory"),
        ("a/.cache/x.json", "in a hidden directory"),
        ("onnx/config.json", "weights in another format"),
        ("a/openvino/x.xml", "weights in another format"),
        ("training_args.bin", "weights in another format"),
        ("a/Scheduler.PT", "weights in another format"),
        ("rng_state_0.pth", "weights in another format"),
        ("x.mlpackage/Data/weights/weight.bin", "weights in another format"),
        ("pytorch_model.bin", "weights that were not selected"),
        ("a/model.PT", "weights that were not selected"),
        ("x.pth", "weights that were not selected"),
        ("x.ckpt", "weights that were not selected"),
        ("tf_model.h5", "weights in another format"),
        ("flax_model.msgpack", "weights in another format"),
        ("rust_model.ot", "weights in another format"),
        ("q4.gguf", "weights that were not selected"),
        ("a/Q4_K_M/x-00001-of-00002.GGUF", "weights that were not selected"),
        ("weights.npz", "weights in another format"),
        ("model.PKL", "weights in another format"),
        ("a/x.pickle", "weights in another format"),
        ("x.joblib", "weights in another format"),
        ("x.tflite", "weights in another format"),
        ("x.keras", "weights in another format"),
        ("x.hdf5", "weights in another format"),
        ("x.pdparams", "weights in another format"),
        ("inference.pdiparams", "weights in another format"),
        ("x.mlmodel", "weights in another format"),
        ("x.mlpackage/Manifest.json", "weights in another format"),
        ("x.mlmodelc/coremldata.bin", "weights in another format"),
        ("x.nemo", "weights in another format"),
        ("saved_model.pb", "weights in another format"),
        ("variables/variables.data-00000-of-00001", "weights in another format"),
        ("variables/variables.index", "weights in another format"),
        ("model.ckpt.meta", "weights in another format"),
        ("x.engine", "weights in another format"),
        ("x.caffemodel", "weights in another format"),
        ("imatrix.gguf", "importance matrix"),
        ("Llama-3.imatrix.gguf", "importance matrix"),
        ("model.onnx", "weights that were not selected"),
        ("onnx/model.onnx", "weights that were not selected"),
        ("openvino/onnx/model.onnx", "weights in another format"),
        ("onnx/x/model.onnx", "weights in another format"),
        ("onnx/model.onnx_data", "data of an ONNX file that was not selected"),
        ("model.onnx.data", "data of an ONNX file that was not selected"),
        ("model.onnx_data_12", "data of an ONNX file that was not selected"),
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
    assert (role_of(path).is_kept, role_of(path).reason) == (False, reason)


@pytest.mark.parametrize(
    "name", ["index.json", "model.index.json", "model.safetensors.index.txt", "x.indexes.json"]
)
def test_not_every_index_is_one_of_shards(name):
    assert role_of(name).is_kept


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
    assert role_of(path).media_type is expected
