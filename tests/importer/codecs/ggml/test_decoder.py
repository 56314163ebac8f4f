"""GGML's blocks decode to what libggml and gguf-py make of them."""

from __future__ import annotations

import json

import gguf
import numpy as np
import pytest

from importer.codecs.base import Operation, Span
from importer.codecs.ggml.decoder import Ggml
from importer.codecs.ggml.types import NAMED
from importer.codecs.reference import ggml
from importer.codecs.reference.ggml import grids
from importer.codecs.reference.ggml.blocks import LAYOUTS
from importer.codecs.runtime import NUMPY
from tests.importer.codecs import libggml

FIXTURE = json.loads(libggml.FIXTURE.read_text())
SAMPLE = 1 << 18
"""Values that are compared at a time."""
NEW_OR_INTERNAL = {"Q1_0", "Q2_0", "Q8_1", "Q8_K"}
"""Types that gguf-py 0.19 does not decode."""

each_type = pytest.mark.parametrize("kind", libggml.BLOCK_TYPES, ids=lambda kind: kind.name)
each_known = pytest.mark.parametrize(
    "kind",
    [kind for kind in libggml.BLOCK_TYPES if kind.name not in NEW_OR_INTERNAL],
    ids=lambda kind: kind.name,
)
each_grid = pytest.mark.parametrize(
    ("made", "name"),
    [
        (grids.iq1, "IQ1_S"),
        (grids.iq2_xxs, "IQ2_XXS"),
        (grids.iq2_xs, "IQ2_XS"),
        (grids.iq2_s, "IQ2_S"),
        (grids.iq3_xxs, "IQ3_XXS"),
        (grids.iq3_s, "IQ3_S"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)


def any_blocks(kind, count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, kind.nbytes), np.uint8)


def values_of(kind, blocks, runtime=NUMPY):
    shape = (len(blocks), kind.elements)
    data = np.ascontiguousarray(blocks).reshape(-1).data
    values = Ggml(kind.name).decode([data], shape, range(blocks.size), runtime)
    return np.frombuffer(values, np.float32).reshape(shape)


def bits(values):
    """Bits of values; which NaN it is, is up to the processor."""
    return np.where(np.isnan(values), np.float32(np.nan), values).view(np.uint32)


def by_gguf_py(kind, blocks):
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind.name])


