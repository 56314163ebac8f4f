"""Each matrix of a stack is encoded by its own encoder."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs.ggml.encoder import quantizer
from importer.codecs.plain import Plain
from importer.codecs.runtime import NUMPY
from importer.codecs.stacked import RecodeStack

SHAPE = (3, 4, 512)


def stack(name="Q4_K"):
    weights = np.random.default_rng(0).random((3, 512), np.float32)
    encoders = tuple(quantizer(name, "F32", row.tobytes()) for row in weights)
    return RecodeStack(Plain("F32"), encoders), encoders


def test_matrices_are_encoded_by_their_own_encoders():
    subject, encoders = stack()
    values = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    data = [matrix.tobytes() for matrix in values]

    (made,) = subject.convert([values.tobytes()], SHAPE, range(values.size), NUMPY).parts

    expected = [encoder.encode(own, NUMPY) for encoder, own in zip(encoders, data, strict=True)]
    assert bytes(made) == b"".join(bytes(one.parts[0]) for one in expected)


def test_what_is_lost_is_counted_in_all_of_them():
    subject, _ = stack("Q4_0")
    values = np.zeros(SHAPE, np.float32)
    values[0, 0, 0] = values[2, 3, 9] = np.nan

    assert subject.convert([values.tobytes()], SHAPE, range(values.size), NUMPY).nonfinite == 2


def test_there_is_an_encoder_for_each_matrix():
    subject, _ = stack()

    with pytest.raises(AssertionError, match="3 encoders for"):
        subject.parts((2, 4, 512))
