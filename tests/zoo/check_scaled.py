"""Compare what ingot decodes with the programs that quantized: compressed-tensors, ModelOpt.

    python tests/zoo/check_scaled.py [HIDDEN]

`make_scaled.py` writes models of that width and notes what the programs decode; every weight is
read here as an import reads it, and rounded once to the dtype of the program.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from importer.codecs.cast import Cast
from importer.codecs.runtime import NUMPY
from importer.sources.inventory import read_inventory
from tests.zoo import make_scaled
from tests.zoo.judged import JudgedRow, million, note, versions

WRITERS = {
    "ct": "compressed-tensors",
    "gpt": "transformers",
    "hf": "transformers",
    "mo": "nvidia-modelopt",
}
"""By what the name of a model begins with."""


def main(hidden="256"):
    """Make and compare all of them; exit 1 where a value differs."""
    wrong = 0
    rows = {writer: [] for writer in WRITERS}
    with tempfile.TemporaryDirectory() as directory:
        make_scaled.main(directory, hidden)
        for model in sorted(Path(directory).iterdir()):
            noted = json.loads((model / "expected.json").read_text())
            tensors = {one.name: one for one in read_inventory(model).tensors}
            differing = [name for name, want in noted.items() if _differs(tensors[name], want)]
            kinds = sorted({tensors[name].stored_as for name in noted})
            values = sum(math.prod(shape) for _, shape, _ in noted.values())
            print(
                f"{model.name}: {', '.join(kinds)}: {values:,} values, {differing or 'equal'}"
            )
            wrong += len(differing)
            rows[model.name.partition("-")[0]].append((kinds, values, len(differing)))
    for writer, found in rows.items():
        kinds, values, differing = zip(*found, strict=True)
        note(
            JudgedRow(
                "safetensors",
                ", ".join(sorted(set().union(*kinds))),
                versions(WRITERS[writer]),
                "what it decodes",
                f"{len(found)} model{'s' * (len(found) > 1)}, {million(sum(values))} values",
                sum(differing),
            )
        )
    sys.exit(1 if wrong else 0)


def _differs(tensor, noted):
    dtype, shape, digest = noted
    arrays = [
        bytearray(array.file.location.read_bytes()[array.offset :][: array.nbytes])
        for array in tensor.arrays
    ]
    whole = range(math.prod(tensor.shape))
    values = tensor.decoder.decode(arrays, tensor.shape, whole, NUMPY)
    if dtype != tensor.dtype:
        values = Cast(tensor.dtype, dtype).encode(values, NUMPY).parts[0]
    return list(tensor.shape) != shape or hashlib.sha256(values).hexdigest() != digest


if __name__ == "__main__":
    main(*sys.argv[1:])
