"""Codecs with kernels and without: runtimes, which tests hand to what they test."""

from __future__ import annotations

import itertools
import os

import pytest

from importer.codecs import measure, runtime
from importer.codecs.base import Operation
from importer.codecs.cast import Cast
from importer.codecs.ggml.decoder import Ggml
from importer.codecs.ggml.encoder import QUANTIZED, quantizer
from importer.codecs.registry import codec_for
from tests.importer.codecs import corpus, libggml, scaled_cases


def all_kernels():
    """Every kernel of every type, each once."""
    codecs = [codec_for(spec, dtype) for spec in corpus.SPECS for dtype in corpus.DTYPES]
    own = [
        kernel
        for codec in codecs
        for kernel in (*codec.kernels(Operation.ENCODE), *measure.kernels(codec))
    ]
    foreign = [
        *(Ggml(kind.name) for kind in libggml.BLOCK_TYPES),
        *(subject for subject, _ in scaled_cases.SUBJECTS),
    ]
    fitted = [
        kernel
        for spec, dtype in corpus.FITTED
        for kernel in codec_for(spec, dtype).kernels(Operation.ENCODE)
    ]
    decode = (kernel for one in foreign for kernel in one.kernels(Operation.DECODE))
    quantizers = (
        quantizer(name, dtype, importance)
        for name in QUANTIZED
        for dtype in corpus.DTYPES
        for importance in (None, b"")
    )
    encode = (kernel for one in quantizers for kernel in one.kernels(Operation.ENCODE))
    casts = itertools.starmap(Cast, itertools.permutations(corpus.DTYPES, 2))
    cast = (kernel for one in casts for kernel in one.kernels(Operation.ENCODE))
    return list(dict.fromkeys((*own, *fitted, *decode, *encode, *cast)))


@pytest.fixture(scope="session")
def kernels():
    """Load or compile every kernel; the cache on disk makes this quick the next time."""
    specs = all_kernels()
    # Every other worker from the other end: they find on disk what these have compiled.
    if os.environ.get("PYTEST_XDIST_WORKER", "")[-1:] in tuple("13579"):
        specs.reverse()
    found = runtime.prepare(dict.fromkeys(specs, 1 << 40), lambda: None)
    if found.problem is not None and found.problem.startswith("ModuleNotFoundError"):
        pytest.skip(found.problem)
    assert found.problem is None
    assert found.ready.keys() == set(specs)
    return found


@pytest.fixture(scope="session", params=["kernels", "numpy"])
def each_runtime(request):
    """With all kernels, and with none."""
    return request.getfixturevalue("kernels") if request.param == "kernels" else runtime.NUMPY
