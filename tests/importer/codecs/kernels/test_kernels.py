"""A kernel makes what the numpy module makes, wherever it says that it can."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs import arithmetic
from importer.codecs.base import Operation
from importer.codecs.reference import floats
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import GROUP_SIZES, QUANT_TYPES, Mode
from tests.importer.codecs import corpus

each_spec = pytest.mark.parametrize("spec", corpus.SPECS, ids=corpus.spec_id)
each_type = pytest.mark.parametrize("spec", QUANT_TYPES.values(), ids=QUANT_TYPES)
each_dtype = pytest.mark.parametrize("dtype", corpus.DTYPES)
each_float = pytest.mark.parametrize("name", ["nvfp4", "mxfp4", "mxfp8"])


def kernel_of(operation, codec, kernels):
    """The kernel that a codec asks a runtime for."""
    (spec,) = codec.kernels(operation)
    return kernels.kernel(spec)


def both(spec, dtype, bits, kernels):
    """What the kernel and numpy make of rows."""
    codec = codec_for(spec, dtype)
    rows = np.ascontiguousarray(bits).reshape(-1).view(np.uint8).data
    assert kernel_of(Operation.ENCODE, codec, kernels) is not None
    return codec.encode(rows, kernels), codec.encode(rows, NUMPY)


def both_decoded(spec, dtype, parts, kernels):
    """Bits of the values that the kernel and numpy make of parts."""
    codec = codec_for(spec, dtype)
    kernel = kernel_of(Operation.DECODE, codec, kernels)
    made = (bytes(arithmetic.decode(codec, parts, way)) for way in (kernel, None))
    return [np.frombuffer(values, floats.STORED[dtype]) for values in made]


def left_by(spec, dtype, bits, kernels):
    """Flags of the groups that a kernel leaves to numpy."""
    codec = codec_for(spec, dtype)
    source = bits.reshape(-1, spec.group_size)
    parts = codec.parts(source.shape)
    words, *small = (np.empty(part.shape, floats.STORED[part.dtype]) for part in parts)
    kernel = kernel_of(Operation.ENCODE, codec, kernels)
    return kernel.encode(source, dtype, spec, words, [part.reshape(-1) for part in small]) > 0


@each_dtype
@each_spec
def test_a_kernel_makes_what_numpy_makes(spec, dtype, kernels):
    fast, slow = both(spec, dtype, corpus.everything(dtype, 4), kernels)

    assert fast == slow


@each_dtype
@each_type
def test_a_kernel_takes_any_number_of_groups(spec, dtype, kernels):
    bits = corpus.ordinary(dtype, 200, np.random.default_rng(5)).reshape(-1, spec.group_size)

    for groups in (0, 1, 2, 3, 63, 64, 65, 127, 128, 129, len(bits)):
        fast, slow = both(spec, dtype, bits[:groups], kernels)
        assert fast == slow


@each_dtype
@each_type
def test_numbers_that_are_not_finite_are_counted(spec, dtype, kernels):
    bits = corpus.ordinary(dtype, 300, np.random.default_rng(6))
    bad = floats.narrow(np.array([np.inf, -np.inf, np.nan, -np.nan], np.float32), dtype)
    bits[7, 3], bits[7, 4], bits[120, 127], bits[299, 0] = bad

    fast, slow = both(spec, dtype, bits, kernels)

    assert fast.nonfinite == slow.nonfinite == 4
    assert fast == slow


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
@pytest.mark.parametrize("name", ["nvfp4", "mxfp4", "mxfp8", "int4"])
def test_every_largest_magnitude_has_the_right_scale(name, dtype, kernels):
    spec = QUANT_TYPES[name]
    largest = np.arange(0x8000, dtype=np.uint16)
    largest = largest[np.isfinite(floats.widen(largest, dtype))]
    bits = np.zeros((len(largest), spec.group_size), np.uint16)
    bits[:, 3] = largest
    bits[:, 5] = largest | 0x8000
    bits[:, 6:] = largest[:, None] // np.arange(2, spec.group_size - 4)

    fast, slow = both(spec, dtype, bits, kernels)

    assert fast == slow


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
@each_float
def test_every_number_has_the_right_code(name, dtype, kernels):
    # Under scales near 1: every number of the dtype that can be in such a group.
    spec = QUANT_TYPES[name]
    finite = np.arange(1 << 16, dtype=np.uint16)
    sizes = np.abs(floats.widen(finite, dtype))
    for largest in (6, 6.5, 7, 11.9, 448, 500):
        numbers = finite[sizes <= largest]
        rows = -(-len(numbers) // (spec.group_size - 1))
        bits = np.resize(numbers, (rows, spec.group_size))
        bits[:, 0] = floats.narrow(np.array([largest], np.float32), dtype)[0]
        fast, slow = both(spec, dtype, bits, kernels)
        assert fast == slow


@each_dtype
@each_spec
def test_weights_of_models_need_no_numpy(spec, dtype, kernels):
    bits = corpus.ordinary(dtype, 500, np.random.default_rng(8))
    bits[::50] = 0

    assert not left_by(spec, dtype, bits, kernels).any()


@each_dtype
@each_float
def test_groups_outside_the_domain_are_left_to_numpy(name, dtype, kernels):
    spec = QUANT_TYPES[name]
    largest = np.array([2**-101, 2**-100, 1, 2**29, 2**30, np.inf], np.float32)
    bits = np.repeat(floats.narrow(largest, dtype)[:, None], spec.group_size, axis=1)

    left = left_by(spec, dtype, bits, kernels).tolist()

    if dtype == "F16":  # the small ones are 0, the large ones infinite
        assert left == [False, False, False, True, True, True]
    else:
        assert left == [True, False, False, False, True, True]


@each_dtype
@pytest.mark.parametrize("group_size", GROUP_SIZES[Mode.AFFINE])
def test_affine_leaves_only_what_is_not_finite(dtype, group_size, kernels):
    spec = next(s for s in corpus.SPECS if s.mode is Mode.AFFINE and s.group_size == group_size)

    assert not left_by(spec, dtype, corpus.everything(dtype, 9), kernels).any()


@each_dtype
@each_spec
def test_a_kernel_decodes_as_numpy_does(spec, dtype, kernels):
    codec = codec_for(spec, dtype)
    bits = corpus.everything(dtype, 10, 64)
    parts = codec.encode(memoryview(np.ascontiguousarray(bits)).cast("B"), NUMPY).parts

    fast, slow = both_decoded(spec, dtype, parts, kernels)

    assert np.array_equal(fast, slow)


@each_dtype
@each_spec
def test_a_kernel_decodes_any_parts_as_numpy_does(spec, dtype, kernels):
    parts = corpus.any_parts(spec, dtype, 500, np.random.default_rng(11))

    fast, slow = both_decoded(spec, dtype, [part.tobytes() for part in parts], kernels)

    assert np.array_equal(fast, slow)


@each_dtype
@each_type
def test_a_kernel_decodes_any_number_of_groups(spec, dtype, kernels):
    codec = codec_for(spec, dtype)
    bits = corpus.ordinary(dtype, 200, np.random.default_rng(12)).reshape(-1, spec.group_size)

    for groups in (0, 1, 2, 3, 63, 64, 65, 127, 128, 129, len(bits)):
        parts = codec.encode(memoryview(bits[:groups].tobytes()), NUMPY).parts
        fast, slow = both_decoded(spec, dtype, parts, kernels)
        assert np.array_equal(fast, slow)


@each_dtype
@each_float
def test_every_code_under_every_scale_is_decoded_as_in_numpy(name, dtype, kernels):
    spec = QUANT_TYPES[name]
    codes = np.arange(256, dtype=np.uint8) if spec.bits == 8 else np.arange(16, dtype=np.uint8)
    if spec.bits == 4:
        codes = codes[::2] | codes[1::2] << np.uint8(4)
    groups = -(-256 // spec.group_size)  # under each scale
    words = np.resize(codes, (256, groups * spec.group_size * spec.bits // 8))
    scales = np.repeat(np.arange(256, dtype=np.uint8), groups)

    fast, slow = both_decoded(spec, dtype, [words, scales], kernels)

    assert np.array_equal(fast, slow)


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
def test_every_scale_and_bias_is_decoded_as_in_numpy(dtype, kernels):
    spec = QUANT_TYPES["int8"]
    scales = np.arange(1 << 16, dtype=np.uint16)
    rng = np.random.default_rng(13)
    biases = rng.permutation(scales)
    codes = rng.integers(0, 256, (scales.size, spec.group_size), np.uint8)
    codes[:, :2] = 0, 255

    fast, slow = both_decoded(spec, dtype, [codes, scales, biases], kernels)

    assert np.array_equal(fast, slow)


@each_dtype
@each_spec
def test_what_models_are_encoded_to_needs_no_numpy(spec, dtype, kernels):
    codec = codec_for(spec, dtype)
    bits = corpus.ordinary(dtype, 500, np.random.default_rng(14)).reshape(-1, spec.group_size)
    words, *small = codec.encode(memoryview(bits).cast("B"), NUMPY).parts
    kinds = [floats.STORED[dtype] if spec.has_bias else np.uint8] * len(small)
    arrays = [np.frombuffer(*pair).copy() for pair in zip(small, kinds, strict=True)]
    rows = np.frombuffer(words, np.uint32).reshape(len(bits), -1).copy()
    kernel = kernel_of(Operation.DECODE, codec, kernels)

    assert not kernel.decode(rows, arrays, dtype, spec, np.empty_like(bits)).any()


@each_dtype
@each_type
def test_memory_of_any_place_and_kind_is_taken(spec, dtype, kernels):
    # Kernels get pointers: what is read-only, or begins at an odd byte, is copied before.
    codec = codec_for(spec, dtype)
    bits = corpus.ordinary(dtype, 3, np.random.default_rng(15))
    moved = memoryview(bytearray(b"x" + bits.tobytes()))[1:]
    expected = codec.encode(bytearray(bits.tobytes()), kernels)
    shifted = [memoryview(bytearray(b"x" + bytes(part)))[1:] for part in expected.parts]
    whole = bits.shape, range(bits.size)
    values = codec.decode(expected.parts, *whole, kernels)

    for rows in (moved, moved.toreadonly(), bits.tobytes()):
        assert codec.encode(rows, kernels) == expected
    for parts in (shifted, [bytes(part) for part in expected.parts]):
        assert codec.decode(parts, *whole, kernels) == values
