"""Throughput of codecs on one core beside MLX: python tests/benchmarks/bench_codecs.py.

GB/s of BF16 values, which are the source of `encode` and the result of `decode`, in CPU time,
since a machine has other things to do; with kernels, in numpy, and by MLX. Then the decoders
of other programs' types, whose result is F32, beside the library that defines each. The ratio
is the median over pairs that ran one after the other.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import gguf
import mlx.core as mx
import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from importer.codecs.base import Decoder, Operation
from importer.codecs.bitsandbytes.decoder import Bnb4
from importer.codecs.ggml.decoder import Ggml
from importer.codecs.ggml.types import NAMED
from importer.codecs.gptq.decoder import Gptq
from importer.codecs.gptq.form import Layout
from importer.codecs.reference import floats
from importer.codecs.reference.ggml.blocks import LAYOUTS
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY, prepare
from importer.codecs.scaled.block_fp8 import BlockFp8
from importer.codecs.spec import QUANT_TYPES
from tests.importer.codecs import corpus, oracle

CHUNK: Final = 1 << 20
"""Bytes of source at a time, as an import reads it."""
BRIEF: Final = 0.02
"""Seconds that a sample takes at least: clocks count in milliseconds."""
ELEMENTS: Final = 1 << 18
"""Values of foreign types at a time: a chunk of F32."""
MATRIX: Final = (64, ELEMENTS // 64)
SPECS: Final = (
    *QUANT_TYPES.values(),
    QUANT_TYPES["int4"]._replace(group_size=64),
)


class Speeds(NamedTuple):
    """GB/s of values, and how much faster kernels are than the others."""

    kernel: float
    numpy: float
    peer: float
    over_numpy: float
    over_peer: float

    def __str__(self):
        return (
            f"{self.kernel:8.2f}{self.numpy:8.2f}{self.peer:8.3f}"
            f"{self.over_numpy:9.1f}{self.over_peer:8.1f}"
        )


class Foreign(NamedTuple):
    """A type of another program, and stored arrays of it.

    Attributes:
        shape: of the tensor that the arrays hold.
        peer: makes the same values by the library that defines the type.
    """

    decoder: Decoder
    arrays: list[bytearray]
    shape: tuple[int, ...]
    peer: Callable[[], object]


def ggml(name):
    """Blocks of GGML with ordinary scales, whatever the codes: beside gguf-py."""
    kind = NAMED[name]
    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (ELEMENTS // kind.elements, kind.nbytes), np.uint8)
    fields = blocks.view(LAYOUTS[name])
    for field in {"d", "dmin", "m"} & set(LAYOUTS[name].names):
        if LAYOUTS[name][field] == np.float16:
            fields[field] = 0.01
    return Foreign(
        Ggml(name),
        [bytearray(blocks.tobytes())],
        (ELEMENTS,),
        lambda: gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]),
    )


def gptq(method, layout):
    """Four bits in groups of 128 of GPTQ or AWQ: beside int4 of MLX."""
    rows, columns = MATRIX
    groups = columns // 128
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 1 << 32, rows * columns // 8, np.uint32)
    scales = np.full(rows * groups, 0.01, np.float16)
    zeros = np.full(groups * rows // 8, 0x77777777, np.uint32)
    theirs = mx.array(codes.reshape(rows, -1))
    steps = mx.array(scales.reshape(rows, groups).astype(np.float32))
    return Foreign(
        Gptq(method, layout, 4, 128, groups, "F16"),
        [bytearray(one.tobytes()) for one in (codes, zeros, scales)],
        MATRIX,
        lambda: mx.eval(
            mx.dequantize(theirs, steps, steps, group_size=128, bits=4, stream=mx.cpu)
        ),
    )


def fp8():
    """FP8 in blocks of 128 x 128: beside MLX, which knows the codes and multiplies."""
    codes = np.random.default_rng(0).integers(0, 0x7F, MATRIX, np.uint8)
    scales = np.full((-(-MATRIX[0] // 128), MATRIX[1] // 128), 0.01, np.float32)
    theirs = mx.array(codes.reshape(MATRIX[0], -1, 128))
    steps = mx.array(np.repeat(scales, MATRIX[0], 0)[: MATRIX[0], :, None])
    return Foreign(
        BlockFp8("F8_E4M3", "F32", (128, 128)),
        [bytearray(codes.tobytes()), bytearray(scales.tobytes())],
        MATRIX,
        lambda: mx.eval(
            mx.multiply(mx.from_fp8(theirs, mx.float32, stream=mx.cpu), steps, stream=mx.cpu)
        ),
    )


def nf4():
    """nf4 of bitsandbytes in blocks of 64, as F32: beside a look-up and a product in numpy."""
    codes = np.random.default_rng(0).integers(0, 256, ELEMENTS // 2, np.uint8)
    book = np.linspace(-1, 1, 16, dtype=np.float32)
    largest = np.full(ELEMENTS // 64, 0.1, np.float32)

    def peer():
        both = np.stack([codes >> 4, codes & 15], 1).reshape(-1, 64)
        return book[both] * largest[:, None]

    arrays = [bytearray(one.tobytes()) for one in (codes, largest, book)]
    return Foreign(Bnb4("nf4", 64, "F32", 0), [*arrays, bytearray()], MATRIX, peer)


FOREIGN: Final = {
    **{
        name: functools.partial(ggml, name)
        for name in ("Q8_0", "Q4_0", "Q5_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS")
    },
    "gptq": functools.partial(gptq, "gptq", Layout.GPTQ),
    "awq": functools.partial(gptq, "awq", Layout.GEMM),
    "fp8": fp8,
    "nf4": nf4,
}
"""Types of other programs, and what makes arrays of them."""


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
    over_peer = statistics.median(one[2] / one[0] for one in taken)
    return Speeds(kernel, numpy, theirs, over_numpy, over_peer)


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


def foreign_decoding(foreign, runtime):
    """Three ways to decode a foreign type."""
    decoder, arrays, shape, peer = foreign
    whole = (shape, range(ELEMENTS))
    return (
        lambda: decoder.decode(arrays, *whole, runtime),
        lambda: decoder.decode(arrays, *whole, NUMPY),
        peer,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=corpus.DTYPES, default="BF16")
    parser.add_argument("--samples", type=int, default=7)
    known = [*QUANT_TYPES, *FOREIGN]
    parser.add_argument("--types", nargs="*", choices=known, default=known)
    arguments = parser.parse_args()
    specs = [spec for spec in SPECS if spec.name in arguments.types]
    foreign = {name: make() for name, make in FOREIGN.items() if name in arguments.types}
    kernels = [
        kernel
        for spec in specs
        for operation in Operation
        for kernel in codec_for(spec, arguments.dtype).kernels(operation)
    ]
    kernels += [
        kernel for one in foreign.values() for kernel in one.decoder.kernels(Operation.DECODE)
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
                f"{operation} {spec.name:6} group {spec.group_size:4}      {found}", flush=True
            )
    print("F32, GB/s of one core        kernel   numpy    peer  x numpy  x peer")
    for name, one in foreign.items():
        found = speeds(foreign_decoding(one, runtime), 4 * ELEMENTS, arguments.samples)
        print(f"decode {name:22}{found}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
