"""Which kernels are prepared: those that are worth it, and agree with numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from importer.codecs.base import Operation
from importer.codecs.grouped import GroupKernel
from importer.codecs.kernels import function
from importer.codecs.measure import Measure
from importer.codecs.plain import Plain
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY, prepare
from importer.codecs.spec import QUANT_TYPES
from tests.importer.codecs import corpus

MUCH = 1 << 40
INT4 = codec_for(QUANT_TYPES["int4"], "BF16")


@dataclass(frozen=True)
class Fake:
    """A kernel that has to be compiled, or is wrong."""

    name: str
    is_kept: bool = True
    is_wrong: bool = False

    def load(self):
        return f"kernel {self.name}"

    def check(self, kernel):
        assert kernel == f"kernel {self.name}"
        if not self.is_kept:
            function._announce.get()()
        if self.is_wrong:
            raise ArithmeticError(f"{self.name} is wrong")


def test_little_work_is_not_worth_a_kernel():
    assert prepare({}, pytest.fail) is NUMPY
    assert prepare({Fake("a"): (8 << 20) - 1, Fake("b"): 8 << 20}, pytest.fail) is NUMPY
    assert NUMPY.kernel(Fake("a")) is NUMPY.problem is None


def test_work_is_counted_together():
    runtime = prepare({Fake("a"): 8 << 20, Fake("b"): 8 << 20}, pytest.fail)

    assert runtime.ready == {Fake("a"): "kernel a", Fake("b"): "kernel b"}
    assert runtime.kernel(Fake("b")) == "kernel b"
    assert runtime.kernel(Fake("c")) is runtime.problem is None


def test_compiling_is_announced_once():
    announced = []
    work = {Fake("kept"): MUCH} | {Fake(name, is_kept=False): MUCH for name in "abc"}

    runtime = prepare(work, lambda: announced.append(1))

    assert runtime.ready.keys() == work.keys()
    assert announced == [1]


def test_what_has_little_to_do_is_not_compiled():
    little, much = (Fake(name, is_kept=False) for name in ("little", "much"))
    announced = []

    runtime = prepare({little: (256 << 20) - 1, much: 256 << 20}, lambda: announced.append(1))

    assert (runtime.ready.keys(), runtime.problem, announced) == ({much}, None, [1])


def test_a_problem_is_told_and_what_was_ready_before_is_used():
    wrong = Fake("w", is_wrong=True)

    runtime = prepare({Fake("a"): MUCH, wrong: MUCH, Fake("b"): MUCH}, pytest.fail)

    assert runtime.problem == "ArithmeticError: w is wrong"
    assert runtime.ready == {Fake("a"): "kernel a"}


def test_an_interrupt_is_not_a_problem_of_kernels():
    class Interrupted(Fake):
        def check(self, _):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare({Interrupted("a"): MUCH}, pytest.fail)


def test_a_runtime_stays_as_it_was_made():
    runtime = prepare({Fake("a"): MUCH}, pytest.fail)

    with pytest.raises(TypeError):
        runtime.ready[Fake("b")] = 1
    assert prepare({Fake("b"): MUCH}, pytest.fail).kernel(Fake("a")) is None


class Wrong:
    """A kernel that is wrong about everything, and sure of it."""

    @staticmethod
    def encode(source, dtype, spec, words, scale_parts):
        del dtype, spec
        for part in (words, *scale_parts):
            part[:] = 1
        return np.zeros(len(source), np.uint8)

    @staticmethod
    def decode(words, scale_parts, dtype, spec, values):
        del scale_parts, dtype, spec
        values[:] = 1
        return np.zeros(len(words), np.uint8)


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("dtype", corpus.DTYPES)
@pytest.mark.parametrize("spec", QUANT_TYPES.values(), ids=QUANT_TYPES)
def test_a_kernel_that_differs_is_found_out(spec, dtype, operation):
    (kernel,) = codec_for(spec, dtype).kernels(operation)

    with pytest.raises(
        ArithmeticError, match=f"^the kernel that {operation}s {spec.name} differs from numpy$"
    ):
        kernel.check(Wrong)


@pytest.mark.parametrize("operation", Operation)
def test_a_kernel_that_differs_is_not_used(operation, monkeypatch):
    monkeypatch.setattr(GroupKernel, "load", lambda _: Wrong)
    (kernel,) = INT4.kernels(operation)

    runtime = prepare({kernel: MUCH}, lambda: None)

    assert runtime.problem == (
        f"ArithmeticError: the kernel that {operation}s int4 differs from numpy"
    )
    assert runtime.kernel(kernel) is None


def test_one_kernel_serves_all_that_needs_the_same_code():
    def of(name, dtype, size=None):
        spec = QUANT_TYPES[name]
        codec = codec_for(spec._replace(group_size=size or spec.group_size), dtype)
        return codec.kernels(Operation.ENCODE)

    assert of("int4", "BF16", 32) == of("int4", "BF16", 128) == of("int4", "F8_E4M3")
    assert of("int4", "F32") == of("int4", "F64")
    others = [of("int4", "BF16"), of("int4", "F16"), of("int8", "BF16"), of("mxfp4", "BF16")]
    assert len({*others, of("nvfp4", "BF16"), INT4.kernels(Operation.DECODE)}) == 6


def test_nothing_is_compiled_after_preparing(kernels, monkeypatch):
    monkeypatch.setattr(function.Function, "_load", lambda *_: pytest.fail("loaded"))

    for spec in corpus.SPECS:
        for dtype in corpus.DTYPES:
            bits = corpus.ordinary(dtype, 2, np.random.default_rng(7))
            codec, whole = codec_for(spec, dtype), (bits.shape, range(bits.size))
            codec.encode(memoryview(bits).cast("B"), kernels)
            parts = codec.encode(memoryview(bits.tobytes()), kernels).parts
            codec.decode(parts, *whole, kernels)
            codec.decode([bytes(part) for part in parts], *whole, kernels)
            Measure(Plain(dtype), codec, kernels).add([bits.tobytes()], parts, *whole)
