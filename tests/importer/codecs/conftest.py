"""Codecs with kernels and without."""

from __future__ import annotations

import os

import pytest

from importer.codecs import runtime
from importer.codecs.registry import codec_for
from tests.importer.codecs import corpus


@pytest.fixture
def without_kernels(monkeypatch):
    """Whatever was prepared, work in numpy."""
    monkeypatch.setattr(runtime, "_ready", {})


@pytest.fixture(scope="session")
def kernels():
    """Load or compile every kernel; the cache on disk makes this quick the next time."""
    families = [codec_for(spec, dtype) for spec in corpus.SPECS for dtype in corpus.DTYPES]
    # Every other worker from the other end: they find on disk what these have compiled.
    if os.environ.get("PYTEST_XDIST_WORKER", "")[-1:] in tuple("13579"):
        families.reverse()
    ready = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "_ready", ready)
        problem = runtime.prepare(dict.fromkeys(families, 1 << 40), lambda: None)
    if problem is not None and problem.startswith("ModuleNotFoundError"):
        pytest.skip(problem)
    assert problem is None
    return ready


@pytest.fixture
def with_kernels(monkeypatch, kernels):
    """Work with kernels."""
    monkeypatch.setattr(runtime, "_ready", kernels)
