"""What a tensor of a source decodes to."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from importer.codecs.reference import floats
from importer.codecs.runtime import NUMPY


def decoded(tensor, runtime=NUMPY):
    """All values of a tensor, as bits of its dtype."""
    everything = range(math.prod(tensor.shape))
    arrays = contents(tensor)
    made = bytes(tensor.decoder.decode(arrays, tensor.shape, everything, runtime))
    return np.frombuffer(made, floats.STORED[tensor.dtype])


def contents(tensor):
    """The bytes of all arrays of a tensor."""
    everything = range(math.prod(tensor.shape))
    arrays = []
    for array, span in zip(
        tensor.arrays, tensor.decoder.spans(tensor.shape, everything), strict=True
    ):
        assert span == (0, array.nbytes, 1, 0)
        with array.file.location.open("rb") as file:
            file.seek(array.offset)
            arrays.append(bytearray(file.read(array.nbytes)))
    return arrays


def digest_of(tensor, dtype):
    """SHA-256 of the values of a tensor, rounded to a dtype."""
    bits = decoded(tensor)
    if dtype != tensor.dtype:
        bits = floats.narrow(floats.widen(bits, tensor.dtype), dtype)
    return hashlib.sha256(bits.tobytes()).hexdigest()
