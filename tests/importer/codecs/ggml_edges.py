"""Values on which quantizers to GGML's blocks are likely to differ, made without a generator.

    .venv/bin/python tests/importer/codecs/ggml_edges.py --library libggml-base.so

writes `fixtures/ggml/quantized.json`: for each type, and each importance of columns, digests of
the blocks that libggml makes of them. The library is built with `-ffp-contract=off`: a fused
multiply-add gives other codes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Final

import numpy as np

ROOT: Final = Path(__file__).parents[3]
FIXTURE: Final = ROOT / "fixtures" / "ggml" / "quantized.json"
COLUMNS: Final = 512

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from importer.codecs.ggml.encoder import QUANTIZED, quantizer  # noqa: E402 - after the path is set
from importer.codecs.ggml.types import NAMED  # noqa: E402

UNITS: Final = (1.0, -1.0, 1e-8, 1e-15, 9e-16, 1e-20, 1e-38, 1e-45, 65504.0, 5e5, 1e19, 1e38)


def mixed(count, salt=0):
    """Integers that look random, from a multiplication: the same with every numpy."""
    numbers = np.arange(salt * 7919 + 1, salt * 7919 + count + 1, dtype=np.uint64)
    numbers *= np.uint64(0x9E3779B97F4A7C15)
    numbers ^= numbers >> np.uint64(29)
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    return (numbers >> np.uint64(33)).astype(np.int64)


def bell(rows, salt):
    """Sums of uniform numbers, which are near to normal ones."""
    count = rows * COLUMNS
    total = sum(mixed(count, salt + i) / 2.0**31 - 0.5 for i in range(6))
    return (total * 1.41).reshape(rows, COLUMNS)


def rows():
    """Every row of values by the name of its kind."""
    ramp = np.arange(COLUMNS)
    signs = np.where(mixed(COLUMNS) & 1, 1.0, -1.0)
    kinds = {
        "ordinary": bell(8, 1) * np.exp2(-np.arange(8.0))[:, None],
        "one-sided": np.abs(bell(4, 2)) * np.array([[1], [-1], [1e-3], [-1e-3]]),
        "far-from-zero": np.concatenate([5 + bell(2, 3), -5 + bell(2, 4)]),
        "heavy-tails": bell(4, 5) ** 5,
        "sparse": np.where(mixed(4 * COLUMNS, 6).reshape(4, -1) % 40 == 0, bell(4, 7), 0),
        "nearly-constant": (1 + 1e-7 * (mixed(2 * COLUMNS, 8).reshape(2, -1) % 5 - 2))
        * np.array([[0.3], [-0.7]]),
        "powers": np.ldexp(signs, mixed(COLUMNS, 9) % 40 - 30)[None],
        "below-powers": np.ldexp(1 - 2.0**-24, np.arange(-20, 20))[:, None] * signs,
        "ties": np.stack(
            [
                ((ramp % (2 * last + 1)) - shift * last) / 2 * unit
                for last in (3, 4, 7, 8, 15, 16, 31, 32, 63, 127)
                for shift in (0, 1)
                for unit in (1, 0.25)
            ]
        ),
        "zeros": np.stack([ramp * 0.0, -(ramp * 0.0), 0.0 * signs]),
        "steps": np.stack([np.ldexp(ramp % 9 - 4.0, k) for k in range(-149, 100, 12)]),
        "mixed-sizes": bell(2, 10) * np.exp2((ramp // 32 * 7 % 60) - 30.0),
    }
    for unit in UNITS:
        outlier = bell(1, 11)[0]
        outlier[100] = unit
        alone = np.zeros(COLUMNS)
        alone[7::64] = unit
        kinds[f"unit-{unit:g}"] = np.stack(
            [ramp * 0 + unit, unit * signs, unit * bell(1, 12)[0] / 4, alone, outlier]
        )
    with np.errstate(over="ignore", under="ignore"):
        return {name: values.astype(np.float32) for name, values in kinds.items()}


def importances():
    """How much columns count, by name; None for types without."""
    even = (mixed(COLUMNS, 20) / 2.0**31) ** 4
    sparse = np.where(mixed(COLUMNS, 21) % 4 == 0, even * 1e4, 0)
    sparse[: COLUMNS // 2] = 0
    return {"even": even.astype(np.float32), "sparse": sparse.astype(np.float32)}


def digest(blocks):
    """The beginning of the SHA-256 of blocks."""
    return hashlib.sha256(np.ascontiguousarray(blocks)).hexdigest()[:16]


def takes_importance(name):
    """Whether a type has a form that is weighted."""
    return quantizer(name, "F32", b"\0" * 4).importance is not None


def main():
    from tests.importer.codecs.libggml import LibGgml

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    library = LibGgml(parser.parse_args().library)
    values, types = rows(), {}
    for name in QUANTIZED:
        ways = {"": None} | (importances() if takes_importance(name) else {})
        types[name] = {
            way: {
                kind: digest(library.quantize(NAMED[name], given, weights))
                for kind, given in values.items()
            }
            for way, weights in ways.items()
        }
    document = {
        "writer": f"libggml {library.version}, -ffp-contract=off",
        "values": {kind: digest(given) for kind, given in values.items()},
        "types": types,
    }
    FIXTURE.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
