"""Weights in a format that is not read: one more form of the model, or refused, never lost."""

from __future__ import annotations

import pytest

from importer.hub.files import needed_of, roles_of
from importer.sources.inventory import read_inventory
from store.errors import UnsupportedError
from tests.importer.builders import safetensors, shards, write

W = safetensors({"w.weight": ("F32", (2,))})
PIPELINE = {"model_index.json": {}, "unet/diffusion_pytorch_model.safetensors": W}


@pytest.mark.parametrize(
    ("files", "lost", "unread"),
    [
        (
            {**PIPELINE, "vae/flax_model.msgpack": b""},
            "vae/flax_model.msgpack",
            "Flax",
        ),
        (
            {"modules.json": [], "model.safetensors": W, "2_Dense/tf_model.h5": b""},
            "2_Dense/tf_model.h5",
            "Keras",
        ),
        ({"a/tf_model.h5": b"", "b/model.safetensors": W}, "a/tf_model.h5", "Keras"),
    ],
)
def test_a_part_of_a_model_is_not_taken_for_the_whole(tmp_path, files, lost, unread):
    with pytest.raises(UnsupportedError) as here:
        read_inventory(write(tmp_path, files))
    with pytest.raises(UnsupportedError) as there:
        needed_of(roles_of(sorted(files)), "x", None, lambda path: path)

    assert here.value.code == "E_FORMAT"
    assert f"`{lost}` is {unread}" in str(here.value)
    assert str(there.value) == str(here.value)


@pytest.mark.parametrize(
    ("passed_over", "taken"),
    [
        ("pytorch_model.bin", "adapter_model.safetensors"),
        ("pytorch_model-00001-of-00001.bin", "lora.safetensors"),
    ],
)
def test_a_whole_model_is_not_passed_over_for_a_part_in_another_format(
    tmp_path, passed_over, taken
):
    with pytest.raises(UnsupportedError) as here:
        read_inventory(write(tmp_path, {passed_over: b"", taken: W}))

    assert here.value.code == "E_FORMAT"
    assert f"`{passed_over}` has the name of a whole model, and `{taken}`" in str(here.value)


@pytest.mark.parametrize(
    "files",
    [
        {"model.safetensors": W, "pytorch_model.bin": b"", "model-q4.gguf": b""},
        {**shards({"a": ("U8", (1,))}, {"b": ("U8", (1,))}), "pytorch_model.bin": b""},
        {"consolidated.safetensors": W, "pytorch_model.bin": b""},
        {"llama.safetensors": W, "llama-Q4_K_M.gguf": b"", "training_args.bin": b""},
        {"tf_model.safetensors": W, "tf_model.h5": b""},
        {"model.safetensors": W, "q4k-0.uqff": b"", "residual.safetensors": W},
        {"model.safetensors": W, "original/consolidated.00.pth": b""},
        {"model.safetensors": W, "old/pytorch_model.bin": b""},
        # As SDXL has it.
        {
            **PIPELINE,
            "unet/model.onnx": b"",
            "vae_encoder/model.onnx": b"",
            "vae_encoder/openvino_model.bin": b"",
            "v1-5.ckpt.bin": b"",
        },
        {"modules.json": [], "model.safetensors": W, "onnx/pytorch_model.bin": b""},
        {
            "modules.json": [],
            "model.safetensors": W,
            "checkpoint-5/pytorch_model.bin": b"",
        },
    ],
)
def test_one_more_form_of_a_whole_model_is_left_out_by_name(tmp_path, files):
    found = read_inventory(write(tmp_path, files))

    read = {file.path for file in (*found.files, *found.weights)}
    assert {out.path for out in found.left_out} == files.keys() - read
    assert not any(path.endswith((".bin", ".gguf", ".uqff", ".onnx", ".h5")) for path in read)


def test_a_file_may_be_imported_alone_by_its_name(tmp_path):
    write(tmp_path, {"q4k-0.uqff": W, "residual.safetensors": W, "config.json": {}})

    found = read_inventory(tmp_path / "residual.safetensors")

    assert [tensor.name for tensor in found.tensors] == ["w.weight"]
