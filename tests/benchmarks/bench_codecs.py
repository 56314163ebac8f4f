"""Throughput of codecs on one core beside MLX: python tests/benchmarks/bench_codecs.py.

GB/s of BF16 values, which are the source of `encode` and the result of `decode`, in CPU time,
since a machine has other things to do; with kernels, in numpy, and by MLX. The ratio is the
median over pairs that ran one after the other.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import mlx.core as mx
import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from importer.codecs.base import Operation
from importer.codecs.reference import floats
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY, prepare
from importer.codecs.spec import QUANT_TYPES
from tests.importer.codecs import corpus, oracle

CHUNK: Final = 1 << 20
"""Bytes of source at a time, as an import reads it."""
BRIEF: Final = 0.02
"""Seconds that a sample takes at least: clocks count in milliseconds."""
SPECS: Final = (
    *QUANT_TYPES.values(),
    replace(QUANT_TYPES["int4"], group_size=64),
)


class Speeds(NamedTuple):
    """GB/s of BF16 values, and how much faster kernels are than the others."""

    kernel: float
    numpy: float
    mlx: float
    over_numpy: float
    over_mlx: float


def seconds(work):
    """CPU time of one run."""
    runs, start = 0, time.process_time()
    while (taken := time.process_time() - start) < BRIEF:
        work()
        runs += 1
    return taken / runs


def speeds(ways, nbytes, samples):
    """Measure ways to do the same, in turn."""
    for way in ways:
        way()
    taken = [[seconds(way) for way in ways] for _ in range(samples)]
    medians = (statistics.median(way) for way in zip(*taken, strict=True))
    kernel, numpy, theirs = (nbytes / 1e9 / median for median in medians)
    over_numpy = statistics.median(one[1] / one[0] for one in taken)
    over_mlx = statistics.median(one[2] / one[0] for one in taken)
    return Speeds(kernel, numpy, theirs, over_numpy, over_mlx)


def encoding(spec, dtype, bits, runtime):
    """Three ways to quantize."""
    codec = codec_for(spec, dtype)
    data = bits.reshape(-1).view(np.uint8).data
    rows, mode = mx.array(bits).view(oracle.DTYPES[dtype]), oracle.mode(spec)
    return (
        lambda: codec.encode(data, runtime),
        lambda: codec.encode(data, NUMPY),
        lambda: mx.eval(mx.quantize(rows, **mode, stream=mx.cpu)),
    )


def decoding(spec, dtype, bits, runtime):
    """Three ways to give values back."""
    codec, whole = codec_for(spec, dtype), (bits.shape, range(bits.size))
    encoded = codec.encode(bits.reshape(-1).view(np.uint8).data, runtime)
    # Writable, as a reader's buffer is.
    parts = [bytearray(part) for part in encoded.parts]
    theirs = oracle.arrays(spec, dtype, parts, len(bits))
    mode = oracle.mode(spec) | {"dtype": oracle.DTYPES[dtype]}
    return (
        lambda: codec.decode(parts, *whole, runtime),
        lambda: codec.decode(parts, *whole, NUMPY),
        lambda: mx.eval(mx.dequantize(*theirs, **mode, stream=mx.cpu)),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=corpus.DTYPES, default="BF16")
    parser.add_argument("--samples", type=int, default=7)
    parser.add_argument("--types", nargs="*", choices=QUANT_TYPES, default=list(QUANT_TYPES))
    arguments = parser.parse_args()
    specs = [spec for spec in SPECS if spec.name in arguments.types]
    kernels = [
        kernel
        for spec in specs
        for operation in Operation
        for kernel in codec_for(spec, arguments.dtype).kernels(operation)
    ]
    runtime = prepare(dict.fromkeys(kernels, 1 << 40), lambda: None)
    if runtime.problem is not None:
        print(runtime.problem, file=sys.stderr)
        return 1
    size = np.dtype(floats.STORED[arguments.dtype]).itemsize
    rows = CHUNK // size // corpus.ROW
    bits = corpus.ordinary(arguments.dtype, rows, np.random.default_rng(0))
    print(f"{arguments.dtype}, GB/s of one core       kernel   numpy     mlx  x numpy   x mlx")
    for operation, ways in (("encode", encoding), ("decode", decoding)):
        for spec in specs:
            found = speeds(
                ways(spec, arguments.dtype, bits, runtime), bits.size * size, arguments.samples
            )
            print(
                f"{operation} {spec.name:6} group {spec.group_size:4}      "
                f"{found.kernel:8.2f}{found.numpy:8.2f}{found.mlx:8.3f}"
                f"{found.over_numpy:9.1f}{found.over_mlx:8.1f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
