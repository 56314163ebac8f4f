"""What a tensor can become: the facts of each type and their spelling, with no arithmetic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from store.errors import UsageError
from store.text import did_you_mean, printable


@unique
class Mode(StrEnum):
    """A family of types; the words are MLX's."""

    AFFINE = "affine"
    NVFP4 = "nvfp4"
    MXFP4 = "mxfp4"
    MXFP8 = "mxfp8"


CALIBRATION_REVISION: Final = 1
"""The revision of the searches for scales: raised when any finds others."""


@unique
class Method(StrEnum):
    """How the scales of groups are found."""

    MINMAX = "minmax"
    """From the largest and the least value, as MLX does."""
    MSE = "mse"
    """Those of the least squared error that a search finds."""
    PERCENTILE = "percentile"
    """From percentiles in place of the extremes, which are clipped."""


class Calibration(NamedTuple):
    """How scales and biases are found; no reader of the type has to know.

    Attributes:
        symmetric: whether the bias of an integer type is `-2 ** (bits - 1)` times the scale.
        revision: of the search; 0 where MLX defines the bits.
    """

    method: Method = Method.MINMAX
    symmetric: bool = False
    revision: int = 0

    def __str__(self) -> str:
        return f"{self.method}, symmetric" if self.symmetric else str(self.method)


class ColumnWeights(Protocol):
    """How much columns count (`importer.codecs.importance`); a frozen value."""

    @property
    def values(self) -> bytes:
        """A little-endian float32 for each column of the tensor."""
        ...

    def __hash__(self) -> int: ...


MLX: Final = Calibration()
"""Scales and biases that are those of MLX, bit for bit."""


class QuantSpec(NamedTuple):
    """A quantization type (docs/formats/quantization.md).

    Attributes:
        name: as it stands in a blob's `quant_type`.
        bits: per element.
        group_size: elements of the last axis that share a scale.
        codec: the module whose `codec(spec, dtype)` encodes and decodes it.
        calibration: how values become codes; of a type that is stored it is `MLX`.
    """

    name: str
    mode: Mode
    bits: int
    group_size: int
    codec: str = "importer.codecs.grouped"
    calibration: Calibration = MLX

    def __str__(self) -> str:
        """As `parse_target` reads it: the group size only where it is not the type's own."""
        usual = self.group_size == QUANT_TYPES[self.name].group_size
        return self.name if usual else f"{self.name}/{self.group_size}"

    @property
    def stored(self) -> QuantSpec:
        """The type as readers know it, however its scales were found."""
        return self if self.calibration == MLX else self._replace(calibration=MLX)

    @property
    def has_bias(self) -> bool:
        """Whether each group has a zero-point offset beside its scale."""
        return self.mode is Mode.AFFINE


QUANT_TYPES: Final[dict[str, QuantSpec]] = {
    "int2": QuantSpec("int2", Mode.AFFINE, 2, 64),
    "int3": QuantSpec("int3", Mode.AFFINE, 3, 64),
    "int4": QuantSpec("int4", Mode.AFFINE, 4, 32),
    "int5": QuantSpec("int5", Mode.AFFINE, 5, 64),
    "int6": QuantSpec("int6", Mode.AFFINE, 6, 64),
    "int8": QuantSpec("int8", Mode.AFFINE, 8, 64),
    "nvfp4": QuantSpec("nvfp4", Mode.NVFP4, 4, 16),
    "mxfp4": QuantSpec("mxfp4", Mode.MXFP4, 4, 32),
    "mxfp8": QuantSpec("mxfp8", Mode.MXFP8, 8, 32),
}
"""Every type by name, with its default group size; one line each."""


class FloatType(NamedTuple):
    """A plain float type: values are rounded to the nearest, ties to even.

    Attributes:
        dtype: `F32`, `BF16` or `F16`.
    """

    dtype: str

    def __str__(self) -> str:
        return self.dtype.lower()

    @property
    def name(self) -> str:
        """The spelling that `parse_target` reads."""
        return str(self)


class Change(NamedTuple):
    """A change that depends on how a tensor is stored: `REPACK` or `DECODE`."""

    name: str

    def __str__(self) -> str:
        return self.name


REPACK: Final = Change("repack")
"""The type of the store that holds codes and values exactly, where there is one."""
DECODE: Final = Change("decode")
"""Plain floats of the dtype that the model computes in, where values are packed."""

Target = QuantSpec | FloatType | Change | None
"""What a tensor becomes; None keeps it."""

KEEP: Final = "keep"
GROUP_SIZES: Final[Mapping[Mode, tuple[int, ...]]] = MappingProxyType(
    {Mode.AFFINE: (32, 64, 128), Mode.NVFP4: (16,), Mode.MXFP4: (32,), Mode.MXFP8: (32,)}
)
"""Elements that may share a scale, in ascending order."""

