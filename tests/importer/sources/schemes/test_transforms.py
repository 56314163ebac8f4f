"""Weights of compressed-tensors that were multiplied by a matrix (SpinQuant, QuIP)."""

import pytest

from importer.sources.inventory import read_inventory
from store.errors import UnsupportedError
from tests.importer.sources.schemes.test_scaled_hostile import PACKED, ct, source

FLOATS = {"a.weight": ("F8_E4M3", (4, 64)), "a.weight_scale": ("F32", ())}
EIGHT = {"num_bits": 8, "type": "float", "strategy": "tensor", "group_size": None}


def turned(*locations, name="R4"):
    """The declaration of a transform at some places of a module."""
    apply = [{"targets": ["Linear"], "location": location} for location in locations]
    return {"config_groups": {name: {"type": "hadamard", "apply": apply}}}


@pytest.mark.parametrize("place", ["input", "output"])
@pytest.mark.parametrize(("tensors", "weights"), [(PACKED, None), (FLOATS, EIGHT)])
def test_weights_that_need_turned_inputs_are_refused_by_name(tmp_path, place, tensors, weights):
    said = ct(weights, transform_config=turned("weight_input", place))

    with pytest.raises(UnsupportedError, match=r"`transform_config` .*`R4`") as caught:
        read_inventory(source(tmp_path / "s", tensors, said))

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)


def test_a_model_that_is_not_quantized_but_turned_is_refused_too(tmp_path):
    """As compressed-tensors saves it: with the matrix beside each layer."""
    tensors = {"a.R4_input.weight": ("BF16", (64, 64)), "a.weight": ("BF16", (4, 64))}
    said = {"quant_method": "compressed-tensors", "config_groups": {}}
    made = source(tmp_path / "s", tensors, said | {"transform_config": turned("input")})

    with pytest.raises(UnsupportedError, match=r"`a.weight` .*`transform_config` .*`R4`"):
        read_inventory(made)


@pytest.mark.parametrize(
    "transform",
    [
        None,
        {},
        {"config_groups": []},
        {"config_groups": {"R1": None, "R2": {"apply": [7, {"location": ["input"]}]}}},
        turned(),
        turned("weight_input", "weight_output"),
        turned("k_cache", "q_attn"),
    ],
)
def test_turns_that_undo_each_other_within_the_weights_are_decoded(tmp_path, transform):
    made = source(tmp_path / "s", PACKED, ct(transform_config=transform))

    (tensor,) = read_inventory(made).tensors

    assert (tensor.name, tensor.shape) == ("a.weight", (4, 64))
