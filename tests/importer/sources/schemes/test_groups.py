"""Which of several declared groups a weight is of: what is told decides, and nothing guesses."""

from __future__ import annotations

import struct

import pytest

from importer.sources.inventory import read_inventory
from store.errors import InputError
from tests.importer.builders import safetensors, write
from tests.importer.sources.schemes.test_scaled_hostile import source

DOWN = "model.layers.0.mlp.down_proj"
SQUARES = {f"{DOWN}.weight": ("F8_E4M3", (200, 300)), f"{DOWN}.weight_scale": ("F32", (4, 5))}
"""In blocks of 64x64, or of 50x60."""
CHANNELS = SQUARES | {f"{DOWN}.weight_scale": ("F32", (200, 1))}
SMALL = {f"{DOWN}.weight": ("F8_E4M3", (64, 64)), f"{DOWN}.weight_scale": ("F32", (1, 1))}


def fp8(*targets, block=None):
    strategy = {"strategy": "channel"} if block is None else {"strategy": "block"}
    weights = {"num_bits": 8, "type": "float", "block_structure": block, **strategy}
    return {"targets": list(targets), "weights": weights}


def integers(*targets, bits=4, **weights):
    facts = {"num_bits": bits, "type": "int", "strategy": "channel", **weights}
    return {"targets": list(targets), "weights": facts}


def groups(*tables):
    named = {f"group_{number}": table for number, table in enumerate(tables)}
    return {"quant_method": "compressed-tensors", "config_groups": named}


S64, S50 = [64, 64], [50, 60]
CASES = {
    "an expression before a class": (
        SQUARES, (fp8("Linear"), fp8("re:.*down_proj", block=S64)), "64x64",
    ),
    "an expression before a class that fits, too": (
        SQUARES, (fp8("Linear", block=S50), fp8("re:.*down_proj", block=S64)), "64x64",
    ),
    "a name before an expression": (
        SQUARES, (fp8("re:.*down_proj", block=S50), fp8(DOWN, block=S64)), "64x64",
    ),
    "the first expression by the alphabet": (
        SQUARES, (fp8("re:.*proj", block=S50), fp8("re:.*down_proj", block=S64)), "64x64",
    ),
    "an expression of another module": (
        SQUARES, (fp8("re:.*up_proj", block=S50), fp8("Linear", block=S64)), "64x64",
    ),
    "the name of another module": (
        SQUARES, (fp8("a.up_proj", "lm_head", block=S50), fp8("Linear", block=S64)), "64x64",
    ),
    "a class by its shapes": (
        SQUARES, (fp8("Embedding"), fp8("Linear", block=S64)), "64x64",
    ),
    "a class by its shapes, of channels": (
        CHANNELS, (fp8("Embedding"), fp8("Linear", block=S64)), "channel",
    ),
    "classes that come to the same": (
        SMALL, (fp8("Embedding", block=[128, 128]), fp8("Linear", block=S64)), "128x128",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("tensors", "said", "block"), CASES.values(), ids=CASES)
def test_a_weight_is_of_the_group_that_the_library_takes(tmp_path, tensors, said, block):
    (found,) = read_inventory(source(tmp_path / "s", tensors, groups(*said))).tensors

    assert found.stored_as == f"fp8 {block}"


def test_classes_with_blocks_that_all_fit_are_listed(tmp_path):
    said = groups(fp8("Embedding", block=S50), fp8("Linear", block=S64))

    with pytest.raises(InputError, match="fits several") as caught:
        read_inventory(source(tmp_path / "s", SQUARES, said))

    assert caught.value.code == "E_QUANT_PAIR"
    assert "50x60 (group_0) and" in str(caught.value)
    assert "64x64 (group_1)" in str(caught.value)


def test_blocks_that_none_of_the_classes_has_are_listed(tmp_path):
    said = groups(fp8("Embedding"), fp8("Linear", block=[128, 128]))

    with pytest.raises(InputError, match="fits none") as caught:
        read_inventory(source(tmp_path / "s", SQUARES, said))

    assert "by channel (group_0) and" in str(caught.value)


@pytest.mark.parametrize("inner", ["text_config", "llm_config"])
def test_what_is_said_of_the_text_model_is_said_of_all(tmp_path, inner):
    config = {inner: {"quantization_config": {"quant_method": "fp8", "weight_block_size": S64}}}
    weights = {f"{DOWN}.weight_scale_inv": SQUARES[f"{DOWN}.weight_scale"], **SQUARES}
    del weights[f"{DOWN}.weight_scale"]
    made = {"model.safetensors": safetensors(weights), "config.json": config}

    (found,) = read_inventory(write(tmp_path / "s", made)).tensors

    assert found.stored_as == "fp8 64x64"
