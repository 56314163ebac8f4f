"""Compare every array and every quantized weight of ONNX files with onnx and onnxruntime.

    python tests/zoo/check_onnx.py [--keep DIR] [FILE…]

Without files, those that torch, onnxruntime and onnx write here and now.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from importer.sources.inventory import read_inventory
from tests.importer.formats.onnx.values import values
from tests.zoo.judged import JudgedRow, million, note, versions
from tests.zoo.onnx_judge import Judged, files
from tests.zoo.onnx_models import make

SIZES = (64, 1 << 20)
ROW = "{:44}{:>8}{:>10}{:>9}{:>10}  {}"


def check(path: Path) -> tuple[int, int, int]:
    """Print and return how many arrays, weights and differences of both there are."""
    judged = Judged(path)
    stored = {one.name: one for one in read_inventory(path, as_arrays=True).tensors}
    differing = len(stored.keys() ^ judged.arrays.keys())
    for name in stored.keys() & judged.arrays.keys():
        one, expected = stored[name], judged.arrays[name]
        found = (one.dtype, one.shape, values(one, SIZES[1]))
        is_small = one.nbytes < SIZES[1] >> 6
        differing += found != expected or (is_small and values(one, SIZES[0]) != expected.data)
    wrong, kinds = 0, set()
    joined = [one for one in read_inventory(path).tensors if not one.is_plain]
    codes = {one.arrays[0].name: one for one in joined}
    for name, expected in judged.weights.items():
        if name not in codes:
            wrong += 1
            continue
        one = codes[name]
        kinds.add(str(one.decoder))
        dtype = {"F32": "<f4", "F16": "<f2"}[one.dtype]
        found = np.frombuffer(values(one, SIZES[1]), dtype).reshape(one.shape)
        wrong += found.shape != expected.shape or not np.array_equal(
            found, expected, equal_nan=True
        )
    weights = f"{len(judged.weights)}/{len(joined)}"
    print(
        ROW.format(path.name, len(stored), differing, weights, wrong, ", ".join(sorted(kinds)))
    )
    return len(stored), len(judged.weights), differing + wrong


def main() -> None:
    """Check files; exit 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    print(*(f"{name} {version(name)}" for name in ("torch", "onnx", "onnxruntime")), sep=", ")
    print(ROW.format("file", "arrays", "differing", "weights", "differing", "types"))
    with tempfile.TemporaryDirectory() as scratch:
        directory = options.keep or Path(scratch)
        if not options.files:
            make(directory)
        found = [check(path) for path in options.files or files(directory)]
    arrays, weights, wrong = (sum(column) for column in zip(*found, strict=True))
    if not options.files:
        note(
            JudgedRow(
                "ONNX",
                "raw, typed, external data, QDQ, MatMulNBits 2 to 8 bits",
                versions("torch", "onnx", "onnxruntime"),
                "`onnx.numpy_helper`, graphs of onnxruntime",
                f"{len(found)} files, {million(arrays)} arrays, {weights} quantized weights",
                wrong,
            )
        )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
