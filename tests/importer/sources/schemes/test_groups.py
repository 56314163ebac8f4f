"""Which of several declared groups a weight is of: what is told decides, no guess."""

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


WORDS = {f"{DOWN}.weight_packed": ("I32", (48, 8)), f"{DOWN}.weight_scale": ("BF16", (48, 1))}
IN_GROUPS = WORDS | {f"{DOWN}.weight_scale": ("BF16", (48, 2))}
TWO = (integers("Embedding", bits=8), integers("Linear"))
OF_BOTH = (
    integers("Embedding", bits=8, strategy="group", group_size=16),
    integers("Linear", strategy="group", group_size=32),
)


@pytest.mark.parametrize(("tensors", "said"), [(WORDS, TWO), (IN_GROUPS, OF_BOTH)])
def test_words_that_may_have_several_numbers_of_bits_are_refused(tmp_path, tensors, said):
    with pytest.raises(InputError, match="several numbers of bits") as caught:
        read_inventory(source(tmp_path / "s", tensors, groups(*said)))

    assert "int of 8 bits" in str(caught.value)
    assert "int of 4 bits" in str(caught.value)


def test_a_shape_that_is_stored_tells_the_bits(tmp_path):
    sides = {f"{DOWN}.weight_shape": ("I64", (2,), struct.pack("<2q", 48, 64))}

    (found,) = read_inventory(source(tmp_path / "s", WORDS | sides, groups(*TWO))).tensors

    assert (found.shape, found.stored_as) == ((48, 64), "compressed-tensors int4 channel")


def test_bytes_whose_blocks_may_be_several_are_refused(tmp_path):
    tensors = {f"{DOWN}.weight": ("I8", (200, 300)), f"{DOWN}.weight_scale": ("F32", (4, 5))}
    blocks = [{"bits": 8, "strategy": "block", "block_structure": one} for one in (S50, S64)]
    said = integers("Embedding", **blocks[0]), integers("Linear", **blocks[1])

    with pytest.raises(InputError, match="50x60") as caught:
        read_inventory(source(tmp_path / "s", tensors, groups(*said)))

    assert "64x64" in str(caught.value)
