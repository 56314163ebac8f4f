"""Weights of compressed-tensors whose columns are in groups that an array tells (act-order)."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from importer.sources.inventory import read_inventory
from store.errors import InputError, UnsupportedError
from tests.importer.sources.schemes.decoding import decoded
from tests.importer.sources.schemes.test_scaled_hostile import FP4, NV, ct, source

GROUPS = (1, 0, 0, 1, 1, 0, 1, 0)
"""Of eight columns, four in each group."""
CODES, SCALES, ZEROS = (1, 2, 3, 4, 5, 6, 7, 8), (0.5, 16.0), (3, -2)
ORDER = ("I32", (8,), struct.pack("<8i", *GROUPS))
SCALED = {"a.weight_scale": ("F32", (1, 2), struct.pack("<2f", *SCALES))}
OF_FOUR = {"group_size": 4, "strategy": "group", "actorder": "group"}
INT8 = {"num_bits": 8, "type": "int", **OF_FOUR}
FP8 = {"num_bits": 8, "type": "float", **OF_FOUR}
BYTES = SCALED | {"a.weight": ("I8", (1, 8), bytes(CODES))}
ONES = SCALED | {"a.weight": ("F8_E4M3", (1, 8), bytes([0x38] * 8))}
"""1.0 in each column."""


def values(tmp_path, tensors, weights, form):
    made = source(tmp_path / "s", tensors, ct(weights, format=form))
    (found,) = read_inventory(made).tensors
    return decoded(found).view(np.float32).tolist()


@pytest.mark.parametrize("form", ["int-quantized", "naive-quantized"])
def test_integers_of_a_byte_have_the_scales_of_their_groups(tmp_path, form):
    found = values(tmp_path, BYTES | {"a.weight_g_idx": ORDER}, INT8, form)

    assert found == [code * SCALES[group] for code, group in zip(CODES, GROUPS, strict=True)]


def test_zero_points_are_those_of_the_groups_too(tmp_path):
    zeros = {"a.weight_zero_point": ("I8", (1, 2), struct.pack("<2b", *ZEROS))}
    tensors = BYTES | zeros | {"a.weight_g_idx": ORDER}

    found = values(tmp_path, tensors, INT8 | {"symmetric": False}, "int-quantized")

    assert found == [
        (code - ZEROS[group]) * SCALES[group] for code, group in zip(CODES, GROUPS, strict=True)
    ]


@pytest.mark.parametrize("form", ["float-quantized", "naive-quantized"])
def test_floats_have_the_scales_of_their_groups(tmp_path, form):
    found = values(tmp_path, ONES | {"a.weight_g_idx": ORDER}, FP8, form)

    assert found == [SCALES[group] for group in GROUPS]


@pytest.mark.parametrize(("tensors", "weights"), [(BYTES, INT8), (ONES, FP8)])
def test_an_order_that_was_never_chosen_is_the_usual_one(tmp_path, tensors, weights):
    none = {"a.weight_g_idx": ("I32", (8,), b"\xff" * 32)}

    found = values(tmp_path, tensors | none, weights, "naive-quantized")

    assert found == values(tmp_path / "without", tensors, weights, "naive-quantized")


@pytest.mark.parametrize(("tensors", "weights"), [(BYTES, INT8), (ONES, FP8)])
@pytest.mark.parametrize("order", [("I32", (7,)), ("I64", (8,))])
def test_an_order_of_other_columns_is_refused(tmp_path, tensors, weights, order):
    made = source(tmp_path / "s", tensors | {"a.weight_g_idx": order}, ct(weights))

    with pytest.raises(InputError, match=r"`a[.]weight_g_idx` is .*expected I32 \[8\]"):
        read_inventory(made)


@pytest.mark.parametrize(("tensors", "kind"), [(BYTES, "int"), (ONES, "float")])
def test_an_order_of_a_weight_without_groups_is_refused(tmp_path, tensors, kind):
    tensors = tensors | {"a.weight_scale": ("F32", (1, 1)), "a.weight_g_idx": ORDER}
    channel = {"num_bits": 8, "type": kind, "strategy": "channel", "group_size": None}

    with pytest.raises(InputError, match=r"`a[.]weight_g_idx` tells the groups of"):
        read_inventory(source(tmp_path / "s", tensors, ct(channel)))


def test_fp4_with_an_order_is_refused(tmp_path):
    tensors = FP4 | {"a.weight_g_idx": ("I32", (32,))}

    with pytest.raises(UnsupportedError, match=r"`a[.]weight_g_idx` tells the groups"):
        read_inventory(source(tmp_path / "s", tensors, ct(NV)))
