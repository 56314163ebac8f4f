"""Configurations and arrays in MLX's form that contradict themselves or each other."""

from __future__ import annotations

import pytest

from importer.pipeline import plan_import
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from importer.verification.compare import compare
from store import ModelName, Store
from store.errors import InputError
from store.verify import verify
from tests.importer.builders import create, model, plan
from tests.importer.sources.schemes.stored_types import types

NAME = ModelName.parse("m")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


W, S, B = ("U32", (4, 16)), ("F16", (4, 2)), ("F16", (4, 2))
FOUR = {"bits": 4, "group_size": 64}
GOOD = {"a.weight": W, "a.scales": S, "a.biases": B}
PAIR, CONFIG = "E_QUANT_PAIR", "E_CONFIG"
BAD = {
    "bits of none": (GOOD, {"bits": 8, "group_size": 64}, PAIR, "4 bits in groups of 64"),
    "bits of a module": (GOOD, {**FOUR, "a": {**FOUR, "bits": 8}}, PAIR, "8 bits in groups"),
    "group that fits nothing": (
        GOOD | {"a.weight": ("U32", (4, 20))}, FOUR, PAIR, "5 bits in groups of 64",
    ),
    "group of a module": (GOOD, {**FOUR, "a": {"bits": 4, "group_size": 32}}, PAIR, "a`"),
    "a module that is not quantized": (GOOD, {**FOUR, "a": False}, PAIR, "is not quantized"),
    "a module that is": (
        GOOD | {"b.weight": ("F16", (4, 8))}, {**FOUR, "b": FOUR}, PAIR, "`b.weight` is F16",
    ),
    "mode": (GOOD, {**FOUR, "mode": "mxfp4"}, PAIR, "has mxfp4, 4 bits in"),
    "mode of a module": (
        GOOD, {**FOUR, "a": {"mode": "nvfp4", "bits": 4, "group_size": 16}}, PAIR, "nvfp4",
    ),
    "unknown mode": (GOOD, {**FOUR, "mode": "int7"}, CONFIG, "`mode` is int7"),
    "mode that is a list": (GOOD, {**FOUR, "mode": [1]}, CONFIG, "`mode`"),
    "7 bits": (GOOD, {"bits": 7, "group_size": 64}, CONFIG, "`bits` is 7"),
    "bits as a word": (GOOD, {"bits": "4", "group_size": 64}, CONFIG, "`bits` is 4"),
    "true bits": (GOOD, {"bits": True, "group_size": 64}, CONFIG, "`bits` is True"),
    "negative bits": (GOOD, {"bits": -4, "group_size": 64}, CONFIG, "`bits` is -4"),
    "huge group": (GOOD, {"bits": 4, "group_size": 1 << 70}, CONFIG, "`group_size`"),
    "no group": (GOOD, {"bits": 4, "group_size": 0}, CONFIG, "`group_size` is 0"),
    "nothing is quantized": ({"a.weight": ("F16", (4, 8))}, FOUR, PAIR, "says 4 bits"),
    "no scales": ({"a.weight": W, "a.biases": B}, FOUR, PAIR, "and no `a.scales`"),
    "no biases": ({"a.weight": W, "a.scales": S}, FOUR, PAIR, "and no `a.biases`"),
    "rows": (GOOD | {"a.scales": ("F16", (3, 2))}, FOUR, PAIR, "do not fit each other"),
    "columns": (GOOD | {"a.scales": ("F16", (4, 3))}, FOUR, PAIR, "do not fit each other"),
    "biases": (GOOD | {"a.biases": ("F16", (4, 1))}, FOUR, PAIR, "differ in shape"),
    "integer scales": (
        {"a.weight": W, "a.scales": ("I32", (4, 2)), "a.biases": ("I32", (4, 2))},
        FOUR, PAIR, "`a.scales` is I32",
    ),
    "scales of 64 bits": (
        {"a.weight": W, "a.scales": ("F64", (4, 2)), "a.biases": ("F64", (4, 2))},
        FOUR, PAIR, "`a.scales` is F64",
    ),
    "bytes with biases": (
        {"a.weight": W, "a.scales": ("U8", (4, 2)), "a.biases": ("U8", (4, 2))},
        FOUR, PAIR, "`a.scales` is U8",
    ),
    "no dimensions": (
        {"a.weight": ("U32", ()), "a.scales": ("F16", ()), "a.biases": ("F16", ())},
        FOUR, PAIR, "not a matrix",
    ),
    "one dimension": (
        {"a.weight": ("U32", (16,)), "a.scales": ("F16", (2,)), "a.biases": ("F16", (2,))},
        FOUR, PAIR, "not a matrix",
    ),
    "another rank": (
        GOOD | {"a.weight": ("U32", (4, 1, 16))}, FOUR, PAIR, "do not fit each other",
    ),
    "empty words": (GOOD | {"a.weight": ("U32", (4, 0))}, FOUR, PAIR, "do not fit"),
    "nothing at all, and no configuration": (
        {"a.weight": ("U32", (4, 0)), "a.scales": ("F16", (4, 0)), "a.biases": ("F16", (4, 0))},
        None, PAIR, "its shapes fit",
    ),
    "a scale of the same name": (
        GOOD | {"a.weight.scale": ("F16", (4, 2))}, FOUR, "E_NAME_COLLISION", "a.weight.scale",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_contradicts_itself_is_refused(store, tmp_path, what):
    tensors, quantization, code, words = BAD[what]
    source = model(tmp_path / "s", tensors, {"quantization": quantization})

    with pytest.raises(InputError) as caught:
        plan_import(ImportRequest(NAME, source), store)

    assert (caught.value.code, caught.value.exit_code) == (code, 3)
    assert words in str(caught.value)
    assert not store.layout.blobs.exists()


def test_the_global_group_size_decides_between_types_of_equal_shapes(store, tmp_path):
    # Of 4 bits in groups of 64 and of 8 bits in groups of 32 shapes are the same.
    source = model(tmp_path / "s", GOOD, {"quantization": {"bits": 8, "group_size": 32}})
    create(store, source)

    assert types(store)["a.weight"] == ("int8", 32, (4, 64))


@pytest.mark.parametrize("shape", [(0, 16), (4, 0), (2, 0, 16)])
def test_a_tensor_without_elements_is_kept(store, tmp_path, shape):
    groups = ("F16", (*shape[:-1], shape[-1] // 8))
    tensors = {"a.weight": ("U32", shape), "a.scales": groups, "a.biases": groups}
    source = model(tmp_path / "s", tensors, {"quantization": FOUR})

    create(store, source)

    assert types(store)["a.weight"] == ("int4", 64, (*shape[:-1], shape[-1] * 8))
    assert verify(store).findings == ()
    assert compare(store, NAME, source).findings == ()


@pytest.mark.parametrize("declared", [None, [], "4", {}, {"bits": None}, 4])
def test_an_odd_block_says_nothing(tmp_path, declared):
    tensors = {"a.weight": ("U32", (4, 20)), "a.scales": S, "a.biases": B}
    source = model(tmp_path / "s", tensors, {"quantization": declared})

    (found,) = read_inventory(source).tensors

    assert (found.shape, found.stored_as) == ((4, 128), "int5")


def test_a_copy_under_the_other_name_is_read(tmp_path):
    source = model(tmp_path / "s", GOOD, {"quantization_config": FOUR})

    (found,) = read_inventory(source).tensors

    assert found.stored_as == "int4/64"


def test_a_plain_integer_is_a_tensor_of_its_own():
    assert [one.name for one in plan({"a.weight": W}).tensors] == ["a.weight"]
