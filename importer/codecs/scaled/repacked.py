"""Integers whose scales have fewer digits than float32, as affine types of the store.

(code - zero point) * scale is code * scale + bias, with -zero point * scale for the bias. Of a
scale in BF16 or F16 both products have at most 19 binary digits, and so are exact in F32.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.base import Encoded
from importer.codecs.reference import packing
from importer.codecs.reference.scaled import Places, ScaledCodes
from importer.codecs.spec import QuantSpec

_BYTE: Final = 8


def repack(found: ScaledCodes, places: Places, spec: QuantSpec) -> Encoded:
    """Return words, scales and biases in F32 of whole rows of codes.

    Values of groups whose scale is not finite are counted, and are not the same.

    Args:
        found: codes and scales; those of two's complement have more than four bits.
        places: the scale row of each row.
        spec: an affine type, whose groups lie within the blocks.
    """
    codes = found.codes.astype(np.uint8)
    scales = found.scales[places]
    zeros = np.float32(0) if found.zeros is None else found.zeros[places]
    if found.kind != "U8":
        half = 1 << (spec.bits - 1)
        codes = (codes ^ np.uint8(half)) & np.uint8((1 << spec.bits) - 1)
        zeros = zeros + np.float32(half)
    groups = codes.shape[1] // spec.group_size
    repeats = -(-found.width // spec.group_size)
    with np.errstate(all="ignore"):
        biases = np.float32(0) - zeros * scales
    parts = [
        np.repeat(one, repeats, axis=1)[:, :groups].astype("<f4") for one in (scales, biases)
    ]
    lost = int(np.count_nonzero(~np.isfinite(parts[1]))) * spec.group_size
    grouped = np.ascontiguousarray(codes).reshape(-1, spec.group_size)
    words = grouped.view("<u4") if spec.bits == _BYTE else packing.pack(grouped, spec.bits)
    made = tuple(np.ascontiguousarray(one).tobytes() for one in (words, *parts))
    return Encoded(made, lost)
