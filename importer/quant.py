"""The facts of each quantization type, with no arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final


@unique
class Mode(StrEnum):
    """A family of types; the words are MLX's."""

    AFFINE = "affine"
    NVFP4 = "nvfp4"
    MXFP4 = "mxfp4"
    MXFP8 = "mxfp8"


@dataclass(frozen=True, slots=True)
class QuantSpec:
    """A quantization type (design.md section 2).

    Attributes:
        name: as it stands in a blob's `quant_type`.
        bits: per element.
        group_size: elements of the last axis that share a scale.
    """

    name: str
    mode: Mode
    bits: int
    group_size: int

    @property
    def has_bias(self) -> bool:
        """Whether each group has a zero-point offset beside its scale."""
        return self.mode is Mode.AFFINE


QUANT_TYPES: Final[Mapping[str, QuantSpec]] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            QuantSpec("int2", Mode.AFFINE, 2, 64),
            QuantSpec("int3", Mode.AFFINE, 3, 64),
            QuantSpec("int4", Mode.AFFINE, 4, 32),
            QuantSpec("int5", Mode.AFFINE, 5, 64),
            QuantSpec("int6", Mode.AFFINE, 6, 64),
            QuantSpec("int8", Mode.AFFINE, 8, 64),
            QuantSpec("nvfp4", Mode.NVFP4, 4, 16),
            QuantSpec("mxfp4", Mode.MXFP4, 4, 32),
            QuantSpec("mxfp8", Mode.MXFP8, 8, 32),
        )
    }
)
"""Every type by name, with its default group size."""