@each_known
def test_any_blocks_decode_as_in_gguf_py(kind, each_runtime):
    blocks = any_blocks(kind, SAMPLE // kind.elements)

    assert np.array_equal(
        bits(values_of(kind, blocks, each_runtime)), bits(by_gguf_py(kind, blocks))
    )


@pytest.mark.parametrize("kind", [NAMED["Q4_1"], NAMED["Q5_0"]], ids=lambda kind: kind.name)
def test_every_f16_is_a_scale(kind, each_runtime):
    patterns = np.arange(1 << 16, dtype="<u2")
    blocks = any_blocks(kind, len(patterns))
    blocks.view(LAYOUTS[kind.name])["d"][:, 0] = patterns.view(np.float16)
    if kind.name == "Q4_1":
        blocks.view(LAYOUTS[kind.name])["m"][:, 0] = patterns[::-1].view(np.float16)

    assert np.array_equal(
        bits(values_of(kind, blocks, each_runtime)), bits(by_gguf_py(kind, blocks))
    )


@each_known
def test_subnormal_and_largest_scales_decode_as_in_gguf_py(kind, each_runtime):
    # Bytes that are all alike: also the scales that are bytes.
    blocks = np.repeat(np.arange(256, dtype=np.uint8)[:, None], kind.nbytes, axis=1)
    edges = np.array([0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x7C00, 0xFE00])
    for field in {"d", "dmin", "m"} & set(LAYOUTS[kind.name].names):
        if LAYOUTS[kind.name][field] == np.float16:
            numbers = np.resize(edges.astype("<u2"), len(blocks)).view(np.float16)
            blocks.view(LAYOUTS[kind.name])[field][:, 0] = numbers

    assert np.array_equal(
        bits(values_of(kind, blocks, each_runtime)), bits(by_gguf_py(kind, blocks))
    )


@pytest.mark.parametrize("name", sorted(FIXTURE["types"].keys() - libggml.WITHOUT_DECODER))
def test_blocks_of_libggml_decode_as_there(name, each_runtime):
    kind, made = NAMED[name], FIXTURE["types"][name]
    blocks = np.frombuffer(bytes.fromhex(made["blocks"]), np.uint8).reshape(-1, kind.nbytes)

    values = values_of(kind, blocks, each_runtime)

    assert libggml.digest(values) == made["values"]
    assert np.isfinite(values[: len(values) // 2]).all()  # what libggml quantized


def test_every_type_is_in_the_fixture():
    assert {kind.name for kind in libggml.BLOCK_TYPES} == FIXTURE["types"].keys()


def test_q8_1_is_q8_0_and_a_sum(each_runtime):
    # No library decodes it; its codes and d are computed as those of Q8_0.
    blocks = any_blocks(NAMED["Q8_1"], 500)
    without_sum = np.ascontiguousarray(np.delete(blocks, [2, 3], axis=1))

    assert np.array_equal(
        bits(values_of(NAMED["Q8_1"], blocks, each_runtime)),
        bits(by_gguf_py(NAMED["Q8_0"], without_sum)),
    )


@each_grid
def test_a_grid_has_the_points_of_gguf_py(made, name):
    theirs = getattr(gguf.quants, name)
    theirs.init_grid()

    assert np.array_equal(made(), theirs.grid.reshape(theirs.grid_shape))


@each_type
def test_a_layout_fills_its_block(kind):
    assert LAYOUTS[kind.name].itemsize == kind.nbytes


@each_type
def test_codes_times_scales_plus_offsets_are_the_values(kind):
    blocks = any_blocks(kind, 50, seed=1)

    codes, scales, offsets = ggml.unpack(kind.name, blocks)

    assert codes.shape == (50, kind.elements)
    assert offsets is None or offsets.shape == scales.shape
    assert codes.dtype in (np.int8, np.uint8) or kind.name.startswith("IQ1")


@each_type
def test_values_are_rounded_once(kind):
    # So fused multiply-add, where a compiler uses it, changes nothing.
    blocks = any_blocks(kind, 500, seed=2)

    codes, scales, offsets = ggml.unpack(kind.name, blocks)
    groups = codes.reshape(*scales.shape, -1).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = groups * scales[..., None]
        if offsets is not None:
            exact += offsets[..., None]
        expected = exact.astype(np.float32).reshape(codes.shape)

    assert np.array_equal(bits(ggml.decode(kind.name, blocks)), bits(expected))


@pytest.mark.parametrize("name", ["Q4_0", "Q4_K", "IQ3_S"])
def test_every_nan_is_the_same(name, each_runtime):
    blocks = any_blocks(NAMED[name], 2000)
    halves = blocks.view(LAYOUTS[name])["d"][:, 0].view(np.uint16)
    halves[:] = np.resize([0x7C01, 0xFC01, 0x7FFF, 0xFE00], len(halves))

    values = values_of(NAMED[name], blocks, each_runtime)

    assert (values.view(np.uint32) == 0x7FC0_0000).all()


@each_type
def test_only_blocks_with_infinite_scales_are_left_to_numpy(kind, kernels):
    blocks = any_blocks(kind, 2000)
    (spec,) = Ggml(kind.name).kernels(Operation.DECODE)
    values = np.empty((len(blocks), kind.elements), np.float32)

    left = kernels.kernel(spec).decode(kind.name, blocks, values) > 0

    _, scales, offsets = ggml.unpack(kind.name, blocks)
    infinite = ~np.isfinite(scales).all(axis=1)
    if offsets is not None:
        infinite |= ~np.isfinite(offsets).all(axis=1)
    assert np.array_equal(left, infinite)


@each_type
def test_any_number_of_blocks_is_taken(kind, kernels):
    blocks = any_blocks(kind, 40)
    for count in (0, 1, 2, 3, 31, 33, 40):
        assert np.array_equal(
            values_of(kind, blocks[:count], kernels).view(np.uint32),
            values_of(kind, blocks[:count]).view(np.uint32),
        )


def test_memory_of_any_place_and_kind_is_taken(kernels):
    kind = NAMED["Q4_K"]
    data, shape = any_blocks(kind, 9).tobytes(), (9, 256)
    moved = memoryview(bytearray(b"x" + data))[1:]
    decoder = Ggml(kind.name)
    expected = decoder.decode([bytearray(data)], shape, range(9 * 256), kernels)

    for rows in (data, moved, moved.toreadonly()):
        assert decoder.decode([rows], shape, range(9 * 256), kernels) == expected


def test_a_kernel_that_differs_is_noticed(kernels):
    (spec,) = Ggml("Q6_K").kernels(Operation.DECODE)
    sound = kernels.kernel(spec)

    class Wrong:
        def decode(self, name, blocks, values):
            left = sound.decode(name, blocks, values)
            values[-1, -1] += 1
            return left

    spec.check(sound)
    with pytest.raises(ArithmeticError, match="decodes Q6_K differs"):
        spec.check(Wrong())


def test_a_decoder_says_what_it_reads():
    decoder = Ggml("Q4_K")

    assert str(decoder) == "Q4_K"
    assert decoder.value_dtype == "F32"
    assert decoder.unit((4, 512)) == 256
    assert decoder.spans((4, 512), range(512, 1536)) == (Span(288, 576),)
    assert decoder.kernels(Operation.ENCODE) == ()


@pytest.mark.parametrize("name", ["F16", "I8"])
def test_plain_types_have_no_blocks(name):
    with pytest.raises(AssertionError, match="has no blocks"):
        Ggml(name)
