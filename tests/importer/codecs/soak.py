"""Compare codecs with MLX on many weights: python tests/importer/codecs/soak.py --weights 1e9.

Prints how many bits differ, for each type, group size and dtype of the source: in what is
encoded, in what MLX's parts are decoded to, and in what any parts are decoded to.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from importer.codecs.base import Operation, Runtime
from importer.codecs.registry import codec_for
from importer.codecs.runtime import prepare
from tests.importer.codecs import corpus, oracle

STEP: Final = 1 << 22
"""Weights at a time; MLX takes some 100 bytes for each of a four-bit float."""


class Line(NamedTuple):
    """One combination, and what was found.

    Attributes:
        encoded: differing bits of each part, and of the values decoded from MLX's.
        decoded: differing bits of values decoded from any parts.
    """

    name: str
    group_size: int
    dtype: str
    weights: int
    encoded: oracle.Difference
    decoded: int
    seconds: float


COMBINATIONS: Final = tuple(
    (spec, dtype) for spec in corpus.SPECS for dtype in (*corpus.DTYPES, *corpus.CONVERTED)
)


def run(weights: int, runtime: Runtime, seed: int = 0) -> Iterator[Line]:
    """Compare `weights` random weights, as many of each combination, after the edges."""
    each = -(-weights // len(COMBINATIONS))
    for spec, dtype in COMBINATIONS:
        start = time.monotonic()
        rng = np.random.default_rng([seed, spec.group_size, *f"{spec.name} {dtype}".encode()])
        found, decoded, done = [], 0, 0
        if dtype in corpus.DTYPES:
            found.append(oracle.compare(spec, dtype, corpus.edges(dtype, rng), runtime))
        while done < each:
            rows = max(4, min(STEP, each - done) // corpus.ROW)
            bits = mixed(dtype, rows, rng)
            found.append(oracle.compare(spec, dtype, bits, runtime))
            done += bits.size
            if dtype in corpus.DTYPES:
                parts = corpus.any_parts(spec, dtype, rows, rng)
                decoded += oracle.compare_decoded(spec, dtype, parts, runtime)
        encoded = oracle.Difference(
            tuple(map(sum, zip(*(one.parts for one in found), strict=True))),
            sum(one.values for one in found),
        )
        taken = time.monotonic() - start
        yield Line(spec.name, spec.group_size, dtype, done, encoded, decoded, taken)


def mixed(dtype, rows, rng):
    """Some rows of each kind: half of them ordinary."""
    if dtype in corpus.CONVERTED:
        return corpus.any_source(dtype, rows, rng)
    kinds = [
        corpus.ordinary(dtype, rows - rows // 4 * 2, rng),
        corpus.any_bits(dtype, rows // 4, rng),
        corpus.same_sizes(dtype, rows // 4, rng),
    ]
    return np.concatenate(kinds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=float, default=1e8, help="of all combinations")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    kernels = [
        kernel
        for spec, dtype in COMBINATIONS
        for operation in Operation
        for kernel in codec_for(spec, dtype).kernels(operation)
    ]
    runtime = prepare(
        dict.fromkeys(kernels, 1 << 40), lambda: print("compiling kernels", flush=True)
    )
    print("kernels:", runtime.problem or "ready")
    wrong, weights = 0, 0
    for line in run(int(arguments.weights), runtime, arguments.seed):
        wrong += bool(line.encoded) or bool(line.decoded)
        weights += line.weights
        print(
            f"{line.name:6}{line.group_size:4} {line.dtype:8}{line.weights:12,} weights  "
            f"differing bits: parts {line.encoded.parts} values {line.encoded.values} "
            f"of any parts {line.decoded}{line.seconds:8.1f} s",
            flush=True,
        )
    print(f"{weights:,} weights, {wrong} of {len(COMBINATIONS)} combinations differ")
    return 1 if wrong or runtime.problem else 0


if __name__ == "__main__":
    sys.exit(main())
