"""Which arrays of a model are parameters."""

from __future__ import annotations

from typing import Final

from importer.sources.dtypes import is_floating
from store.tensorfile import elements

ACTIVATIONS: Final = (
    *(f".{what}_scale" for what in ("input", "output", "k", "v", "q")),
    *(f".{what}_global_scale" for what in ("input", "output", "k", "v", "q")),
    *(f".{what}_zero_point" for what in ("input", "output", "k", "v", "q")),
    *(".activation_scale", ".input_scale_ub", ".qscale_act", ".scale_input"),
    "_proj_input_scale",  # of stacked experts
    ".weight_scale_2",  # of integers (W4A8_AWQ); that of NVFP4 is a part of its weight
)
"""Names of what quantized models scale activations and their caches with."""


def is_parameter(name: str, dtype: str, shape: tuple[int, ...]) -> bool:
    """Return whether the elements of a tensor are parameters: numbers that were learned.

    Integers are not, nor is a single number that scales activations of a quantized model.
    """
    return is_floating(dtype) and not scales_activations(name, shape)


def scales_activations(name: str, shape: tuple[int, ...]) -> bool:
    """Return whether a tensor is a number that scales activations of a quantized model."""
    return name.endswith(ACTIVATIONS) and elements(shape) == 1
