"""Compare quantizers to GGML's blocks with libggml on many weights.

    .venv/bin/python tests/importer/codecs/ggml_soak.py --library libggml-base.so --weights 1e8

The library is built with `-ffp-contract=off`. Prints how many bytes differ for each type, with
and without an importance of columns, and the nanoseconds of CPU time for a weight in both.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from importer.codecs.base import Operation
from importer.codecs.ggml.encoder import QUANTIZED, quantizer
from importer.codecs.ggml.types import NAMED
from importer.codecs.runtime import prepare
from tests.importer.codecs.ggml_edges import takes_importance
from tests.importer.codecs.libggml import LibGgml

ROWS: Final = 1024
COLUMNS: Final = 1024


def values(rng):
    """Rows of several kinds: normal, heavy tails, one-sided, ties, sparse, nearly constant."""
    shape = (ROWS, COLUMNS)
    kind = rng.integers(0, 8, (ROWS, 1))
    sizes = np.exp2(rng.integers(-12, 4, (ROWS, COLUMNS // 32))).repeat(32, axis=1)
    found = rng.standard_normal(shape) * sizes
    found = np.where(kind == 1, rng.standard_t(2, shape), found)
    found = np.where(kind == 2, np.abs(found), found)
    found = np.where(kind == 3, -np.abs(found) - 1, found)
    found = np.where(kind == 4, np.round(found * 4) / 4, found)
    found = np.where(kind == 5, np.where(rng.random(shape) < 0.97, 0, found), found)
    near = 1 + 1e-6 * rng.integers(-2, 3, shape)
    return np.where(kind == 6, found[:, :1] * near, found).astype(np.float32)


def importance(rng):
    """What columns count, over several powers of ten; some nothing."""
    found = rng.random(COLUMNS) ** 4 * 10.0 ** rng.integers(-6, 3)
    return np.where(rng.random(COLUMNS) < 0.02, 0, found).astype(np.float32)


def compare(name, is_weighted, weights, seed, libraries):
    """Differing bytes, and the seconds of libggml and of ours."""
    library, runtime = libraries
    rng = np.random.default_rng([seed, *name.encode(), is_weighted])
    kind, differing, seconds = NAMED[name], 0, [0.0, 0.0]
    for _ in range(-(-weights // (ROWS * COLUMNS))):
        rows = values(rng)
        columns = importance(rng) if is_weighted else None
        encoder = quantizer(name, "F32", None if columns is None else columns.tobytes())
        start = time.process_time()
        theirs = library.quantize(kind, rows, columns)
        middle = time.process_time()
        (ours,) = encoder.encode(rows.reshape(-1).view(np.uint8).data, runtime).parts
        end = time.process_time()
        seconds[0] += middle - start
        seconds[1] += end - middle
        differing += int(np.count_nonzero(np.frombuffer(ours, np.uint8) != theirs.reshape(-1)))
    return differing, *seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--weights", type=float, default=1e7, help="of each type")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--types", default=",".join(QUANTIZED))
    arguments = parser.parse_args()
    library = LibGgml(arguments.library)
    ways = [
        (name, is_weighted)
        for name in arguments.types.split(",")
        for is_weighted in ((False, True) if takes_importance(name) else (False,))
    ]
    kernels = [
        kernel
        for name, is_weighted in ways
        for kernel in quantizer(name, "F32", b"" if is_weighted else None).kernels(
            Operation.ENCODE
        )
    ]
    runtime = prepare(dict.fromkeys(kernels, 1 << 40), lambda: print("compiling kernels"))
    print("kernels:", runtime.problem or "ready", flush=True)
    wrong, count = 0, int(arguments.weights)
    for name, is_weighted in ways:
        found, theirs, ours = compare(
            name, is_weighted, count, arguments.seed, (library, runtime)
        )
        wrong += bool(found)
        label = f"{name}{', importance' if is_weighted else ''}"
        print(
            f"{label:20}{count:12,} weights, {found} bytes differ; ns a weight: libggml "
            f"{theirs / count * 1e9:6.2f}, ours {ours / count * 1e9:6.2f}",
            flush=True,
        )
    return 1 if wrong or runtime.problem else 0


if __name__ == "__main__":
    sys.exit(main())
