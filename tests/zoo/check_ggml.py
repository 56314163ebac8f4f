"""Compare the decoders of GGML's blocks with libggml: python tests/zoo/check_ggml.py.

Blocks that libggml quantizes from weights, blocks of any bytes, and every F16 as a scale. The
library is the one that comes with pywhispercpp, or another with `--library PATH`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from importer.codecs.reference import ggml
from importer.codecs.reference.ggml.blocks import LAYOUTS
from tests.importer.codecs.libggml import (
    BLOCK_TYPES,
    WITHOUT_DECODER,
    LibGgml,
    shipped_library,
    weights_like,
)
from tests.zoo.judged import JudgedRow, million, note

VALUES: Final = 1 << 21
"""That are compared of each kind of blocks."""
AT_ONCE: Final = 1 << 18


def any_blocks(kind, rng):
    return rng.integers(0, 256, (VALUES // kind.elements, kind.nbytes), np.uint8)


def every_scale(kind, rng):
    """Blocks with every F16 in each field that is one."""
    blocks = rng.integers(0, 256, (1 << 16, kind.nbytes), np.uint8)
    layout = LAYOUTS[kind.name]
    for field in layout.names:
        if layout[field] == np.float16:
            patterns = rng.permutation(1 << 16).astype("<u2")
            blocks.view(layout)[field][:, 0] = patterns.view(np.float16)
    return blocks


def differing(kind, blocks, library):
    """Count values with other bits; NaNs are alike."""
    count = 0
    for start in range(0, len(blocks), AT_ONCE // kind.elements):
        piece = blocks[start : start + AT_ONCE // kind.elements]
        ours, theirs = ggml.decode(kind.name, piece), library.decode(kind, piece)
        same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (
            np.isnan(ours) & np.isnan(theirs)
        )
        count += int(np.count_nonzero(~same))
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path)
    library = LibGgml(parser.parse_args().library or shipped_library())
    rng = np.random.default_rng(0)
    print(f"libggml {library.version}: values, and how many differ")
    total = compared = kinds = 0
    for kind in BLOCK_TYPES:
        if kind.name in WITHOUT_DECODER or not library.has(kind):
            print(f"{kind.name:8} the library does not decode it")
            continue
        assert library.sizes(kind) == (kind.elements, kind.nbytes), kind
        weights = weights_like(kind, VALUES // kind.elements // 8, rng)
        all_blocks = (
            # Some types cannot be quantized without importance.
            library.quantize(kind, weights.reshape(1, -1), np.ones(weights.size, np.float32)),
            any_blocks(kind, rng),
            every_scale(kind, rng),
        )
        values = sum(len(blocks) for blocks in all_blocks) * kind.elements
        found = sum(differing(kind, blocks, library) for blocks in all_blocks)
        print(f"{kind.name:8} {values:10} {found:6}", flush=True)
        total += found
        compared += values
        kinds += 1
    note(
        JudgedRow(
            "GGUF",
            f"{kinds} types of blocks",
            f"libggml {library.version}, and any bytes",
            "its values",
            f"{million(compared)} values",
            total,
        )
    )
    return min(total, 1)


if __name__ == "__main__":
    sys.exit(main())
