"""Schemes are imported for the sources that may need one, and no other source needs one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.sources.file import Identity, SourceFile
from importer.sources.joined import may_be_quantized
from importer.sources.schemes.registry import join_tensors, scheme_of
from importer.sources.tensor import SourceTensor, StoredArray

FILE = SourceFile("model.safetensors", Path("/nowhere"), Identity(0, 0, 0, 0))
L = "model.layers.0.mlp.up_proj"
FLOATS = ("BF16", "F16", "F32", "F64")
ENDS = (
    *("weight", "bias", "biases", "scale", "scales", "scale_weight", "qscale_weight"),
    *("weight_scale", "weight_scale_2", "weight_scale_inv", "weight_packed", "input_scale"),
    *("weight_global_scale", "global_scale", "qweight", "qzeros", "g_idx", "SCB", "absmax"),
    *("weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight_zero_point"),
    *("gate_up_proj", "gate_up_proj_scale", "gate_up_proj_scale_inv", "blocks", "scales"),
    *("pre_quant_scale", "svdquant_lora_a", "B", "s", "s_channel", "W_q", "codes", "bitmask"),
    *("codebooks", "indices", "q_weight", "trellis", "qdata", "_data", "e_score_correction"),
    *(
        "tables2",
        "wscales",
        "weight_scales",
        "compressed",
        "dense_weights",
        "Qidxs",
        "centroids",
    ),
)
"""Ends of names that any scheme asks about, and of ordinary ones."""
BUFFERS = ("position_ids", "num_batches_tracked")


def plain(name, dtype):
    return SourceTensor.plain(StoredArray(name, dtype, (64, 64), FILE, 0, 0))


stems = st.sampled_from([f"{L}.", "model.layers.0.mlp.experts.", "a.", ""])
arrays = st.dictionaries(
    st.builds(str.__add__, stems, st.sampled_from((*ENDS, *BUFFERS))),
    st.sampled_from((*FLOATS, "I64", "I32")),
    min_size=1,
)


@given(arrays, st.sampled_from([{}, {"model_type": "llama"}, {"quant_method": "gptq"}]))
def test_what_is_left_out_of_the_schemes_is_nothing_to_any_of_them(arrays, config):
    tensors = [plain(name, dtype) for name, dtype in arrays.items()]

    if not may_be_quantized(tensors, {"": config}, {}):
        assert scheme_of(arrays.items(), config) is None
        assert list(join_tensors(tensors, config, {})) == tensors


@pytest.mark.parametrize(
    ("arrays", "config"),
    [
        ({f"{L}.weight": "F8_E4M3"}, {}),
        ({f"{L}.qweight": "I32"}, {}),
        ({f"{L}.weight_scale": "F32"}, {}),
        ({f"{L}.weight": "BF16", f"{L}.SCB": "F32"}, {}),
        ({"weight_packed": "F32"}, {}),
        ({"position_ids": "F8_E4M3"}, {}),
        ({f"{L}.weight": "BF16"}, {"quantization": {"bits": 4}}),
        ({f"{L}.weight": "BF16"}, {"quantization_config": {}}),
    ],
    ids=str,
)
def test_codes_scales_and_declarations_are_shown_to_the_schemes(arrays, config):
    tensors = [plain(name, dtype) for name, dtype in arrays.items()]

    assert may_be_quantized(tensors, {"": {}, "vae": config}, {})


def test_a_plain_model_is_not():
    arrays = {f"{L}.weight": "BF16", f"{L}.bias": "F16", "model.inv_freq": "F32"}
    arrays |= {"embeddings.position_ids": "I64", "bn.num_batches_tracked": "I64"}
    tensors = [plain(name, dtype) for name, dtype in arrays.items()]

    assert not may_be_quantized(tensors, {"": {"model_type": "llama"}}, {})
