"""Values to GGML's blocks in numpy: the specification, as libggml's `ggml_quantize_chunk`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from importer.codecs.reference import Floats
from importer.codecs.reference.ggml.blocks import LAYOUTS, Blocks
from importer.codecs.reference.ggml.quantize import four_bits, one_scale, super_blocks
from importer.codecs.reference.ggml.quantize.rounding import total

_QUANTIZE: Final[Mapping[str, Callable[[Floats, Floats | None], Blocks]]] = MappingProxyType(
    {
        "Q8_0": one_scale.q8_0,
        **{
            name: functools.partial(one_scale.q4_0_to_q5_1, name)
            for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1")
        },
        **{
            name: functools.partial(super_blocks.with_minima, name)
            for name in ("Q2_K", "Q4_K", "Q5_K")
        },
        "Q3_K": super_blocks.q3_k,
        "Q6_K": super_blocks.q6_k,
        "IQ4_NL": four_bits.iq4_nl,
        "IQ4_XS": four_bits.iq4_xs,
        "MXFP4": four_bits.mxfp4,
        "TQ1_0": one_scale.tq1_0,
        "TQ2_0": one_scale.tq2_0,
    }
)


def quantize(name: str, elements: int, values: Floats, importance: Floats | None) -> Blocks:
    """Return blocks, as bytes of shape (blocks, bytes of a block).

    Args:
        name: of the type, such as `Q4_K`.
        elements: of a block.
        values: finite, of shape (rows, columns), columns a multiple of a block.
        importance: how much an error of each column counts; None where that is not known.
    """
    with np.errstate(all="ignore"):
        weights = None
        if importance is not None:
            weights = _weights(name, elements, values, importance).reshape(-1, elements)
        made = _QUANTIZE[name](values.reshape(-1, elements), weights)
    return made.view(np.uint8).reshape(-1, LAYOUTS[name].itemsize)


def _weights(name: str, elements: int, values: Floats, importance: Floats) -> Floats:
    """Return how much an error of each value counts.

    That is the importance of its column, times the root of its square and the mean square of
    its block, or of its row.
    """
    every = np.broadcast_to(importance, values.shape)
    if name == "Q6_K":
        return every
    is_small = elements == 32 and name != "IQ4_NL"  # noqa: PLR2004 - Q4_0 to Q5_1
    spans = values.reshape(-1, values.shape[1] if is_small else elements)
    count, two = np.float32(spans.shape[1]), np.float32(2)
    energies = total((spans * spans).T)
    if name.startswith("IQ4"):
        energies *= two / count
    else:
        energies = (energies if is_small or name == "Q2_K" else two * energies) / count
    sizes = np.sqrt(energies[:, None] + spans * spans)
    return every.reshape(spans.shape) * sizes
