"""Which type each tensor of a file gets, by name and shape, as llama.cpp's converter has it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from importer.codecs.base import Shape
from importer.codecs.ggml.types import NAMED, GgmlType

_MATRIX: Final = 2


class FileType(NamedTuple):
    """What can be asked for.

    Attributes:
        number: of `general.file_type`.
        kind: of GGML, that most tensors get.
        is_mixture: whether `llama-quantize` makes it of a file of floats.
    """

    number: int
    kind: str
    is_mixture: bool = True


FILE_TYPES: Final[Mapping[str, FileType]] = MappingProxyType(
    {
        "F32": FileType(0, "F32", is_mixture=False),
        "F16": FileType(1, "F16", is_mixture=False),
        "BF16": FileType(32, "BF16", is_mixture=False),
        "Q8_0": FileType(7, "Q8_0", is_mixture=False),
        "Q4_0": FileType(2, "Q4_0"),
        "Q4_1": FileType(3, "Q4_1"),
        "Q5_0": FileType(8, "Q5_0"),
        "Q5_1": FileType(9, "Q5_1"),
        "Q2_K": FileType(10, "Q2_K"),
        "Q2_K_S": FileType(21, "Q2_K"),
        "Q3_K_S": FileType(11, "Q3_K"),
        "Q3_K_M": FileType(12, "Q3_K"),
        "Q3_K_L": FileType(13, "Q3_K"),
        "Q4_K_S": FileType(14, "Q4_K"),
        "Q4_K_M": FileType(15, "Q4_K"),
        "Q5_K_S": FileType(16, "Q5_K"),
        "Q5_K_M": FileType(17, "Q5_K"),
        "Q6_K": FileType(18, "Q6_K"),
        "IQ4_NL": FileType(25, "IQ4_NL"),
        "IQ4_XS": FileType(30, "IQ4_XS"),
        "TQ1_0": FileType(36, "TQ1_0"),
        "TQ2_0": FileType(37, "TQ2_0"),
        "MXFP4_MOE": FileType(38, "MXFP4"),
    }
)
"""By the word that chooses it."""
ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}
)
"""Words of `llama-quantize` for others."""
_PLAIN_STEMS: Final = frozenset(
    {
        *("ffn_gate_inp", "ffn_gate_inp_shexp", "position_embd", "token_types", "ssm_conv1d"),
        *("shortconv.conv", "time_mix_first", "time_mix_w1", "time_mix_w2"),
        *("time_mix_decay_w1", "time_mix_decay_w2", "time_mix_lerp_fused"),
        *("altup_correct_coef", "altup_predict_coef", "ssm_conv1d_q", "ssm_conv1d_k"),
        *("ssm_conv1d_v", "indexer.proj"),
    }
)
"""What is F32 whatever is asked for, without the block before it and the ending after it."""


def converted_type(name: str, shape: Shape, wanted: GgmlType) -> GgmlType:
    """Return the type of a tensor as the converter writes it.

    Args:
        name: GGUF's.
        shape: in elements.
        wanted: the type of most tensors.
    """
    if is_plain(name, shape):
        return NAMED["F32"]
    if shape[-1] % wanted.elements:
        return NAMED["F16"]
    return wanted


def is_plain(name: str, shape: Shape) -> bool:
    """Return whether a tensor is F32 whatever is asked for."""
    stem = name.removesuffix(".weight")
    return (
        len(shape) < _MATRIX
        or name.endswith("_norm.weight")
        or stem == name
        or stem_of(stem) in _PLAIN_STEMS
    )


def stem_of(name: str) -> str:
    """Return a name without the block before it.

    Example:
        >>> stem_of("blk.3.ffn_gate_inp")
        'ffn_gate_inp'
    """
    head, _, rest = name.partition("blk.")
    return name if head not in {"", "enc.", "dec."} or not rest else rest.partition(".")[2]
