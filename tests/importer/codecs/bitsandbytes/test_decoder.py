"""The decoders of bitsandbytes: the laws, the kernel, and the formulas one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs import runtime
from importer.codecs.bitsandbytes import values as bnb_values
from importer.codecs.bitsandbytes.decoder import Bnb4, Bnb4Kernel, Bnb8, Nested
from importer.codecs.reference import floats
from importer.codecs.runtime import NUMPY
from tests.importer.codecs import laws
from tests.importer.codecs.cases import Case

DTYPES = ("F32", "F16", "BF16")
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture(scope="module")
def kernel():
    """The kernels, loaded or compiled."""
    found = runtime.prepare({Bnb4Kernel(dtype): 1 << 40 for dtype in DTYPES}, lambda: None)
    if found.problem is not None and found.problem.startswith("ModuleNotFoundError"):
        pytest.skip(found.problem)
    assert found.problem is None
    return found


@st.composite
def tensors(draw, dtype):
    """A decoder, a shape, and arrays of any codes with magnitudes and code books."""
    nested = None
    if draw(st.booleans()):
        nested = Nested(draw(st.sampled_from([4, 256])), draw(st.floats(-1, 1, width=32)))
    size = draw(st.sampled_from([7, 32, 64, 128]))
    subject = Bnb4("nf4", size, dtype, draw(st.integers(1, 99)), nested)
    shape = tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    arrays = [rng.bytes(span.nbytes) for span in subject.spans(shape, range(math.prod(shape)))]
    for number in (1, 2, 4, 5) if nested is None else (2, 4, 5):
        if number < len(arrays):
            values = rng.normal(size=len(arrays[number]) // 4).astype("<f4")
            if draw(st.integers(0, 9)) == 0:
                values[0] = draw(st.sampled_from([np.inf, np.nan, 3e38]))
            arrays[number] = values.tobytes()
    return subject, shape, arrays


@each_dtype
@given(data=st.data())
def test_it_keeps_the_laws(dtype, kernel, data):
    subject, shape, arrays = data.draw(tensors(dtype))
    case = Case("bnb", subject, None)
    laws.check_decoder(case, shape, arrays, data.draw(laws.cuts(case, shape)), kernel)


@each_dtype
@given(data=st.data())
def test_values_are_those_of_the_formula(dtype, data):
    subject, shape, arrays = data.draw(tensors(dtype))
    count = math.prod(shape)

    made = np.frombuffer(subject.decode(arrays, shape, range(count), NUMPY), "u1")

    assert made.tobytes() == b"".join(expected(subject, arrays, at) for at in range(count))


def expected(subject, arrays, at):
    """One value: an operation of float32 after the other."""
    code = arrays[0][at // 2] >> (4 if at % 2 == 0 else 0) & 15
    block = at // subject.block_size
    if subject.nested is None:
        largest = np.frombuffer(arrays[1], "<f4")[block]
    else:
        scales, book = (np.frombuffer(array, "<f4") for array in arrays[4:])
        with np.errstate(all="ignore"):
            largest = book[arrays[1][block]] * scales[block // subject.nested.block_size]
            largest = np.float32(largest) + np.float32(subject.nested.offset)
    with np.errstate(all="ignore"):
        value = np.frombuffer(arrays[2], "<f4")[code] * np.float32(largest)
    value = np.float32(np.nan if np.isnan(value) else value)
    return floats.narrow(np.array([value], np.float32), subject.value_dtype).tobytes()


@given(data=st.data())
def test_rows_of_int8_keep_the_laws(data):
    subject = Bnb8(has_format=data.draw(st.booleans()))
    shape = data.draw(st.tuples(st.integers(1, 20), st.integers(1, 70)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    whole = range(math.prod(shape))
    arrays = [rng.bytes(span.nbytes) for span in subject.spans(shape, whole)]
    case = Case("int8", subject, None)

    laws.check_decoder(case, shape, arrays, data.draw(laws.cuts(case, shape)), NUMPY)

    codes = np.frombuffer(arrays[0], "i1").reshape(shape)
    largest = np.frombuffer(arrays[1], "<f4")[:, None]
    with np.errstate(all="ignore"):
        values = codes.astype("<f4") * largest * np.float32(7.874015718698502e-3)
    values[np.isnan(values)] = np.nan
    assert bytes(subject.decode(arrays, shape, whole, NUMPY)) == values.tobytes()


@pytest.mark.parametrize("subject", [Bnb8(), Bnb4("fp4", 64, "F16", 9, Nested(256, 0.5))])
def test_it_is_a_value(subject):
    laws.check_is_a_value(subject)


def test_a_kernel_that_differs_is_not_used():
    class Wrong:
        def decode(self, data, largest, book, size, dtype):
            made = bnb_values._in_numpy(data, largest, book, size, dtype)
            made[-1] ^= 1
            return made

    with pytest.raises(ArithmeticError, match="4 bits to BF16"):
        bnb_values.check(Wrong(), "BF16")
