"""Signal to noise that searched scales gain at equal bytes: python tests/benchmarks/sqnr.py.

    python tests/benchmarks/sqnr.py [--minilm DIR] [--weights 1e7] [--bound]

For each type the SQNR of MLX's scales, what `--calibrate mse` adds to it, and the goal: on
normal weights, and on the linear layers of the real MiniLM where it is given; both as BF16, and
so are scales and biases. With `--bound` also what the best of all bytes of a scale would add to
each group of nvfp4 and mxfp4: nothing that reads these types can show more. Beside them the CPU
time of both encoders for a weight and thread, the median of runs that alternate. Ends with 1
where a gain is below its goal and below that bound; a slow encoder does not fail it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

if __name__ == "__main__":
    # Not this directory, whose names may be those of Python's modules.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from importer.codecs.base import Operation, Runtime
from importer.codecs.reference import floats
from importer.codecs.registry import codec_for
from importer.codecs.runtime import prepare
from importer.codecs.spec import QUANT_TYPES, Method, QuantSpec, calibrated, with_group_size
from store.tensorfile import header_length, parse_header
from tests.benchmarks.fp4_bound import least_errors

GOALS: Final = {
    "int2": 1.6,
    "int3": 1.05,
    "int4": 0.74,
    "int5": 0.6,
    "int6": 0.6,
    "int8": 2.0,
    "nvfp4": 1.2,
    "mxfp4": 0.5,
}
"""dB over MLX's scales."""
GROUP: Final = 64
STEP: Final = 3 << 18
"""Weights at a time: a multiple of all groups, and rows of MiniLM's."""
ALTERNATIONS: Final = 5
EQUAL: Final = 0.005
"""dB that are not told apart."""


class Found(NamedTuple):
    """What was measured of a type.

    Attributes:
        decibels: SQNR of MLX's scales and of searched ones.
        nanoseconds: CPU time for a weight of both encoders.
    """

    decibels: tuple[float, float]
    nanoseconds: tuple[float, float]

    @property
    def gain(self) -> float:
        """What the search adds, in dB."""
        return self.decibels[1] - self.decibels[0]


def normal(count: int) -> Iterator[np.ndarray]:
    """Yield normal weights as bits of BF16."""
    rng = np.random.default_rng(0)
    for _ in range(-(-count // STEP)):
        values = rng.standard_normal(STEP, np.float32) * np.float32(0.02)
        yield floats.narrow(values, "BF16")


def linear_layers(path: Path) -> Iterator[np.ndarray]:
    """Yield the matrices of the encoder, rounded to BF16."""
    data = path.read_bytes()
    length = header_length(data[:8], len(data), "the model")
    header = parse_header(data[8 : 8 + length], len(data), "the model")
    for entry in header.entries:
        if entry.name.startswith("encoder.") and len(entry.shape) == 2:
            values = np.frombuffer(data, "<f4", entry.nbytes // 4, header.nbytes + entry.begin)
            yield floats.narrow(values, "BF16")


def measure(spec: QuantSpec, weights: list[np.ndarray], runtime: Runtime) -> Found:
    """Quantize in both ways, and compare what is decoded."""
    codecs = [codec_for(spec, "BF16"), codec_for(calibrated(spec, Method.MSE), "BF16")]
    decoder = codec_for(spec, "F32")
    signal, noise = 0.0, [0.0, 0.0]
    taken: tuple[list[float], list[float]] = ([], [])
    for number, bits in enumerate(weights):
        values = floats.widen(bits, "BF16").astype(float)
        signal += float((values**2).sum())
        for _ in range(ALTERNATIONS if number == 0 else 1):
            for which, codec in enumerate(codecs):
                started = time.thread_time()
                parts = codec.encode(memoryview(bits).cast("B"), runtime).parts
                taken[which].append((time.thread_time() - started) / bits.size)
        for which, codec in enumerate(codecs):
            parts = codec.encode(memoryview(bits).cast("B"), runtime).parts
            small = [
                floats.widen(np.frombuffer(part, "<u2"), "BF16").tobytes()
                if spec.has_bias
                else bytes(part)
                for part in parts[1:]
            ]
            shape = (bits.size // GROUP, GROUP)
            made = decoder.decode((parts[0], *small), shape, range(bits.size), runtime)
            noise[which] += float(((np.frombuffer(made, np.float32) - values) ** 2).sum())
    first, second = (10 * math.log10(signal / one) for one in noise)
    plain, searched = (1e9 * statistics.median(one) for one in taken)
    return Found((first, second), (plain, searched))


def bound(spec: QuantSpec, weights: list[np.ndarray]) -> float:
    """Return the SQNR that the best scale of each group gives, in dB."""
    signal = noise = 0.0
    for bits in weights:
        values = floats.widen(bits, "BF16").astype(float).reshape(-1, spec.group_size)
        signal += float((values**2).sum())
        noise += float(least_errors(values, spec).sum())
    return 10 * math.log10(signal / noise)


def main() -> int:
    """Measure and print a row for each type."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--weights", type=float, default=1e7, help="normal ones")
    parser.add_argument("--minilm", type=Path, help="directory of the model")
    parser.add_argument("--bound", action="store_true", help="of nvfp4 and mxfp4, too: minutes")
    options = parser.parse_args()
    specs = [
        with_group_size(spec, GROUP) if spec.has_bias else spec
        for name, spec in QUANT_TYPES.items()
        if name in GOALS
    ]
    kernels = [
        kernel
        for spec in specs
        for codec, operation in (
            (codec_for(spec, "BF16"), Operation.ENCODE),
            (codec_for(calibrated(spec, Method.MSE), "BF16"), Operation.ENCODE),
            (codec_for(spec, "F32"), Operation.DECODE),
        )
        for kernel in codec.kernels(operation)
    ]
    runtime = prepare(dict.fromkeys(kernels, 1 << 40), lambda: None)
    of = {"N(0, 0.02)": list(normal(round(options.weights)))}
    if options.minilm is not None:
        of["MiniLM"] = list(linear_layers(options.minilm / "model.safetensors"))
    print("| type | weights | MLX's, dB | mse | gain | goal | bound | ns a weight | mse |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    missed = beyond = 0
    for spec in specs:
        for name, weights in of.items():
            found = measure(spec, weights, runtime)
            decibels = " | ".join(f"{one:.2f}" for one in found.decibels)
            times = " | ".join(f"{one:.2f}" for one in found.nanoseconds)
            goal, most = GOALS[spec.name], math.inf
            if options.bound and not spec.has_bias:
                most = bound(spec, weights) - found.decibels[0]
            print(
                f"| {spec.name} | {name} | {decibels} | +{found.gain:.2f} | {goal:.2f} | "
                f"{'' if most == math.inf else f'+{most:.2f}'} | {times} |",
                flush=True,
            )
            is_best = found.gain >= most - EQUAL
            missed += found.gain < goal and not is_best
            beyond += found.gain < goal and is_best
    print(f"{missed} goals missed, {beyond} beyond what any scale gives")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
