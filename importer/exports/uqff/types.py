"""The types that mistral.rs writes, and what takes their place where they do not fit.

Facts of `IsqType` in mistralrs-quant/src/lib.rs and `get_fallback` in utils/isq.rs of 0.9.5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from importer.codecs.base import Shape
from importer.codecs.ggml.types import NAMED
from importer.codecs.spec import GROUP_SIZES, QUANT_TYPES, Mode, QuantSpec, with_group_size
from importer.codecs.uqff.f8q8 import BLOCK
from importer.codecs.uqff.to_hqq import GROUP
from importer.formats.uqff.layers import Family
from store.errors import UsageError
from store.text import printable

UNQUANTIZED: Final = "unquantized"
_AFQ_GROUP: Final = 64


@dataclass(frozen=True, slots=True)
class UqffType:
    """A type of layers.

    Attributes:
        name: as mistral.rs spells it, such as `q4k`.
        kind: the name of our codec's type: of the store, or of GGML.
        promoted: the type that embeddings and the output layer get instead.
        fallback: the type of a layer whose rows this one does not divide.
        group_size: of AFQ.
    """

    name: str
    family: Family
    kind: str = ""
    promoted: str = ""
    fallback: str = UNQUANTIZED
    group_size: int = _AFQ_GROUP

    def __str__(self) -> str:
        usual = self.family is not Family.AFQ or self.group_size == _AFQ_GROUP
        return self.name if usual else f"{self.name}/{self.group_size}"

    @property
    def spec(self) -> QuantSpec:
        """The type of the store, of AFQ and MXFP4."""
        spec = QUANT_TYPES[self.kind]
        return with_group_size(spec, self.group_size) if spec.has_bias else spec

    @property
    def bits(self) -> int:
        """Of a code, of HQQ."""
        return int(self.kind)

    def fits(self, shape: Shape) -> bool:
        """Return whether a layer of a shape can have the type."""
        match self.family:
            case Family.AFQ | Family.MXFP4:
                return shape[-1] % self.spec.group_size == 0
            case Family.GGML:
                return shape[-1] % NAMED[self.kind].elements == 0
            case Family.HQQ:
                return math.prod(shape) % GROUP == 0
            case Family.F8Q8:
                return math.prod(shape) % BLOCK == 0
            case _:
                return True

    @property
    def is_weighed(self) -> bool:
        """Whether an importance matrix changes it: mistral.rs's K types."""
        return self.kind.endswith("_K")

    @property
    def has_stacks(self) -> bool:
        """Whether mistral.rs computes with all experts of a block in this type."""
        return self.family in {Family.AFQ, Family.GGML, Family.PLAIN}


_Q6K: Final = "q6k"
_Q8_0: Final = "q8_0"
TYPES: Final[Mapping[str, UqffType]] = MappingProxyType(
    {
        one.name: one
        for one in (
            UqffType("afq2", Family.AFQ, "int2", "afq6"),
            UqffType("afq3", Family.AFQ, "int3", "afq6"),
            UqffType("afq4", Family.AFQ, "int4", "afq6"),
            UqffType("afq6", Family.AFQ, "int6", "afq8"),
            UqffType("afq8", Family.AFQ, "int8", "afq8"),
            UqffType("q4_0", Family.GGML, "Q4_0", _Q6K),
            UqffType("q4_1", Family.GGML, "Q4_1", _Q6K),
            UqffType("q5_0", Family.GGML, "Q5_0", _Q8_0),
            UqffType("q5_1", Family.GGML, "Q5_1", _Q8_0),
            UqffType("q8_0", Family.GGML, "Q8_0", _Q8_0),
            UqffType("q2k", Family.GGML, "Q2_K", _Q6K, "q4_0"),
            UqffType("q3k", Family.GGML, "Q3_K", _Q6K, "q4_0"),
            UqffType("q4k", Family.GGML, "Q4_K", _Q6K, "q4_1"),
            UqffType("q5k", Family.GGML, "Q5_K", _Q8_0, "q5_0"),
            UqffType("q6k", Family.GGML, "Q6_K", _Q8_0, "q5_1"),
            UqffType("hqq4", Family.HQQ, "4", "hqq4"),
            UqffType("hqq8", Family.HQQ, "8", "hqq8"),
            UqffType("fp8", Family.FP8, "", "fp8"),
            UqffType("f8q8", Family.F8Q8, "", "f8q8"),
            UqffType("mxfp4", Family.MXFP4, "mxfp4", "mxfp4"),
            UqffType(UNQUANTIZED, Family.PLAIN, "", UNQUANTIZED),
        )
    }
)
"""By the word that chooses it."""


def parse_types(text: str, group_size: int | None) -> tuple[UqffType, ...]:
    """Read types with commas between them: `afq4,q4k`.

    Args:
        group_size: of AFQ, or None.

    Raises:
        UsageError: one is not known, or there twice, or has no groups of that size.
    """
    words = [word.strip().lower() for word in text.split(",")]
    for word in words:
        if word not in TYPES:
            raise UsageError(
                f"`{printable(word)}` is not a type of UQFF, expected {', '.join(TYPES)}",
                code="E_EXPORT_TYPE",
            )
        if words.count(word) > 1:
            raise UsageError(f"`{word}` is asked for twice", code="E_EXPORT_TYPE")
    types = tuple(TYPES[word] for word in words)
    if group_size is None:
        return types
    sizes = GROUP_SIZES[Mode.AFFINE]
    for one in types:
        if one.family is not Family.AFQ or group_size not in sizes:
            known = " or ".join(map(str, sizes))
            raise UsageError(
                f"{one.name} in groups of {group_size}, expected an AFQ type and {known}",
                code="E_QUANT_GROUP",
            )
    return tuple(_grouped(one, group_size) for one in types)


def promoted_of(asked: UqffType) -> UqffType:
    """Return the type of embeddings and output layers where a type is asked for."""
    return _grouped(TYPES[asked.promoted], asked.group_size)


def fitting(wanted: UqffType, shape: Shape) -> UqffType:
    """Return the type that a layer of a shape gets: the one that is wanted, or a fallback."""
    while not wanted.fits(shape):
        wanted = TYPES[wanted.fallback]
    return wanted


def _grouped(one: UqffType, group_size: int) -> UqffType:
    return replace(one, group_size=group_size) if one.family is Family.AFQ else one
