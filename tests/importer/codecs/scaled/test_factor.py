"""Codes with scales: by the formula, by MLX, and as types of the store."""

from __future__ import annotations

import math

import numpy as np
import pytest

from importer.codecs.reference.minifloats import E4M3_VALUES
from importer.codecs.registry import codec_for, transcoder_for, type_held
from importer.codecs.runtime import NUMPY
from importer.codecs.scaled.block_fp8 import BlockFp8
from importer.codecs.scaled.blocks import Grid
from importer.codecs.scaled.global_scaled import GlobalNvfp4, ScaledFp4
from importer.codecs.scaled.integers import Layout, PackedInt, Zeros
from store.errors import InputError
from tests.importer.codecs.scaled_cases import any_bits

RNG = np.random.default_rng(7)


def decoded(decoder, arrays, shape, runtime=NUMPY):
    whole = range(math.prod(shape))
    arrays = [bytearray(one) for one in arrays]
    return np.frombuffer(decoder.decode(arrays, shape, whole, runtime), "<f4").reshape(shape)


@pytest.mark.parametrize("shape", [(5, 7), (3, 5, 7), (2, 3, 256, 300)])
@pytest.mark.parametrize("block", [(0, 0), (1, 0), (0, 1), (2, 3), (128, 128)])
def test_each_block_has_its_scale(kernels, shape, block):
    grid = Grid.of(shape, block)
    codes = RNG.integers(0, 0x7F, shape, np.uint8)
    scales = RNG.standard_normal((*shape[:-2], grid.down, grid.across)).astype("<f4")
    decoder = BlockFp8("F8_E4M3", "F32", block)

    rows, columns = (
        np.arange(size) // side for size, side in zip(shape[-2:], grid[3:5], strict=True)
    )
    expected = E4M3_VALUES[codes] * scales[..., rows[:, None], columns]

    for runtime in (NUMPY, kernels):
        found = decoded(decoder, [codes.tobytes(), scales.tobytes()], shape, runtime)
        assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ((0, 0), "fp8"),
        ((1, 0), "fp8 channel"),
        ((128, 128), "fp8 128x128"),
        ((0, 32), "fp8 *x32"),
    ],
)
def test_a_type_is_called_by_its_block(block, words):
    assert str(BlockFp8("F8_E4M3", "F32", block)) == words


def test_every_nan_is_the_same_one(kernels):
    codes = np.array([[0x7F, 0xFF, 0, 1]] * 64, np.uint8)
    for scale in (1, np.inf, np.nan, -np.nan):
        scales = np.array([scale], "<f4").tobytes()
        made = [
            decoded(BlockFp8("F8_E4M3", "F32"), [codes.tobytes(), scales], codes.shape, way)
            for way in (NUMPY, kernels)
        ]
        bits = [one.view(np.uint32) for one in made]
        assert np.array_equal(*bits)
        assert set(bits[0][np.isnan(made[0])].tolist()) == {0x7FC0_0000}


def test_two_rows_share_the_bytes_of_four_bits():
    numbers = RNG.integers(-8, 8, (6, 32))
    packed = (numbers[0::2] & 15) | ((numbers[1::2] & 15) << 4)
    scales = RNG.standard_normal((6, 2)).astype("<f4")
    decoder = PackedInt("modelopt", 4, "F32", (1, 16), Layout.ROWS)
    arrays = [packed.astype(np.uint8).tobytes(), scales.tobytes()]

    expected = numbers.astype(np.float32) * scales.repeat(16, axis=1)

    assert np.array_equal(decoded(decoder, arrays, (6, 32)), expected)
    (codes, some) = decoder.spans((6, 32), range(64, 128))
    assert (codes.begin, codes.nbytes, some.begin, some.nbytes) == (32, 32, 16, 16)


@pytest.mark.parametrize("scales", ["BF16", "F16"])
@pytest.mark.parametrize("zeros", list(Zeros))
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_types_of_the_store_hold_integers_exactly(bits, zeros, scales):
    block = (1, 64)
    decoder = PackedInt("x", bits, scales, block, zeros=zeros)
    shape = (33, 192)
    arrays = any_bits(decoder)(shape, RNG)
    arrays[1] = (np.frombuffer(arrays[1], np.uint16) & 0x3FFF | 0x3000).tobytes()
    spec = type_held(decoder, shape)
    assert (spec.name, spec.group_size) == (f"int{bits}", 64)

    whole = range(math.prod(shape))
    made = transcoder_for(spec, decoder, exact=True).convert(arrays, shape, whole, NUMPY)

    codec = codec_for(spec, "F32")
    assert [len(part) for part in made.parts] == [part.nbytes for part in codec.parts(shape)]
    assert np.array_equal(decoded(codec, made.parts, shape), decoded(decoder, arrays, shape))
    assert made.nonfinite == 0


@pytest.mark.parametrize(
    "decoder",
    [
        PackedInt("x", 7, "BF16", (1, 64)),
        PackedInt("x", 4, "F32", (1, 64)),
        PackedInt("x", 4, "BF16", (1, 16)),
        PackedInt("x", 4, "BF16", (1, 64), has_order=True),
        PackedInt("x", 4, "BF16", (1, 0), Layout.BYTES),
    ],
)
def test_what_no_type_holds_exactly_is_not_repacked(decoder):
    assert type_held(decoder, (4, 192)) is None


def test_a_scale_that_is_not_finite_is_counted():
    decoder = PackedInt("x", 4, "BF16", (1, 32))
    arrays = [bytes(32), np.array([0x7F80, 0x3F80], np.uint16).tobytes()]

    made = decoder.repack(arrays, (1, 64), range(64), NUMPY)

    assert made.nonfinite == 32


def test_nvfp4_with_a_global_scale_is_mlxs(kernels):
    mx = pytest.importorskip("mlx.core")
    shape, whole = (16, 256), np.float32(0.0123)
    words = RNG.integers(0, 1 << 32, (16, 32), np.uint32)
    scales = RNG.integers(0, 0x7F, (16, 16), np.uint8)
    theirs = mx.dequantize(
        mx.array(words),
        mx.array(scales),
        group_size=16,
        bits=4,
        mode="nvfp4",
        global_scale=mx.array(whole * np.float32(2688)),
    )

    for runtime in (NUMPY, kernels):
        arrays = [words.tobytes(), scales.tobytes(), whole.tobytes()]
        found = decoded(GlobalNvfp4(), arrays, shape, runtime)
        assert np.allclose(found, np.array(theirs), rtol=3e-7, atol=0)


@pytest.mark.parametrize("divisor", [0.0, np.inf, np.nan])
def test_a_divisor_without_a_way_back_is_not_copied(divisor):
    copy = transcoder_for(None, GlobalNvfp4(divides=True))
    arrays = [bytes(8), bytes(1), np.float32(divisor).tobytes()]

    with pytest.raises(InputError):
        copy.convert(arrays, (1, 16), range(16), NUMPY)


def test_a_stack_has_a_global_scale_for_each_matrix():
    shape = (3, 2, 16)
    words, scales = bytes(range(48)), bytes([0x38] * 6)
    whole = np.array([1, 2, 4], "<f4").tobytes()

    found = decoded(ScaledFp4(), [words, scales, whole], shape)

    one = decoded(ScaledFp4(is_shared=True), [words, scales, whole[:4]], shape)
    assert np.array_equal(found, one * np.array([1, 2, 4], np.float32)[:, None, None])
    parts = GlobalNvfp4().parts(shape)
    assert (parts[2].suffix, parts[2].shape) == (".global_scale", (3,))
