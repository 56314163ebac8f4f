"""Count groups that a search made worse: python tests/importer/codecs/calibration_soak.py.

    python tests/importer/codecs/calibration_soak.py --groups 1e8

For each type, BF16 weights of several kinds, with and without importance: the squared error of
each group in float64, each times its weight, beside that of MLX's scales. Prints CPU time of
both encoders for a weight, too. Ends with 1 where a group is worse by more than sums of float32
can tell apart.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from importer.codecs.base import Operation
from importer.codecs.importance import Importance
from importer.codecs.reference import floats
from importer.codecs.registry import codec_for
from importer.codecs.runtime import prepare
from importer.codecs.spec import QUANT_TYPES, Method, Mode, calibrated, with_group_size

STEP: Final = 1 << 20
"""Weights at a time."""
SEEN: Final = 1e-5
"""What of an error two sums of float32 may differ by."""
SPECS: Final = tuple(
    with_group_size(spec, 64) if spec.has_bias else spec
    for spec in QUANT_TYPES.values()
    if spec.mode is not Mode.MXFP8
)


def weights(kind: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return normal values, some with outliers, of Student's distribution, or of two sizes."""
    values = rng.standard_normal(count, np.float32) * np.float32(0.02)
    if kind == 1:
        values[rng.integers(0, count, count // 200)] *= 20
    if kind == 2:
        values = rng.standard_t(3, count).astype(np.float32) * np.float32(0.02)
    if kind == 3:
        values *= np.exp(rng.standard_normal(count, np.float32) * 2)
    return floats.narrow(values, "BF16")


def main() -> int:
    """Count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=float, default=1e6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    codecs = [codec_for(calibrated(spec, Method.MSE), "BF16") for spec in SPECS]
    marker = Importance(np.ones(64, np.float32).tobytes())
    kernels = [
        kernel
        for codec in codecs
        for one in (
            codec,
            replace(codec, importance=marker),
            codec_for(codec.spec.stored, "BF16"),
        )
        for kernel in one.kernels(Operation.ENCODE)
    ]
    decoders = [codec_for(codec.spec.stored, "F32") for codec in codecs]
    kernels += [kernel for codec in decoders for kernel in codec.kernels(Operation.DECODE)]
    worse = 0
    runtime = prepare(dict.fromkeys(kernels, 1 << 40), lambda: None)
    for codec, decoder in zip(codecs, decoders, strict=True):
        spec, rng = codec.spec, np.random.default_rng(options.seed)
        columns = 32 * spec.group_size
        seconds, steps, done, bad, share = [0.0, 0.0, 0.0], 0, 0, 0, np.zeros(2)
        plain = codec_for(spec.stored, "BF16")
        while done < options.groups / len(codecs):
            bits = weights(steps % 4, STEP // columns * columns, rng)
            values = floats.widen(bits, "BF16").astype(float).reshape(-1, spec.group_size)
            numbers = np.exp(rng.standard_normal(columns) * 2).astype(np.float32)
            found = []
            importance = replace(codec, importance=Importance(numbers.tobytes()))
            for number, one in enumerate((plain, codec, importance)):
                started = time.thread_time()
                parts = one.encode(memoryview(bits).cast("B"), runtime).parts
                seconds[number] += time.thread_time() - started
                small = [
                    floats.widen(np.frombuffer(part, "<u2"), "BF16").tobytes()
                    if spec.has_bias
                    else bytes(part)
                    for part in parts[1:]
                ]
                made = decoder.decode(
                    (parts[0], *small), values.shape, range(values.size), runtime
                )
                got = np.frombuffer(made, np.float32).reshape(values.shape)
                found.append((got - values) ** 2)
            rows = np.tile(numbers.reshape(-1, spec.group_size), (len(values) // 32, 1))
            for number, weighed in ((1, np.ones_like(values)), (2, rows.astype(float))):
                ours = (found[number] * weighed).sum(axis=1)
                theirs = (found[0] * weighed).sum(axis=1)
                # Errors below a millionth of the values are not seen in float32.
                least = (values**2 * weighed).sum(axis=1) * 1e-12
                bad += int((ours > theirs * (1 + SEEN) + least).sum())
                share[number - 1] += ours.sum() / theirs.sum()
            done += len(values)
            steps += 1
        times = " ".join(f"{1e9 * one / done / spec.group_size:.2f}" for one in seconds)
        print(
            f"{spec.name}: {done:,} groups twice, {bad} worse; error "
            f"{share[0] / steps:.3f} and with importance {share[1] / steps:.3f} of MLX's; "
            f"ns a weight {times}",
            flush=True,
        )
        worse += bad
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
