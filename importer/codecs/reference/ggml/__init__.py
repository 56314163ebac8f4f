"""The values of GGML's blocks in numpy: the specification, as libggml's `dequantize_row_*`.

A block is unpacked to codes, each a small number, and to the numbers that they are multiplied
by and moved by; multiplying is the same for all types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from importer.codecs.reference import Floats
from importer.codecs.reference.ggml import codebooks, four_bits, integers, super_blocks
from importer.codecs.reference.ggml.blocks import LAYOUTS, Blocks, Unpacked

_UNPACK: Final[Mapping[str, Callable[[Blocks], Unpacked]]] = MappingProxyType(
    {
        "Q1_0": integers.unpack_q1_0,
        "Q2_0": integers.unpack_q2_0,
        "Q4_0": integers.unpack_q4_0,
        "Q4_1": integers.unpack_q4_1,
        "Q5_0": integers.unpack_q5_0,
        "Q5_1": integers.unpack_q5_1,
        "Q8_0": integers.unpack_q8,
        "Q8_1": integers.unpack_q8,
        "Q8_K": integers.unpack_q8,
        "TQ1_0": integers.unpack_tq1_0,
        "TQ2_0": integers.unpack_tq2_0,
        "Q2_K": super_blocks.unpack_q2_k,
        "Q3_K": super_blocks.unpack_q3_k,
        "Q4_K": super_blocks.unpack_q4_k,
        "Q5_K": super_blocks.unpack_q5_k,
        "Q6_K": super_blocks.unpack_q6_k,
        "IQ4_NL": four_bits.unpack_iq4_nl,
        "IQ4_XS": four_bits.unpack_iq4_xs,
        "MXFP4": four_bits.unpack_mxfp4,
        "NVFP4": four_bits.unpack_nvfp4,
        "IQ1_S": codebooks.unpack_iq1_s,
        "IQ1_M": codebooks.unpack_iq1_m,
        "IQ2_XXS": codebooks.unpack_iq2_xxs,
        "IQ2_XS": codebooks.unpack_iq2_xs,
        "IQ2_S": codebooks.unpack_iq2_s,
        "IQ3_XXS": codebooks.unpack_iq3_xxs,
        "IQ3_S": codebooks.unpack_iq3_s,
    }
)


def unpack(name: str, blocks: Blocks) -> Unpacked:
    """Return the codes of blocks, and the scales and offsets of their groups.

    Args:
        name: of the type, such as `Q4_K`.
        blocks: bytes, of shape (blocks, bytes of a block).
    """
    records = np.ascontiguousarray(blocks).view(LAYOUTS[name])
    with np.errstate(all="ignore"):
        return _UNPACK[name](records[:, 0])


def decode(name: str, blocks: Blocks) -> Floats:
    """Return the values of blocks, of shape (blocks, elements of a block).

    They are libggml's, bit for bit; a NaN, which comes of a scale that is not finite, is the
    same quiet one on every machine.

    Args:
        name: of the type, such as `Q4_K`.
        blocks: bytes, of shape (blocks, bytes of a block).
    """
    codes, scales, offsets = unpack(name, blocks)
    groups = codes.reshape(*scales.shape, -1)
    with np.errstate(all="ignore"):
        values = groups.astype(np.float32) * scales[..., None]
        if offsets is not None:
            values += offsets[..., None]
    values[np.isnan(values)] = np.nan
    return values.reshape(codes.shape)
