"""What others quantize and we do not decode: refused by name, nothing imported of it."""

from __future__ import annotations

import pytest

from importer.models.description import describe
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from importer.sources.location import StoredModel
from store import ModelName, Store
from store.errors import UnsupportedError
from tests.importer.builders import create, model

L = "model.layers.0.mlp.up_proj"
F, B, F8 = ("F16", (64,)), ("U8", (64, 32)), ("F8_E4M3", (64, 64))

ARRAYS = {
    "aqlm": ({"codes": ("I8", (64, 4, 1)), "codebooks": ("F16", (1, 256, 1, 8))}, "aqlm"),
    "bitnet": ({"weight": B, "weight_scale": ("BF16", (1,))}, "bitnet"),
    "eetq": ({"weight": ("I8", (64, 64)), "weight_scales": F}, "eetq"),
    "exl2": ({"q_weight": ("I32", (8, 64)), "q_scale": ("I32", (1, 8))}, "exl2"),
    "exl3": ({"trellis": ("I16", (4, 4, 64)), "suh": F, "svh": F}, "exl3"),
    "fouroversix": ({"quantized_weight_values": B}, "fouroversix"),
    "fp_quant": ({"qweight": B, "scales": ("U8", (64, 2))}, "fp_quant"),
    "gemma": ({"weight": B, "weight_scale": ("F32", (64, 1))}, "gemma"),
    "higgs": ({"weight": ("I16", (8, 64)), "scales": F, "tables": F, "tables2": F}, "higgs"),
    "hqq": ({"W_q": B, "scale": F, "zero": F}, "hqq"),
    "marlin": ({"B": ("I32", (4, 128)), "s": F}, "marlin"),
    "qqq": ({"B": ("I32", (4, 128)), "s_channel": F}, "qqq"),
    "quanto": ({"weight._data": B, "weight._scale": F}, "quanto"),
    "quark": ({"weight": B, "weight_scale": ("U8", (64, 2))}, "quark"),
    "quip": ({"Qidxs": ("I16", (8, 8)), "SU": F, "SV": F}, "quip"),
    "sinq": ({"W_q": B, "scale": F}, "sinq"),
    "sparse": ({"compressed": F, "bitmask": B}, "sparse-bitmask"),
    "spqr": ({"dense_weights": ("I64", (64,)), "row_offsets": ("I32", (65,))}, "spqr"),
    "svdquant": ({"qweight": ("I8", (64, 32)), "wscales": ("BF16", (1, 64))}, "svdquant"),
    "torchao": ({"_weight_qdata": ("I8", (64, 64)), "_weight_scale": F}, "torchao"),
    "vptq": ({"indices": ("I16", (1, 8)), "centroids.weight": ("F16", (1, 64))}, "vptq"),
    "a new one": ({"weight": ("I8", (64, 64)), "sc": F}, "a new one"),
}
"""Arrays of a layer as a program writes them, and its name; most are its `quant_method`."""


@pytest.mark.parametrize("program", ARRAYS)
@pytest.mark.parametrize("is_declared", [True, False])
def test_it_is_refused_by_name(tmp_path, program, is_declared):
    arrays, name = ARRAYS[program]
    if not is_declared and program in {"a new one", "fouroversix"}:
        pytest.skip("nothing tells it from a model with buffers of integers")
    config = {"quantization_config": {"quant_method": program}} if is_declared else {}
    norm = {"model.norm.weight": ("F32", (64,))}
    source = model(tmp_path / "s", {f"{L}.{n}": a for n, a in arrays.items()} | norm, config)

    with pytest.raises(UnsupportedError) as caught:
        read_inventory(source)

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)
    if is_declared:
        assert name in str(caught.value) or program in str(caught.value)
    assert L in str(caught.value) or "config.json" in str(caught.value)


