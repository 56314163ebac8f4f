"""Compare what two models make of the same text."""

# ruff: noqa: ANN401 - torch and transformers, of which there are no types here

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from importer.evaluation.models import LoadedModel
from importer.evaluation.text import Sequences, Text
from importer.events import Evaluated, Listener, silent
from store.errors import UnsupportedError
from store.text import printable

_HIGH: Final = 0.99


class Divergence(NamedTuple):
    """How far the second model's probabilities of the next token are from the first's.

    Kullback-Leibler, in nats, of the first from the second.

    Attributes:
        mean: over all tokens.
        high: that 99 of 100 tokens are below.
    """

    mean: float
    high: float
    largest: float


class Cosine(NamedTuple):
    """How alike vectors of both models are."""

    mean: float
    least: float


class Comparison(NamedTuple):
    """What two models make of a text.

    Attributes:
        is_causal: whether they foresee tokens; else they are encoders.
        sequences: that they were given.
        tokens: of these.
        context: tokens of a sequence, at most.
        perplexity: of each of the two, or None of encoders.
        divergence: likewise.
        agreement: share of the tokens for which both have the same most probable one.
        hidden: of the last hidden states, token by token.
        embedding: of encoders, of the embeddings of sequences.
    """

    is_causal: bool
    sequences: int
    tokens: int
    context: int
    perplexity: tuple[float, float] | None
    divergence: Divergence | None
    agreement: float | None
    hidden: Cosine
    embedding: Cosine | None


def compare_outputs(
    a: LoadedModel,
    b: LoadedModel,
    text: Text,
    sequences: tuple[Sequences, Sequences],
    listen: Listener = silent,
) -> Comparison:
    """Run the same sequences through two models.

    Args:
        a: compared with.
        b: compared.
        text: that the sequences are of.
        sequences: as the tokenizer of each gives them.
        listen: told of the work.

    Raises:
        UnsupportedError: one foresees tokens and the other does not, or their tokens differ.
    """
    if a.is_causal != b.is_causal:
        causal, other = (a, b) if a.is_causal else (b, a)
        raise UnsupportedError(
            f"`{printable(causal.name)}` is a language model and `{printable(other.name)}` is "
            "not, expected two of a kind",
            code="E_EVAL_KINDS",
        )
    ours, theirs = sequences
    if ours.ids != theirs.ids:
        raise UnsupportedError(
            f"the tokenizers of `{printable(a.name)}` and `{printable(b.name)}` make different "
            "tokens of the text, expected the same",
            code="E_EVAL_TOKENS",
        )
    sums = _Sums()
    done = 0
    for ids in ours.ids:
        before = text.nbytes * done // ours.tokens
        done += len(ids)
        (sums.add_causal if a.is_causal else sums.add_encoder)(a, b, ids)
        listen(Evaluated(text.nbytes * done // ours.tokens - before, text.nbytes))
    return sums.result(ours, is_causal=a.is_causal)


class _Sums:
    """Lists of numbers, one for each token or sequence."""

    def __init__(self) -> None:
        self._losses: tuple[list[float], list[float]] = ([], [])
        self._divergences: list[float] = []
        self._agreed: list[bool] = []
        self._hidden: list[float] = []
        self._embeddings: list[float] = []

    def add_causal(self, a: LoadedModel, b: LoadedModel, ids: tuple[int, ...]) -> None:
        """Take a window: each token but the first was to be foreseen."""
        import torch  # noqa: PLC0415 - an extra

        logs, hidden = [], []
        for one, losses in zip((a, b), self._losses, strict=True):
            made = _run(one, ids, output_hidden_states=True)
            log = torch.log_softmax(made.logits[0, :-1].double().cpu(), dim=-1)
            expected = torch.tensor(ids[1:])[:, None]
            losses.extend((-log.gather(1, expected)[:, 0]).tolist())
            logs.append(log)
            hidden.append(made.hidden_states[-1][0].double().cpu())
        first, second = logs
        self._divergences += (first.exp() * (first - second)).sum(dim=-1).tolist()
        self._agreed += (first.argmax(dim=-1) == second.argmax(dim=-1)).tolist()
        self._hidden += _cosines(*hidden)

    def add_encoder(self, a: LoadedModel, b: LoadedModel, ids: tuple[int, ...]) -> None:
        """Take a line."""
        hidden = [_run(one, ids).last_hidden_state[0].double().cpu() for one in (a, b)]
        self._hidden += _cosines(*hidden)
        pooled = [_pooled(one, found) for one, found in zip((a, b), hidden, strict=True)]
        self._embeddings += _cosines(*pooled)

    def result(self, sequences: Sequences, *, is_causal: bool) -> Comparison:
        """Return what they come to."""
        first, second = (
            math.exp(_mean(losses)) if losses else math.nan for losses in self._losses
        )
        return Comparison(
            is_causal,
            len(sequences.ids),
            sequences.tokens,
            sequences.context,
            (first, second) if is_causal else None,
            _divergence(self._divergences) if is_causal else None,
            _mean(self._agreed) if is_causal else None,
            Cosine(_mean(self._hidden), min(self._hidden)),
            None if is_causal else Cosine(_mean(self._embeddings), min(self._embeddings)),
        )


def _run(loaded: LoadedModel, ids: tuple[int, ...], **asked: bool) -> Any:
    import torch  # noqa: PLC0415 - an extra

    with torch.no_grad():
        return loaded.model(input_ids=torch.tensor([ids], device=loaded.device), **asked)


def _pooled(loaded: LoadedModel, hidden: Any) -> Any:
    if loaded.pooling == "mean":
        return hidden.mean(dim=0, keepdim=True)
    return hidden[:1] if loaded.pooling == "cls" else hidden[-1:]


def _cosines(first: Any, second: Any) -> Iterator[float]:
    import torch  # noqa: PLC0415 - an extra

    if first.shape != second.shape:
        raise UnsupportedError(
            f"their hidden states are of {first.shape[-1]} and {second.shape[-1]} numbers",
            code="E_EVAL_KINDS",
        )
    found = torch.nn.functional.cosine_similarity(first, second, dim=-1)
    yield from found.clamp(max=1).tolist()  # of equal vectors it is rounded to a trifle more


def _divergence(found: list[float]) -> Divergence:
    # A sum of rounded products may be a trifle below 0.
    ordered = sorted(max(one, 0.0) for one in found)
    high = ordered[min(int(_HIGH * len(ordered)), len(ordered) - 1)]
    return Divergence(_mean(ordered), high, ordered[-1])


def _mean(numbers: list[float] | list[bool]) -> float:
    return math.fsum(numbers) / len(numbers)
