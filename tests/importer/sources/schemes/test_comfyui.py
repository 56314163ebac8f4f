"""Weights with ComfyUI's markers: its own forms are refused, whatever they look like."""

from __future__ import annotations

import json

import pytest

from importer.sources.inventory import read_inventory
from importer.sources.schemes.contents import is_needed
from importer.sources.schemes.registry import scheme_of
from store.errors import InputError, UnsupportedError
from tests.importer.builders import safetensors, write

X = "double_blocks.0.img_attn.qkv"
NVFP4 = {
    "weight": ("U8", (256, 128)),
    "weight_scale": ("F8_E4M3", (256, 16)),
    "weight_scale_2": ("F32", ()),
}
MXFP8 = {"weight": ("F8_E4M3", (256, 256)), "weight_scale": ("F8_E8M0", (256, 8))}
INT8 = {"weight": ("I8", (256, 256)), "weight_scale": ("F32", ())}
FP8 = {"weight": ("F8_E4M3", (256, 256)), "weight_scale": ("F32", ())}
FORMS = {"nvfp4": NVFP4, "mxfp8": MXFP8, "int8_tensorwise": INT8}
"""Arrays as comfy-kitchen 0.2.40 writes them."""


def marker(said):
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    return {"comfy_quant": ("U8", (len(data),), data)}


def source(directory, arrays, metadata=None):
    named = {f"{X}.{name}": array for name, array in arrays.items()}
    return write(directory, {"model.safetensors": safetensors(named, metadata)})


@pytest.mark.parametrize("form", FORMS)
def test_its_own_forms_are_refused_by_name(tmp_path, form):
    arrays = FORMS[form] | marker({"format": form})

    with pytest.raises(UnsupportedError, match=rf"`{X}[.]weight`.*ComfyUI.*`{form}`") as caught:
        read_inventory(source(tmp_path / "s", arrays))

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)


@pytest.mark.parametrize("form", FORMS)
def test_metadata_of_the_file_says_it_too(tmp_path, form):
    said = {"format_version": "1.0", "layers": {X: {"format": form}}}
    made = source(tmp_path / "s", FORMS[form], {"_quantization_metadata": json.dumps(said)})

    with pytest.raises(UnsupportedError, match=rf"ComfyUI.*`{form}`"):
        read_inventory(made)


@pytest.mark.parametrize("form", FORMS)
def test_a_stored_model_of_it_is_called_by_its_name(form):
    arrays = FORMS[form] | marker({})

    assert scheme_of(((f"{X}.{name}", one[0]) for name, one in arrays.items()), {}) == "comfyui"


@pytest.mark.parametrize("form", ["float8_e4m3fn", "float8_e4m3fn_rowwise"])
def test_fp8_has_the_usual_form(tmp_path, form):
    said = {"format": form, "full_precision_matrix_mult": True}

    found = read_inventory(source(tmp_path / "s", FP8 | marker(said)))

    assert (found.scheme, found.is_decoded) == ("fp8", True)
    assert {one.name: one.stored_as for one in found.tensors}[f"{X}.weight"] == "fp8"


def test_fp8_that_was_rotated_is_refused(tmp_path):
    arrays = FP8 | marker({"format": "float8_e4m3fn", "convrot": True})

    with pytest.raises(UnsupportedError, match="ComfyUI"):
        read_inventory(source(tmp_path / "s", arrays))


@pytest.mark.parametrize("data", [b"nvfp4", b"[1]", b"{"])
def test_a_marker_that_says_nothing_is_damaged(tmp_path, data):
    with pytest.raises(InputError, match=rf"`{X}[.]comfy_quant` is not") as caught:
        read_inventory(source(tmp_path / "s", NVFP4 | marker(data)))

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_PAIR", 3)


@pytest.mark.parametrize("text", ["nvfp4", "[]", '{"layers": []}', '{"layers": {"a": 1}}'])
def test_metadata_that_says_nothing_is_left_alone(tmp_path, text):
    arrays = {"weight": ("BF16", (4, 4))}

    found = read_inventory(source(tmp_path / "s", arrays, {"_quantization_metadata": text}))

    assert (found.scheme, len(found.tensors)) == (None, 1)


def test_markers_are_fetched_with_the_headers():
    assert is_needed(f"{X}.comfy_quant", 19)
