"""GPTQ's and AWQ's values by compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from importer.codecs.gptq.form import GptqForm, Layout
from importer.codecs.kernels.function import Function
from importer.codecs.reference import Bits, Floats

if TYPE_CHECKING:
    from importer.codecs.gptq.values import Scaling

_BLOCK: Final = 32
"""Codes of as many words as a code has bits."""
_LINES: Final = 16
"""Columns of words that are read together: what a cache line has."""

_by_columns: Final = Function("gptq", "decode_columns")
_by_rows: Final = Function("gptq", "decode_rows")


def decode(decoder: GptqForm, words: Bits, scaling: Scaling, values: Floats) -> None:
    """Fill `values` of shape (rows, columns) from words as they are stored.

    Args:
        scaling: whose groups are numbers of its columns.
    """
    bits, columns = decoder.bits, values.shape[1]
    group_size = 0 if decoder.is_reordered else decoder.group_size
    if decoder.layout is Layout.GEMM:
        lines = np.zeros((bits + 1, columns), np.uint32)
        zeros, scales, _ = scaling
        _by_columns(words, bits, zeros, scales, decoder.group_size, lines, values)
        return
    count = -(-columns // _BLOCK) * bits
    lines = np.zeros((_LINES, count), np.uint32)
    lanes = np.empty(count * 4 // bits, np.uint64)
    _by_rows(
        words,
        int(decoder.layout is Layout.GEMV),
        bits,
        int(decoder.is_planar),
        *scaling,
        group_size,
        lines,
        lines.view(np.uint8),
        lanes,
        lanes.view(np.uint8),
        values,
    )
