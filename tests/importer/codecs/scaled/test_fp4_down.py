"""NVFP4 in groups of rows is that in groups of columns, transposed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from importer.codecs.runtime import NUMPY
from importer.codecs.scaled.fp4_down import Fp4Down
from importer.codecs.scaled.global_scaled import ScaledFp4
from tests.importer.codecs import laws

SHAPE = (3, 64, 10)
STACK = [
    pytest.param(Fp4Down(), np.array([0.5, 3, 7], "<f4"), id="one each"),
    pytest.param(Fp4Down(is_shared=True), np.array([0.37], "<f4"), id="one for all"),
]


def stored(whole):
    """Any codes and scales, of which none is a NaN."""
    rng = np.random.default_rng(3)
    experts, rows, columns = SHAPE
    codes = rng.integers(0, 256, (experts, rows // 2, columns), np.uint8)
    scales = rng.integers(0, 0x7F, (experts, rows // 16, columns), np.uint8)
    return codes, scales, whole


def transposed(codes, scales, whole, *, is_shared):
    """The values of the other layout, whose decoder is compared with ModelOpt and MLX."""
    experts, rows, columns = SHAPE
    nibbles = np.stack([codes & 15, codes >> 4], axis=2).reshape(experts, rows, columns)
    across = np.ascontiguousarray(nibbles.transpose(0, 2, 1))
    packed = across[..., ::2] | across[..., 1::2] << 4
    arrays = [packed, np.ascontiguousarray(scales.transpose(0, 2, 1)), whole]
    shape = (experts, columns, rows)
    every = [bytearray(one.tobytes()) for one in arrays]
    decoder = ScaledFp4(is_shared=is_shared)
    values = decoder.decode(every, shape, range(math.prod(shape)), NUMPY)
    return np.frombuffer(values, "<f4").reshape(shape).transpose(0, 2, 1)


@pytest.mark.parametrize(("decoder", "whole"), STACK)
def test_values_are_those_of_the_transposed_matrices(kernels, decoder, whole):
    codes, scales, whole = stored(whole)
    expected = transposed(codes, scales, whole, is_shared=decoder.is_shared)

    for runtime in (NUMPY, kernels):
        arrays = [bytearray(one.tobytes()) for one in (codes, scales, whole)]
        found = decoder.decode(arrays, SHAPE, range(math.prod(SHAPE)), runtime)
        found = np.frombuffer(found, "<f4").reshape(SHAPE)
        assert np.array_equal(found.view("<u4"), expected.view("<u4"))


@pytest.mark.parametrize(("decoder", "whole"), STACK)
def test_any_pair_of_rows_is_decoded_alone(kernels, decoder, whole):
    arrays = [one.tobytes() for one in stored(whole)]
    count, unit = math.prod(SHAPE), decoder.unit(SHAPE)

    for runtime in (NUMPY, kernels):
        reader = laws.Reader(decoder, SHAPE, arrays)
        whole = range(count)
        expected = bytes(decoder.decode(reader.read(whole), SHAPE, whole, runtime))
        pieces = [
            bytes(decoder.decode(reader.read(piece), SHAPE, piece, runtime))
            for piece in laws.ranges(range(0, count + 1, unit))
        ]
        assert b"".join(pieces) == expected
        assert [span.nbytes for span in decoder.spans(SHAPE, whole)] == list(map(len, arrays))
