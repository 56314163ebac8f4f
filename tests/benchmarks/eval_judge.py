"""What `ingot eval` finds, for many models in one process: starting takes the longest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from importer.evaluation.models import LoadedModel, Setup, loaded
from importer.evaluation.outputs import compare_outputs
from importer.evaluation.text import Sequences, Text, read_text, windows
from importer.sources.location import StoredModel
from store import ModelName, Store


class Found(NamedTuple):
    """What a model makes of the text beside the original.

    Attributes:
        divergence: of the probabilities of the next token, in nats.
        agreement: share of the tokens for which both have the same most probable one.
        signal, noise: sums of squares, of the weights that changed and of their changes.
    """

    perplexity: float
    divergence: float
    agreement: float
    signal: float
    noise: float


class Judge(NamedTuple):
    """The original, loaded, and a text as it reads it."""

    base: LoadedModel
    text: Text
    read: Sequences
    store: Store

    def judge(self, name: str) -> Found:
        """Compare a stored language model with the original, as `ingot eval` does."""
        with loaded(StoredModel(ModelName.parse(name)), self.store, Setup()) as small:
            found = compare_outputs(self.base, small, self.text, (self.read, self.read))
            signal = noise = 0.0
            changed = dict(small.model.named_parameters())
            for own, values in self.base.model.named_parameters():
                before, after = (one.detach().double() for one in (values, changed[own]))
                if not before.equal(after):
                    signal += float(before.square().sum())
                    noise += float((before - after).square().sum())
        assert found.perplexity is not None
        assert found.divergence is not None
        assert found.agreement is not None
        return Found(found.perplexity[1], found.divergence.mean, found.agreement, signal, noise)


@contextlib.contextmanager
def judging(store: Path, name: str, text: Path, context: int) -> Iterator[Judge]:
    """Load the original, a stored model."""
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(Store(store))
        base = stack.enter_context(loaded(StoredModel(ModelName.parse(name)), opened, Setup()))
        content = read_text(text)
        yield Judge(base, content, windows(content, base.tokenizer, context, None), opened)
