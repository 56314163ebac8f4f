"""GGML's blocks by compiled code, where scales are finite."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from importer.codecs.kernels.function import Function
from importer.codecs.kernels.kinds import Argument, Array, Memory, flag
from importer.codecs.reference import Floats
from importer.codecs.reference.ggml import four_bits, grids


class _Kernel(NamedTuple):
    """A compiled function, and what is passed to it.

    Attributes:
        run: consecutive values that are computed together.
        table: makes what is passed before the values, if anything is.
        rest: what is passed after the values.
    """

    function: Function
    run: int
    table: Callable[[], Array] | None = None
    rest: tuple[Argument, ...] = ()


_q4_0_to_q5_1: Final = Function("ggml.integers", "q4_0_to_q5_1")
_q8: Final = Function("ggml.integers", "q8")
_q4_k_to_q5_k: Final = Function("ggml.super_blocks", "q4_k_to_q5_k")


def _iq4_values() -> Array:
    return four_bits.IQ4_VALUES.astype(np.float32)


def _e2m1_twice() -> Array:
    return four_bits.E2M1_TWICE.astype(np.float32)


_KERNELS: Final[Mapping[str, _Kernel]] = MappingProxyType(
    {
        "Q1_0": _Kernel(Function("ggml.integers", "q1_0"), 8),
        "Q2_0": _Kernel(Function("ggml.integers", "q2_0"), 4),
        "Q4_0": _Kernel(_q4_0_to_q5_1, 16, rest=(flag(False), flag(False))),
        "Q4_1": _Kernel(_q4_0_to_q5_1, 16, rest=(flag(True), flag(False))),
        "Q5_0": _Kernel(_q4_0_to_q5_1, 16, rest=(flag(False), flag(True))),
        "Q5_1": _Kernel(_q4_0_to_q5_1, 16, rest=(flag(True), flag(True))),
        "Q8_0": _Kernel(_q8, 32, rest=(2,)),
        "Q8_1": _Kernel(_q8, 32, rest=(4,)),
        "Q8_K": _Kernel(Function("ggml.integers", "q8_k"), 32),
        "TQ1_0": _Kernel(Function("ggml.integers", "tq1_0"), 16),
        "TQ2_0": _Kernel(Function("ggml.integers", "tq2_0"), 32),
        "Q2_K": _Kernel(Function("ggml.super_blocks", "q2_k"), 16),
        "Q3_K": _Kernel(Function("ggml.super_blocks", "q3_k"), 16),
        "Q4_K": _Kernel(_q4_k_to_q5_k, 32, rest=(flag(False),)),
        "Q5_K": _Kernel(_q4_k_to_q5_k, 32, rest=(flag(True),)),
        "Q6_K": _Kernel(Function("ggml.super_blocks", "q6_k"), 16),
        "IQ4_NL": _Kernel(Function("ggml.four_bits", "iq4_nl"), 16, _iq4_values),
        "IQ4_XS": _Kernel(Function("ggml.four_bits", "iq4_xs"), 16, _iq4_values),
        "MXFP4": _Kernel(Function("ggml.four_bits", "mxfp4"), 16, _e2m1_twice),
        "NVFP4": _Kernel(Function("ggml.four_bits", "nvfp4"), 8, _e2m1_twice),
        "IQ1_S": _Kernel(Function("ggml.codebooks", "iq1_s"), 8, grids.iq1),
        "IQ1_M": _Kernel(Function("ggml.codebooks", "iq1_m"), 8, grids.iq1),
        "IQ2_XXS": _Kernel(Function("ggml.codebooks", "iq2_xxs"), 8, grids.iq2_xxs),
        "IQ2_XS": _Kernel(Function("ggml.codebooks", "iq2_xs"), 8, grids.iq2_xs),
        "IQ2_S": _Kernel(Function("ggml.codebooks", "iq2_s"), 8, grids.iq2_s),
        "IQ3_XXS": _Kernel(Function("ggml.codebooks", "iq3_xxs"), 4, grids.iq3_xxs),
        "IQ3_S": _Kernel(Function("ggml.codebooks", "iq3_s"), 4, grids.iq3_s),
    }
)


def decode(name: str, blocks: Array, values: Floats) -> Array:
    """Fill `values`; return a flag for each block with a scale that is not finite.

    Args:
        name: of the type, such as `Q4_K`.
        blocks: bytes, of shape (blocks, bytes of a block), writable and contiguous.
        values: of shape (blocks, elements of a block), contiguous.
    """
    function, run, table, rest = _KERNELS[name]
    left = np.empty(len(blocks), np.uint8)
    tables = () if table is None else (_memory(table),)
    function(blocks, left, *tables, values.reshape(-1, run), *rest)
    return left


@functools.cache
def _memory(table: Callable[[], Array]) -> Memory:
    return Memory(table())
