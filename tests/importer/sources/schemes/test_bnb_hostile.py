"""Quantization states of bitsandbytes that contradict themselves or the arrays beside them."""

from __future__ import annotations

import json

import pytest

from importer.sources.inventory import read_inventory
from store.errors import InputError, UnsupportedError
from tests.importer.builders import model

PAIR, FORMAT, LIMIT = "E_QUANT_PAIR", "E_QUANT_FORMAT", "E_LIMIT"
W = "a.weight"
STATE = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [8, 64]}
NESTED = {"nested_blocksize": 4, "nested_dtype": "float32", "nested_offset": 0.04}
FOUR = {
    W: ("U8", (256, 1)), f"{W}.absmax": ("F32", (8,)), f"{W}.quant_map": ("F32", (16,)),
}  # fmt: skip
TWICE = FOUR | {
    f"{W}.absmax": ("U8", (8,)),
    f"{W}.nested_absmax": ("F32", (2,)),
    f"{W}.nested_quant_map": ("F32", (256,)),
}
EIGHT = {W: ("I8", (8, 64)), "a.SCB": ("F32", (8,)), "a.weight_format": ("U8", (), b"\0")}


def state(told, kind="nf4"):
    content = told if isinstance(told, bytes) else json.dumps(told).encode()
    return {f"{W}.quant_state.bitsandbytes__{kind}": ("U8", (len(content),), content)}


def four(told=None, **arrays):
    """4 bits with a state, of which some things are said otherwise."""
    others = {f"{W}.{name}" if name else W: array for name, array in arrays.items()}
    return FOUR | others | state(STATE | (told or {}))


def twice(told=None, **arrays):
    others = {f"{W}.{name}": array for name, array in arrays.items()}
    return TWICE | others | state(STATE | NESTED | (told or {}))


def without(tensors, *names):
    return {name: array for name, array in tensors.items() if name not in names}


BAD = {
    "not JSON": (FOUR | state(b"{"), "not JSON"),
    "not text": (FOUR | state(b"\xff\xfe{}"), "not JSON"),
    "not an object": (FOUR | state([1]), "not a JSON object"),
    "a duplicate": (FOUR | state(b'{"shape":[8,64],"shape":[8,64]}'), "not JSON"),
    "nested deeply": (FOUR | state(b"[" * 4000), "not JSON"),
    "a huge number": (FOUR | state(b"9" * 4096), "not a JSON object"),
    "a state of 5000 bytes": (FOUR | state(b" " * 5000), "state of U8 [5000]"),
    "an empty state": (FOUR | state(b""), "state of U8 [0]"),
    "a state of floats": (
        FOUR | {f"{W}.quant_state.bitsandbytes__nf4": ("F32", (1,))}, "state of F32",
    ),
    "another type": (four({"quant_type": "fp4"}), "nf4 by name, and 'fp4'"),
    "no type": (four({"quant_type": None}), "and None in its state"),
    "fewer elements": (four({"shape": [8, 62]}), "takes 248"),
    "more elements": (four({"shape": [1 << 30, 1 << 18]}), "256 bytes"),
    "more than there can be": (four({"shape": [1 << 40, 1 << 40]}), "has shape"),
    "a negative shape": (four({"shape": [-8, -64]}), "has shape [-8, -64]"),
    "a shape of zeros": (four({"shape": [0, 64]}), "has shape"),
    "a shape of words": (four({"shape": ["8", 64]}), "has shape"),
    "a true shape": (four({"shape": [True, 512]}), "has shape"),
    "no shape": (four({"shape": None}), "has shape None"),
    "an empty shape": (four({"shape": []}), "has shape"),
    "nine dimensions": (four({"shape": [512, *[1] * 8]}), "has shape"),
    "another block": (four({"blocksize": 32}), "`absmax` of F32 [8], expected F32 [16]"),
    "a block of 0": (four({"blocksize": 0}), "`blocksize` 0"),
    "a negative block": (four({"blocksize": -64}), "`blocksize` -64"),
    "a block of a fraction": (four({"blocksize": 64.0}), "`blocksize` 64.0"),
    "a huge block": (four({"blocksize": 1 << 80}), "`blocksize`"),
    "magnitudes": (four(absmax=("F32", (7,))), "`absmax` of F32 [7]"),
    "magnitudes of 16 bits": (four(absmax=("F16", (8,))), "`absmax` of F16"),
    "a short code book": (four(quant_map=("F32", (15,))), "`quant_map` of F32 [15]"),
    "no magnitudes": (without(four(), f"{W}.absmax"), "has no `absmax`"),
    "no code book": (without(four(), f"{W}.quant_map"), "has no `quant_map`"),
    "no state": (FOUR, "no quantization state"),
    "no weight": (without(four(), W), "is not there"),
    "a weight of other bytes": (FOUR | {W: ("U8", (255, 1))} | state(STATE), "has 255 bytes"),
    "two states": (four() | state(STATE, "fp4"), "a second time"),
    "nested in one place": (
        four() | {f"{W}.nested_absmax": ("F32", (2,))}, "`nested_blocksize`",
    ),
    "nested in the other": (four(NESTED), "no `nested_absmax`"),
    "nested magnitudes": (twice(nested_absmax=("F32", (3,))), "expected F32 [2]"),
    "nested codes": (twice(absmax=("F32", (8,))), "expected U8 [8]"),
    "nested code book": (twice(nested_quant_map=("F32", (255,))), "expected F32 [256]"),
    "a nested block of 0": (twice({"nested_blocksize": 0}), "`nested_blocksize` 0"),
    "an offset of a word": (twice({"nested_offset": "0"}), "`nested_offset` 0"),
    "a true offset": (twice({"nested_offset": True}), "`nested_offset` True"),
    "no offset": (twice({"nested_offset": None}), "`nested_offset` None"),
    "a huge offset": (twice({"nested_offset": 1e300}), "not float32"),
    "int8 of bytes": (EIGHT | {W: ("U8", (8, 64))}, "has the scales of an I8 matrix"),
    "int8 of one dimension": (EIGHT | {W: ("I8", (512,))}, "I8 matrix"),
    "scales of rows": (EIGHT | {"a.SCB": ("F32", (64,))}, "`SCB` of F32 [64]"),
    "scales of 16 bits": (EIGHT | {"a.SCB": ("F16", (8,))}, "`SCB` of F16"),
    "no int8": (without(EIGHT, W), "is not there"),
    "a format of four bytes": (EIGHT | {"a.weight_format": ("I32", ())}, "expected a byte"),
}  # fmt: skip