@pytest.mark.parametrize(
    ("program", "arrays"),
    [
        # Float8WeightOnlyConfig and flatten_tensor_state_dict of torchao; qfloat8 of quanto
        ("torchao", {"_weight_qdata": F8, "_weight_scale": ("F32", (64, 1))}),
        ("quanto", {"weight._data": F8, "weight._scale": ("F32", (64, 1))}),
        ("eetq", {"weight": F8, "weight_scales": F}),
    ],
)
@pytest.mark.parametrize("is_declared", [True, False])
def test_codes_that_are_floats_of_8_bits_are_refused_alike(
    tmp_path, program, arrays, is_declared
):
    tensors = {f"{L}.{name}": array for name, array in arrays.items()}
    config = {"quantization_config": {"quant_method": program}} if is_declared else {}

    with pytest.raises(UnsupportedError, match=f"is quantized by {program}") as caught:
        read_inventory(model(tmp_path / "s", tensors, config))

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)


@pytest.mark.parametrize(
    ("method", "arrays"),
    [
        ("quark", {"weight": F8, "weight_scale": ("F32", ())}),
        ("quark", {"weight": F8}),
        (
            "modelopt_fp4",
            {
                "weight": B,
                "weight_scale": ("F8_E4M3", (64, 4)),
                "weight_scale_2": ("F32", ()),
            },
        ),
    ],
)
def test_another_program_may_mean_other_values_by_known_names(tmp_path, method, arrays):
    tensors = {f"{L}.{name}": array for name, array in arrays.items()}
    config = {"quantization_config": {"quant_method": method}}

    with pytest.raises(UnsupportedError, match=rf"`{L}[.]weight` .*`{method}`") as caught:
        read_inventory(model(tmp_path / "s", tensors, config))

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)


@pytest.mark.parametrize("said", [{"bits": 4, "mode": "mxfp4"}, {"quant_method": None}])
def test_a_block_without_a_method_declares_none(tmp_path, said):
    arrays = {"weight": ("U32", (64, 8)), "scales": ("U8", (64, 2))}
    source = model(
        tmp_path / "s",
        {f"{L}.{name}": array for name, array in arrays.items()},
        {"quantization": {"bits": 4, "mode": "mxfp4"}, "quantization_config": said},
    )

    found = read_inventory(source)

    assert (found.scheme, found.is_decoded) == ("mlx", True)


@pytest.mark.parametrize("program", ["bitnet", "torchao", "a new one"])
def test_a_declaration_alone_is_about_something_else(tmp_path, program):
    config = {"quantization_config": {"quant_method": program}}
    positions = {"position_ids": ("I64", (1, 64))}
    tensors = {f"{L}.weight": ("BF16", (64, 64)), f"{L}.weight_scale": ("BF16", (1,))}

    found = read_inventory(model(tmp_path / "s", tensors | positions, config))

    assert len(found.tensors) == 3


def test_a_model_of_an_earlier_version_keeps_its_arrays(tmp_path):
    arrays = {f"{L}.{name}": array for name, array in ARRAYS["hqq"][0].items()}
    source = model(tmp_path / "s", arrays)
    name = ModelName.parse("m")
    with Store(tmp_path / "store") as store:
        create(store, source, as_arrays=True)

        create(store, StoredModel(name), "again")
        assert describe(store, name).prequantized == "hqq"
        with pytest.raises(UnsupportedError) as caught:
            plan_import(ImportRequest(name, StoredModel(name), parse_options("int4")), store)

    assert (caught.value.code, caught.value.exit_code) == ("E_PREQUANTIZED", 4)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "BF16"])
def test_sparse_weights_are_refused_as_such_with_scales_too(tmp_path, dtype):
    arrays = {
        "bitmask": ("U8", (48, 8)),
        "compressed": (dtype, (48, 32)),
        "shape": ("I64", (2, 1)),
        "weight_scale": ("F32", (48, 1)),
    }
    channel = {"num_bits": 8, "type": "float", "strategy": "channel"}
    said = {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "sparsity_config": {"format": "sparse-24-bitmask"},
        "config_groups": {"g": {"targets": ["Linear"], "weights": channel}},
    }
    tensors = {f"{L}.{name}": array for name, array in arrays.items()}

    with pytest.raises(UnsupportedError, match="sparse-bitmask") as caught:
        read_inventory(model(tmp_path / "s", tensors, {"quantization_config": said}))

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)
