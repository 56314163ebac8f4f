"""FP8 in blocks: scales that are not numbers."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs.scaled.block_fp8 import BlockFp8


@pytest.mark.parametrize("width", [4, 1024])
def test_the_last_byte_of_e8m0_is_nan_as_the_ocp_has_it(each_runtime, width):
    """And not 2 ** 128, which F32 has as infinity."""
    codes = np.full((2, width), 0x38, np.uint8)  # 1
    scales = np.array([255, 254], np.uint8)
    decoder = BlockFp8("F8_E4M3", "F8_E8M0", (1, 0))

    made = decoder.decode((codes.data, scales.data), (2, width), range(2 * width), each_runtime)

    values = np.frombuffer(made, np.float32).reshape(2, width)
    assert np.isnan(values[0]).all()
    assert (values[1] == 2.0**127).all()
