"""Compare codecs with MLX on many weights: python tests/importer/codecs/soak.py --weights 1e9.

Prints how many bits differ, for each type, group size and dtype. A thousand million weights
of each take an hour, most of it in MLX's four-bit floats.
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

from importer.codecs import codec_for, engine
from tests.importer.codecs import corpus, oracle

STEP: Final = 1 << 22
"""Weights at a time; MLX takes some 100 bytes for each of a four-bit float."""


class Line(NamedTuple):
    """One combination, and what was found."""

    name: str
    group_size: int
    dtype: str
    weights: int
    difference: oracle.Difference
    seconds: float


def run(weights: int, seed: int = 0) -> Iterator[Line]:
    """Compare `weights` weights of each combination, after the edges."""
    for spec in corpus.SPECS:
        for dtype in corpus.DTYPES:
            start, done = time.monotonic(), 0
            rng = np.random.default_rng(
                [seed, spec.group_size, *spec.name.encode(), *dtype.encode()]
            )
            found = [oracle.compare(spec, dtype, corpus.edges(dtype, rng))]
            while done < weights:
                bits = mixed(dtype, min(STEP, weights - done), rng)
                found.append(oracle.compare(spec, dtype, bits, decode=done == 0))
                done += bits.size
            yield Line(
                spec.name,
                spec.group_size,
                dtype,
                done,
                oracle.Difference(
                    tuple(map(sum, zip(*(one.parts for one in found), strict=True))),
                    sum(one.values for one in found),
                ),
                time.monotonic() - start,
            )


def mixed(dtype, weights, rng):
    """Some rows of each kind: half of them ordinary."""
    rows = max(4, weights // corpus.ROW)
    kinds = [
        corpus.ordinary(dtype, rows - rows // 4 * 2, rng),
        corpus.any_bits(dtype, rows // 4, rng),
        corpus.same_sizes(dtype, rows // 4, rng),
    ]
    return np.concatenate(kinds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=float, default=1e7, help="of each combination")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    families = [codec_for(spec, dtype) for spec in corpus.SPECS for dtype in corpus.DTYPES]
    problem = engine.prepare(families, lambda: print("compiling kernels", flush=True))
    print("kernels:", problem or "ready")
    wrong = 0
    for line in run(int(arguments.weights), arguments.seed):
        wrong += bool(line.difference)
        print(
            f"{line.name:6}{line.group_size:4} {line.dtype:5}{line.weights:14,} weights  "
            f"differing bits {line.difference.parts} decoded {line.difference.values}"
            f"{line.seconds:8.1f} s",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
