"""Why what is damaged could not be made again."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from importer.sources.location import Source

_LOST: Final = "its recipe is lost with its configuration"
"""Whatever a source gives then does not tell whether the source changed."""


class Why(NamedTuple):
    """Why blobs of one model could not be made again.

    Attributes:
        reasons: in the order of the attempts.
        source_differs: whether a source gave something else than the model has.
    """

    reasons: tuple[str, ...] = ()
    source_differs: bool = False


class Reasons:
    """Why blobs of each model could not be made again."""

    def __init__(self) -> None:
        self._told: dict[str, list[str]] = defaultdict(list)
        self._differ: set[str] = set()
        self._lost: set[str] = set()

    def note(self, model: str, reason: str) -> None:
        """Note a reason that an attempt gave."""
        self._told[model].append(reason)

    def differs(self, model: str, source: Source, reason: str) -> None:
        """Note that a source does not give what the model has."""
        if model in self._lost:
            self.note(model, _LOST)
            return
        self.note(model, f"`{source}` {reason}")
        self._differ.add(model)

    def lose_recipe(self, model: str) -> None:
        """Note that nothing tells how a model was made, so that no source gives it again."""
        self._lost.add(model)

    def share(self, model: str, other: str) -> None:
        """Note of a second name of a model what hindered the first."""
        self._told[model] += self._told[other]
        self._differ |= {model} if other in self._differ else set()

    def of(self, model: str) -> Why:
        """Return why blobs of a model could not be made again, each reason once."""
        return Why(tuple(dict.fromkeys(self._told[model])), model in self._differ)
