"""Transcoders that need a number of the whole tensor before they convert a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from importer.codecs.base import Runtime, Shape, Transcoder
from store.fs import Buffer


class Survey(Protocol):
    """Takes a tensor piece by piece, in order, and tells what converts it."""

    def look(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> None:
        """Take some elements; the arguments are those of `Transcoder.convert`."""
        ...

    def transcoder(self) -> Transcoder:
        """Return what converts the tensor, in the same pieces, once all of it was taken."""
        ...


class Surveying(Transcoder, Protocol):
    """A transcoder whose `survey` gives the one that converts.

    Such types are slow to write: every tensor is read twice.
    """

    def survey(self) -> Survey:
        """Begin with a tensor."""
        ...


def survey_of(transcoder: Transcoder) -> Survey | None:
    """Return a survey for a transcoder that needs one, or None."""
    return cast("Surveying", transcoder).survey() if hasattr(transcoder, "survey") else None
