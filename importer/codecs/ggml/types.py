"""The types of GGML: their numbers in files, their names, and the bytes of their blocks.

Facts of `enum ggml_type` (ggml.h) and of the structures in ggml-common.h of llama.cpp, as
libggml of llama-cpp-python 0.3.36 has them. docs/formats/ggml.md describes the blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class GgmlType(NamedTuple):
    """A type that a tensor in GGML's formats can have.

    Attributes:
        number: in files.
        name: as GGUF's library spells it, such as `Q4_K`.
        elements: of a block: consecutive elements of a row, whose number is a multiple.
        nbytes: of a block.
    """

    number: int
    name: str
    elements: int
    nbytes: int

    @property
    def is_plain(self) -> bool:
        """Whether a block is one number: then safetensors gives the dtype the same name."""
        return self.elements == 1

    def row_nbytes(self, columns: int) -> int:
        """Return the bytes of a row of `columns` elements, a multiple of a block's."""
        blocks, rest = divmod(columns, self.elements)
        assert not rest, f"{columns} columns in blocks of {self.elements}"
        return blocks * self.nbytes


GGML_TYPES: Final[Mapping[int, GgmlType]] = MappingProxyType(
    {
        row[0]: GgmlType(*row)
        for row in (
            (0, "F32", 1, 4),
            (1, "F16", 1, 2),
            (2, "Q4_0", 32, 18),
            (3, "Q4_1", 32, 20),
            (6, "Q5_0", 32, 22),
            (7, "Q5_1", 32, 24),
            (8, "Q8_0", 32, 34),
            # gguf-py 0.19.0 has 40, as if d and s were float32; libggml has two float16.
            (9, "Q8_1", 32, 36),
            (10, "Q2_K", 256, 84),
            (11, "Q3_K", 256, 110),
            (12, "Q4_K", 256, 144),
            (13, "Q5_K", 256, 176),
            (14, "Q6_K", 256, 210),
            (15, "Q8_K", 256, 292),
            (16, "IQ2_XXS", 256, 66),
            (17, "IQ2_XS", 256, 74),
            (18, "IQ3_XXS", 256, 98),
            (19, "IQ1_S", 256, 50),
            (20, "IQ4_NL", 32, 18),
            (21, "IQ3_S", 256, 110),
            (22, "IQ2_S", 256, 82),
            (23, "IQ4_XS", 256, 136),
            (24, "I8", 1, 1),
            (25, "I16", 1, 2),
            (26, "I32", 1, 4),
            (27, "I64", 1, 8),
            (28, "F64", 1, 8),
            (29, "IQ1_M", 256, 56),
            (30, "BF16", 1, 2),
            (34, "TQ1_0", 256, 54),
            (35, "TQ2_0", 256, 66),
            (39, "MXFP4", 32, 17),
            (40, "NVFP4", 64, 36),
            (41, "Q1_0", 128, 18),
            (42, "Q2_0", 64, 18),
        )
    }
)
"""Every type by its number."""

REMOVED: Final[Mapping[int, str]] = MappingProxyType(
    {
        4: "Q4_2",
        5: "Q4_3",
        31: "Q4_0_4_4",
        32: "Q4_0_4_8",
        33: "Q4_0_8_8",
        36: "IQ4_NL_4_4",
        37: "IQ4_NL_4_8",
        38: "IQ4_NL_8_8",
    }
)
"""Numbers of types that llama.cpp no longer reads, and what they were called."""

NAMED: Final[Mapping[str, GgmlType]] = MappingProxyType(
    {kind.name: kind for kind in GGML_TYPES.values()}
)
"""Every type by its name."""
