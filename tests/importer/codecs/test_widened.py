"""Affine types decoded to F32: products are exact, and sums are rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from importer.codecs.reference import floats
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES
from importer.codecs.widened import Widened


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_values_are_rounded_once(bits, dtype, each_runtime):
    rng = np.random.default_rng(bits)
    codec = codec_for(QUANT_TYPES[f"int{bits}"]._replace(group_size=64), dtype)
    words = rng.integers(0, 1 << 32, (3, 64 * bits // 32), np.uint32)
    small = [floats.narrow(rng.standard_normal(3).astype(np.float32), dtype) for _ in "sb"]
    arrays = [bytearray(part.tobytes()) for part in (words, *small)]

    made = Widened(codec).decode(arrays, (3, 64), range(192), each_runtime)

    scale, bias = (floats.widen(part, dtype).tolist() for part in small)
    stream = [int.from_bytes(row.tobytes(), "little") for row in words]
    exact = [
        Fraction(stream[row] >> (bits * at) & ((1 << bits) - 1)) * Fraction(scale[row])
        + Fraction(bias[row])
        for row in range(3)
        for at in range(64)
    ]
    # A sum of these has at most 53 digits, so that it is rounded to F32 alone.
    assert all(Fraction(float(value)) == value for value in exact)
    expected = np.array([float(value) for value in exact]).astype(np.float32)
    assert np.frombuffer(made, np.float32).tolist() == expected.tolist()


def test_the_codec_needs_what_it_reads():
    codec = codec_for(QUANT_TYPES["int4"], "BF16")
    found = Widened(codec)

    assert found.value_dtype == "F32"
    assert str(found) == str(codec)
    assert found.unit((2, 64)) == codec.unit((2, 64))
    assert found.spans((2, 64), range(128)) == codec.spans((2, 64), range(128))
    assert found.decode([b"", b"", b""], (0, 64), range(0), NUMPY) is not None
