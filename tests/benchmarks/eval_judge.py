"""What `ingot eval` finds, for many models in one process: starting takes the longest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from importer.evaluation.factors import measure_factors, write_factors
from importer.evaluation.models import LoadedModel, Setup, loaded
from importer.evaluation.outputs import compare_outputs
from importer.evaluation.text import Sequences, Text, lines, read_text, windows
from importer.sources.location import StoredModel
from store import ModelName, Store

CONTEXT = 128


class Found(NamedTuple):
    """What a model makes of the text beside the original.

    Attributes:
        damage: of a language model the KL divergence of the probabilities of the next token, in
            nats; of an encoder 1 - cosine of the embeddings.
        agreement: share of the tokens for which both have the same most probable one; of an
            encoder nothing.
        signal, noise: sums of squares, of the weights that changed and of their changes.
    """

    damage: float
    agreement: float | None
    signal: float
    noise: float


class Judge(NamedTuple):
    """The original, loaded, and a text as it reads it."""

    base: LoadedModel
    text: Text
    read: Sequences
    store: Store

    def judge(self, name: str) -> Found:
        """Compare a stored model with the original, as `ingot eval` does."""
        with loaded(StoredModel(ModelName.parse(name)), self.store, Setup()) as small:
            found = compare_outputs(self.base, small, self.text, (self.read, self.read))
            signal = noise = 0.0
            changed = dict(small.model.named_parameters())
            for own, values in self.base.model.named_parameters():
                before, after = (one.detach().double() for one in (values, changed[own]))
                if not before.equal(after):
                    signal += float(before.square().sum())
                    noise += float((before - after).square().sum())
        if found.divergence is not None:
            return Found(found.divergence.mean, found.agreement, signal, noise)
        assert found.embedding is not None
        return Found(1 - found.embedding.mean, None, signal, noise)

    def factors(self, probe: str, text: Path, limit: int, output: Path) -> None:
        """Write what the error of each matrix of a model does alone, as `eval` does.

        Args:
            probe: a stored model of few bits.
            text: that it is measured on.
            limit: windows or lines of that.
            output: for `create --sensitivity`.
        """
        content = read_text(text)
        read = _sequences(content, self.base, limit)
        with loaded(StoredModel(ModelName.parse(probe)), self.store, Setup()) as small:
            write_factors(output, measure_factors(self.base, small, content, (read, read)))


def _sequences(text: Text, model: LoadedModel, limit: int | None) -> Sequences:
    return (windows if model.is_causal else lines)(text, model.tokenizer, CONTEXT, limit)


@contextlib.contextmanager
def judging(store: Path, name: str, text: Path) -> Iterator[Judge]:
    """Load the original, a stored model."""
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(Store(store))
        base = stack.enter_context(loaded(StoredModel(ModelName.parse(name)), opened, Setup()))
        content = read_text(text)
        yield Judge(base, content, _sequences(content, base, None), opened)
