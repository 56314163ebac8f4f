"""Write fixtures/onnx/ with torch, onnxruntime and onnx, and golden.json with what they read.

    python tests/importer/formats/onnx/make_fixtures.py

In the environment of tests/zoo/requirements.txt. golden.json names the versions that wrote the
files; it has SHA-256 of the values of every array, as onnx reads them, and of every quantized
weight, as onnxruntime does.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
FIXTURES = ROOT / "fixtures" / "onnx"
NAMES = (
    "torch-script",
    "torch-half",
    "torch-dynamo",
    "dynamic-QInt8-channels",
    "dynamic-QUInt8",
    "static-QDQ-QInt8-channels",
    "static-QDQ-QInt4-channels",
    "static-QOperator-QUInt8-channels",
    "nbits-2-16-asymmetric-QOperator",
    "nbits-4-16-asymmetric-QOperator",
    "nbits-4-16-asymmetric-QDQ",
    "nbits-4-32-symmetric-QOperator",
    "nbits-8-16-asymmetric-QOperator",
    "types-raw",
    "types-typed",
    "graphs",
    "external-one",
)


def main() -> None:
    """Write all files."""
    sys.path.insert(0, str(ROOT))
    from tests.zoo.onnx_judge import Judged
    from tests.zoo.onnx_models import make

    shutil.rmtree(FIXTURES, ignore_errors=True)
    FIXTURES.mkdir(parents=True)
    golden = {}
    with tempfile.TemporaryDirectory() as scratch:
        make(Path(scratch))
        for name in NAMES:
            for path in sorted(Path(scratch).glob(f"{name}.onnx*")):
                shutil.copyfile(path, FIXTURES / path.name)
            judged = Judged(FIXTURES / f"{name}.onnx")
            golden[f"{name}.onnx"] = {
                "arrays": {
                    key: [one.dtype, list(one.shape), sha256(one.data)]
                    for key, one in judged.arrays.items()
                },
                "weights": {
                    key: [list(one.shape), sha256(one.tobytes())]
                    for key, one in judged.weights.items()
                },
            }
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(one)}" for key, one in golden.items())
    made = {name: version(name) for name in ("torch", "onnx", "onnxruntime", "onnxscript")}
    text = f'{{"versions": {json.dumps(made)}, "files": {{\n{lines}\n}}}}\n'
    (FIXTURES / "golden.json").write_text(text)


def sha256(data: bytes) -> str:
    """Return the digest of values."""
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    main()