VALUE_DTYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BF16": "BF16",
        "F16": "F16",
        "F32": "F32",
        "F64": "F32",
        "F8_E4M3": "BF16",
        "F8_E5M2": "BF16",
    }
)
"""The dtypes that can be quantized, and what their values are converted to first."""
CAST_DTYPES: Final = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
"""The dtypes that can become another float type."""
_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "q4": "int4",
        "q8": "int8",
        "fp16": "f16",
        "float16": "f16",
        "bfloat16": "bf16",
        "fp32": "f32",
        "float32": "f32",
        "none": KEEP,
    }
)
_FLOAT_TYPES: Final[Mapping[str, FloatType]] = MappingProxyType(
    {"bf16": FloatType("BF16"), "f16": FloatType("F16"), "f32": FloatType("F32")}
)
_CHANGES: Final[Mapping[str, Change]] = MappingProxyType(
    {change.name: change for change in (REPACK, DECODE)}
)
_FLOATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "fp4": "Say which float type: nvfp4 (groups of 16) or mxfp4 (groups of 32)",
        "fp8": "The float type of 8 bits is mxfp8; the integer type is int8",
    }
)


_FOREIGN: Final = (
    r"(?:i?q|tq)([1-8])_[a-z0-9_]+|afq([1-8])|(?:w|int|uint|q|u)?([1-8])(?:-?bits?)?"
)
_BITS: Final = tuple(spec.bits for spec in QUANT_TYPES.values() if spec.has_bias)
REQUESTABLE: Final = (*QUANT_TYPES, *_FLOAT_TYPES, REPACK.name)
"""What a whole model may be asked to become."""
TARGETS: Final = (*REQUESTABLE, DECODE.name, KEEP)
"""What a rule may ask for."""


def parse_target(text: str, known: Sequence[str] = TARGETS) -> Target:
    """Read what a tensor becomes: `int4`, `int4/64`, `nvfp4`, `bf16`, `repack`, `keep`.

    Args:
        text: as it is spelled, in whatever case.
        known: what an error says is expected.

    Raises:
        UsageError: there is no such type, or it does not have the group size.
    """
    word, slash, size = text.strip().lower().partition("/")
    name = _ALIASES.get(word, word)
    if name == KEEP and not slash:
        return None
    if name in _FLOAT_TYPES and not slash:
        return _FLOAT_TYPES[name]
    if name in _CHANGES and not slash:
        return _CHANGES[name]
    if name not in QUANT_TYPES:
        raise UsageError(
            f"`{printable(text)}` is not a type, expected one of {', '.join(known)}",
            code="E_QUANT_TYPE",
            hint=_FLOATS.get(word) or _nearest(word) or did_you_mean(word, known),
            facts={"type": text},
        )
    spec = QUANT_TYPES[name]
    return with_group_size(spec, _group_size(text, size)) if slash else spec


def _nearest(word: str) -> str | None:
    # `q4_k_m`, `iq4_nl`, `afq4`, `4bit`: people know these names from other programs.
    found = re.fullmatch(_FOREIGN, word)
    if found is None:
        return None
    bits = int(found[1] or found[2] or found[3])
    near = min(abs(ours - bits) for ours in _BITS)
    nearest = [f"int{ours}" for ours in _BITS if abs(ours - bits) == near]
    verb = "types of the store are" if len(nearest) > 1 else "type of the store is"
    return f"The nearest {verb} {' and '.join(nearest)}"


def with_group_size(spec: QuantSpec, group_size: int) -> QuantSpec:
    """Return a type in groups of another size.

    Raises:
        UsageError: the type does not have that group size.
    """
    sizes = GROUP_SIZES[spec.mode]
    if group_size not in sizes:
        *others, last = map(str, sizes)
        known = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(
            f"{spec.name} in groups of {group_size}, expected {known}", code="E_QUANT_GROUP"
        )
    return spec._replace(group_size=group_size)


def calibrated(spec: QuantSpec, method: Method, *, symmetric: bool = False) -> QuantSpec:
    """Return a type whose scales are found by `method`; one that has no choice stays.

    The next scale of a float type is twice as large, or nearly so, which is more than
    percentiles can tell; and no other exponent makes the error of MXFP8 smaller.
    """
    if spec.mode is Mode.MXFP8 or (method is Method.PERCENTILE and not spec.has_bias):
        return spec.stored
    symmetric = symmetric and spec.has_bias
    if method is Method.MINMAX and not symmetric:
        return spec.stored
    return spec._replace(calibration=Calibration(method, symmetric, CALIBRATION_REVISION))


def _group_size(text: str, size: str) -> int:
    if not (size.isascii() and size.isdigit() and len(size) < 10):  # noqa: PLR2004
        message = f"`{printable(text)}`: expected a group size after the slash, as in int4/64"
        raise UsageError(message, code="E_QUANT_GROUP")
    return int(size)
