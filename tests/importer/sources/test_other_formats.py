"""Weights in formats that are not read: left out by name, refused where they are alone."""

from __future__ import annotations

import pytest

from importer.sources.inventory import read_inventory
from store.errors import UnsupportedError
from tests.importer.builders import safetensors, write

W = safetensors({"w.weight": ("F32", (2,))})


def refused(source):
    with pytest.raises(UnsupportedError) as caught:
        read_inventory(source)
    return caught.value.code, str(caught.value)


LONE = (
    "npy npz pkl pickle joblib dill h5 hdf5 keras msgpack ot pb tflite ckpt.meta pdparams "
    "pdopt pdiparams pdmodel mlmodel nemo mar engine trt plan params caffemodel ggml ggjt "
    "llamafile torchscript jit ptl pte t7 mnn rknn data-00000-of-00001"
)


@pytest.mark.parametrize("name", [f"x.{suffix}" for suffix in LONE.split()])
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\1", b"PK\3\4", b"\x80\4N.", b"\1\2"])
def test_a_lone_file_of_another_format_is_unsupported_by_name(tmp_path, name, content):
    write(tmp_path, {name: content})
    found = [refused(tmp_path / name), refused(tmp_path)]
    write(tmp_path, {"config.json": {"architectures": ["LlamaForCausalLM"]}})
    found.append(refused(tmp_path))

    for code, message in found:
        assert code == "E_FORMAT"
        assert f"`{name}`" in message


@pytest.mark.parametrize("name", ["training_args.bin", "x.mlpackage/Data/weights/weight.bin"])
def test_what_is_beside_weights_is_unsupported_alone(tmp_path, name):
    code, message = refused(write(tmp_path, {name: b""}))

    assert code == "E_FORMAT"
    assert f"`{name}`" in message


def test_an_array_beside_weights_is_kept(tmp_path):
    found = read_inventory(write(tmp_path, {"model.safetensors": W, "voices/a.npy": b"x"}))

    assert [file.path for file in found.files] == ["voices/a.npy"]
