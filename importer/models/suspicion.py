"""Which tensors of a report of quality lost more than is usual, and which type would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from importer.codecs.spec import KEEP, QUANT_TYPES
from importer.models.quality import Quality

_USUAL: Final[Mapping[str, tuple[float, float]]] = {
    "int2": (8.1, 0.48),
    "int3": (14.4, 0.25),
    "int4": (20.8, 0.12),
    "int5": (27.0, 0.06),
    "int6": (32.9, 0.03),
    "int8": (41.6, 0.01),
    "nvfp4": (19.7, 0.07),
    "mxfp4": (18.5, 0.11),
    "mxfp8": (31.5, 0.0),
    "bf16": (55.6, 0.0),
    "f16": (73.7, 0.0),
}
"""SQNR in dB, and the share of values that become zero: measured on 2^19 values that are
normally distributed, in groups of 64 where the type has a choice. Weights of real models are
within 3 dB of it."""
_MARGIN: Final = 6.0
"""Of dB: twice the error."""
_CLIPPED: Final = 0.1
"""Share of values; of normally distributed ones at most 0.03 are clipped."""
_PER_BIT: Final = 6.02
_BETTER: Final = "int8"


class Suspicion(NamedTuple):
    """What is unusual about a tensor.

    Attributes:
        reasons: at least one, in words.
        helps: the type that would lose less: `int8`, or `keep`.
    """

    quality: Quality
    reasons: tuple[str, ...]
    helps: str


def suspicion_of(quality: Quality) -> Suspicion | None:
    """Return what is unusual about a tensor, or None.

    Twice the error that is usual for its type, half of the values zero that should not be, or a
    tenth of them clipped.
    """
    reasons = tuple(_reasons(quality))
    return Suspicion(quality, reasons, _helps(quality)) if reasons else None


def _reasons(quality: Quality) -> Iterator[str]:
    found = quality.deviation
    if found is None:
        yield "it has values that are not finite"
        return
    if (usual := _USUAL.get(_name(quality))) is None or not found.elements:
        return
    sqnr, zeroed = usual
    if (share := found.zeroed / found.elements) > zeroed + (1 - zeroed) / 2:
        yield f"{100 * share:.1f}% of its values became zero, {100 * zeroed:.0f}% are usual"
    if (share := found.clipped / found.elements) > _CLIPPED:
        yield f"{100 * share:.1f}% of its values are clipped"
    if found.sqnr < sqnr - _MARGIN:
        yield f"{found.sqnr:.1f} dB, {sqnr:.1f} are usual"


def _helps(quality: Quality) -> str:
    """Return the type that is sure to help: what was clipped or zeroed may be so again."""
    found, spec = quality.deviation, QUANT_TYPES.get(_name(quality))
    if found is None or spec is None or not found.elements:
        return KEEP
    usual, zeroed = _USUAL[spec.name]
    better = found.sqnr + _PER_BIT * (QUANT_TYPES[_BETTER].bits - spec.bits)
    is_noise_alone = (
        found.sqnr < usual - _MARGIN
        and found.zeroed / found.elements <= zeroed + (1 - zeroed) / 2
        and found.clipped / found.elements <= _CLIPPED
    )
    is_enough = better >= _USUAL[_BETTER][0] - _MARGIN
    return _BETTER if is_noise_alone and is_enough and spec.name != _BETTER else KEEP


def _name(quality: Quality) -> str:
    return quality.type.partition("/")[0]