UNKNOWN = {
    "af4": (FOUR | state(STATE | {"quant_type": "af4"}, "af4"), "is af4"),
    "values of 64 bits": (four({"dtype": "float64"}), "values of float64"),
    "a dtype of a list": (four({"dtype": [1]}), "values of [1]"),
    "by columns": (EIGHT | {"a.weight_format": ("U8", (), b"\1")}, "has format 1"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_contradicts_itself_is_refused(tmp_path, what):
    tensors, words = BAD[what]

    with pytest.raises(InputError) as caught:
        read_inventory(model(tmp_path, tensors))

    assert caught.value.code in {PAIR, LIMIT}
    assert words in str(caught.value)


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_not_decoded_is_refused_by_name(tmp_path, what):
    tensors, words = UNKNOWN[what]

    with pytest.raises(UnsupportedError) as caught:
        read_inventory(model(tmp_path, tensors))

    assert (caught.value.code, caught.value.exit_code) == (FORMAT, 4)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("tensors", "expected", "shape"),
    [
        (four(), "nf4/64", (8, 64)),
        (four({"shape": [2, 4, 64]}), "nf4/64", (2, 4, 64)),
        (four({"shape": [511], "blocksize": 64}), "nf4/64", (511,)),
        (four({"nf4": 1, "later": None}), "nf4/64", (8, 64)),
        (FOUR | {W: ("BF16", (128, 1))} | state(STATE), "nf4/64", (8, 64)),
        (twice(), "nf4/64 nested", (8, 64)),
        (EIGHT, "bnb int8", (8, 64)),
        (without(EIGHT, "a.weight_format"), "bnb int8", (8, 64)),
    ],
)
def test_shapes_are_those_of_the_state(tmp_path, tensors, expected, shape):
    (found,) = read_inventory(model(tmp_path, tensors)).tensors

    assert (found.stored_as, found.shape) == (expected, shape)
    assert {array.name for array in found.arrays} == tensors.keys()


def test_experts_that_are_parameters_have_states_of_their_own(tmp_path):
    tensors = {name.replace(W, "experts.up_proj"): one for name, one in four().items()}

    (found,) = read_inventory(model(tmp_path, tensors)).tensors

    assert (found.name, found.stored_as) == ("experts.up_proj", "nf4/64")
