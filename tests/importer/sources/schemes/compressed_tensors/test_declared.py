"""Where the configuration of compressed-tensors is looked for."""

from __future__ import annotations

import pytest

from importer.sources.inventory import read_inventory
from tests.importer.builders import model
from tests.importer.sources.schemes.test_scaled_hostile import BYTES, CHANNEL


@pytest.mark.parametrize("key", ["quantization_config", "compression_config"])
def test_both_keys_say_how_bytes_are_quantized(tmp_path, key):
    found = read_inventory(model(tmp_path / "s", BYTES, {key: CHANNEL}))

    (tensor,) = found.tensors
    assert tensor.stored_as == "compressed-tensors int8 channel"
    assert (found.scheme, found.is_decoded) == ("compressed-tensors", True)
