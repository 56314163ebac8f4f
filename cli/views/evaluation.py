"""What was measured by running models, in words and as documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cli.views.table import table
from store.text import count, printable

if TYPE_CHECKING:
    from importer.evaluation.importance import Measured
    from importer.evaluation.outputs import Comparison, Cosine
    from importer.evaluation.text import Sequences

_SHOWN = 10


def imatrix_lines(output: Path, sequences: Sequences, measured: Measured) -> Iterator[str]:
    """Yield what `imatrix` prints."""
    if measured.resumed:
        yield f"went on after {count(measured.resumed, 'sequence')} of an earlier run"
    yield (
        f"{printable(str(output))}: importance for {count(measured.weights, 'weight')}, from "
        f"{count(sequences.tokens, 'token')} in {count(len(sequences.ids), 'sequence')}"
    )
    if measured.unused:
        what = "expert or other matrix" if measured.unused == 1 else "experts or other matrices"
        yield f"never reached: {measured.unused:,} {what} of stacks"
    if measured.left_out:
        names = ", ".join(map(printable, measured.left_out[:_SHOWN]))
        more = len(measured.left_out) - _SHOWN
        rest = f" and {more:,} more" if more > 0 else ""
        yield f"not measured, since no linear layer uses them: {names}{rest}"


def imatrix_document(
    output: Path, sequences: Sequences, measured: Measured
) -> dict[str, object]:
    """Return what `imatrix --json` prints."""
    return {
        "file": str(output),
        "weights": measured.weights,
        "unused_matrices": measured.unused,
        "left_out": list(measured.left_out),
        "sequences": len(sequences.ids),
        "resumed": measured.resumed,
        "tokens": sequences.tokens,
        "context": sequences.context,
    }


def eval_lines(names: tuple[str, str], found: Comparison) -> Iterator[str]:
    """Yield what `eval` prints."""
    yield from table([("A", printable(names[0])), ("B", printable(names[1]))])
    yield (
        f"{count(found.tokens, 'token')} in {count(found.sequences, 'sequence')} of at most "
        f"{found.context}"
    )
    yield ""
    rows = [("", "A", "B", "B TO A")]
    if found.perplexity is not None:
        first, second = found.perplexity
        change = f"{100 * (second / first - 1):+.2f}%"
        rows.append(("perplexity", f"{first:.4f}", f"{second:.4f}", change))
    if found.divergence is not None:
        divergence = found.divergence
        rows.append(("KL divergence, mean", "", "", f"{divergence.mean:.6f}"))
        rows.append(("KL divergence, 99th percentile", "", "", f"{divergence.high:.6f}"))
    if found.agreement is not None:
        rows.append(("top-1 agreement", "", "", f"{100 * found.agreement:.2f}%"))
    if found.embedding is not None:
        rows += _cosine_rows("embedding", found.embedding)
    rows += _cosine_rows("last hidden state", found.hidden)
    yield from table(rows, right=(1, 2, 3))


def _cosine_rows(what: str, cosine: Cosine) -> list[tuple[str, str, str, str]]:
    return [
        (f"{what}, 1 - cosine, mean", "", "", f"{1 - cosine.mean:.6f}"),
        (f"{what}, 1 - cosine, worst", "", "", f"{1 - cosine.least:.6f}"),
    ]


def factor_lines(path: Path, factors: Mapping[str, float]) -> Iterator[str]:
    """Yield what `eval --sensitivity` adds: the matrices whose errors matter most."""
    yield ""
    yield f"{printable(str(path))}: {count(len(factors), 'factor')}, of which the largest are"
    most = sorted(factors.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
    yield from table([(printable(name), f"{factor:.4g}") for name, factor in most], right=(1,))


def eval_document(
    names: tuple[str, str],
    text: str,
    found: Comparison,
    factors: Mapping[str, float] | None = None,
) -> dict[str, object]:
    """Return what `eval --json` prints."""
    perplexity, divergence = found.perplexity, found.divergence
    return {
        "a": names[0],
        "b": names[1],
        "kind": "language model" if found.is_causal else "encoder",
        "text": text,
        "sequences": found.sequences,
        "tokens": found.tokens,
        "context": found.context,
        "perplexity": None
        if perplexity is None
        else {"a": _finite(perplexity[0]), "b": _finite(perplexity[1])},
        "kl_divergence": None
        if divergence is None
        else {
            "mean": _finite(divergence.mean),
            "p99": _finite(divergence.high),
            "max": _finite(divergence.largest),
        },
        "same_top_token": found.agreement,
        "embedding": None if found.embedding is None else _cosine(found.embedding),
        "last_hidden_state": _cosine(found.hidden),
        "factors": None if factors is None else dict(factors),
    }


def _cosine(cosine: Cosine) -> dict[str, float | None]:
    return {"mean": _finite(cosine.mean), "least": _finite(cosine.least)}


def _finite(number: float) -> float | None:
    # A broken model overflows, and JSON has no word for that.
    return number if math.isfinite(number) else None
