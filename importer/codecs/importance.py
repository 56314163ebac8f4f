"""How much the columns of a tensor count where scales are searched for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from importer.codecs.base import Transcoder
from importer.codecs.grouped import Grouped
from importer.codecs.spec import Method
from importer.codecs.stacked import RecodeStack
from importer.codecs.transcode import Recode


@dataclass(frozen=True, slots=True)
class Importance:
    """A number for each column: the mean square of what a layer multiplies it by.

    Only quotients of numbers of a group matter.

    Attributes:
        values: little-endian float32, finite and not negative.
        digest: of the values, by which two are compared, and blobs that were made with them.
    """

    values: bytes = field(repr=False, compare=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha256(self.values).hexdigest())


def weighs(transcoder: Transcoder) -> bool:
    """Return whether a transcoder searches for scales, so that importance changes them."""
    encoder = getattr(transcoder, "encoder", None)
    return isinstance(encoder, Grouped) and encoder.spec.calibration.method is Method.MSE


def weighted(transcoder: Transcoder, found: Sequence[Importance | None]) -> Transcoder:
    """Return a transcoder that weighs errors by the importance of columns.

    Args:
        transcoder: one of those that `weighs` is true of.
        found: one for the tensor, or one for each matrix of a stack; None where all columns
            count alike.
    """
    assert isinstance(transcoder, Recode)
    encoder = transcoder.encoder
    assert isinstance(encoder, Grouped)
    encoders = tuple(replace(encoder, importance=one) for one in found)
    if len(encoders) == 1:
        return Recode(transcoder.decoder, encoders[0])
    return RecodeStack(transcoder.decoder, encoders)
