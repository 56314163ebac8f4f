"""Decoders of codes in blocks, and stored arrays for each: of any bits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from importer.codecs.scaled.block_fp8 import BlockFp8
from importer.codecs.scaled.blocks import Grid
from importer.codecs.scaled.columns import ColumnScaled
from importer.codecs.scaled.global_scaled import GlobalNvfp4, ScaledFp4
from importer.codecs.scaled.integers import Layout, PackedInt, Zeros


def sizes_of(decoder, shape):
    """Bytes of each array, as the whole tensor needs them."""
    return [span.nbytes for span in decoder.spans(shape, range(math.prod(shape)))]


def any_bits(decoder):
    """Arrays of any bits, but for an order, which is a real one."""

    def stored(shape, rng):
        made = [rng.bytes(size) for size in sizes_of(decoder, shape)]
        if getattr(decoder, "has_order", False):
            grid = Grid.of(shape, decoder.block)
            order = rng.permutation(np.arange(grid.columns) // grid.width).astype("<i4")
            made[-1] = order.tobytes()
        return made

    return stored


def _packed(bits, block=(1, 8), **facts):
    return PackedInt("x", bits, facts.pop("scales", "BF16"), block, **facts)


_FOUR = _packed(4, zeros=Zeros.PACKED)
SUBJECTS = [
    (BlockFp8("F8_E4M3", "F32", (3, 2)), 1),
    (BlockFp8("F8_E4M3", "BF16", (1, 0)), 1),
    (BlockFp8("F8_E5M2", "F16", (0, 1)), 1),
    (BlockFp8("F8_E4M3", "BF16", (0, 0), is_shared=True), 1),
    (BlockFp8("F8_E4M3", "F8_E8M0"), 1),
    (BlockFp8("F8_E4M3", "BF16", (1, 8), has_order=True), 8),
    (_packed(2), 8),
    (_packed(7), 8),
    (_packed(3, (1, 0), zeros=Zeros.PACKED, sides=2), 1),
    (_packed(5, zeros=Zeros.PACKED), 8),
    (_FOUR, 8),
    (replace(_FOUR, layout=Layout.PADDED, bits=3), 8),
    (replace(_FOUR, has_order=True), 8),
    (_packed(4, scales="F32", zeros=Zeros.BYTES), 8),
    (_packed(8, (1, 0), layout=Layout.BYTES, zeros=Zeros.BYTES), 1),
    (ColumnScaled(_packed(8, (0, 0), scales="F32", layout=Layout.BYTES), "BF16"), 1),
    (ScaledFp4(32, divides=True), 32),
    (ScaledFp4(is_shared=True), 16),
    (GlobalNvfp4(), 16),
]
"""Decoders, and of what the last dimension must be a multiple."""

CASES = [
    (
        f"{number}-{subject}".replace(" ", "-").replace("/", "-"),
        subject,
        any_bits(subject),
        many,
    )
    for number, (subject, many) in enumerate(SUBJECTS)
]
