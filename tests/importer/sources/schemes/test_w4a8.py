"""ModelOpt's W4A8_AWQ: integers of four bits, with products that are rounded to FP8."""

import struct

import pytest

from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from store import ModelName, Store
from tests.importer.sources.schemes.decoding import decoded
from tests.importer.sources.schemes.test_scaled_hostile import mo, source

CODES = {"a.weight": ("U8", (2, 64)), "a.weight_scale": ("F32", (4, 2), bytes(range(1, 33)))}
SECOND = {"a.weight_scale_2": ("F32", (), struct.pack("<f", 0.25))}
INPUTS = {"a.pre_quant_scale": ("BF16", (64,), struct.pack("<H", 0x3F80) * 64)}


@pytest.mark.parametrize("inputs", [{}, INPUTS])
def test_the_second_scale_is_not_of_the_values(tmp_path, inputs):
    rounded = source(tmp_path / "s", CODES | SECOND | inputs, mo("W4A8_AWQ", group_size=32))
    plain = source(tmp_path / "p", CODES | inputs, mo("W4A16_AWQ", group_size=32))

    found, second = read_inventory(rounded).tensors
    (expected,) = read_inventory(plain).tensors

    assert (found.name, found.shape, second.name) == ("a.weight", (4, 64), "a.weight_scale_2")
    assert decoded(found).tobytes() == decoded(expected).tobytes()


def test_the_second_scale_is_told_to_be_of_no_use_to_another_type(tmp_path):
    made = source(tmp_path / "s", CODES | SECOND, mo("W4A8_AWQ", group_size=32))
    request = ImportRequest(ModelName.parse("m"), made, recipe=parse_options("bf16"))

    with Store(tmp_path / "store") as store:
        found = plan_import(request, store)

    (warning,) = (one for one in map(str, found.warnings) if "scaled activations" in one)
    assert "`a.weight_scale_2`" in warning
