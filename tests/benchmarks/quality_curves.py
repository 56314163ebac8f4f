"""Bits, SQNR and outputs by type, group and calibration: the tables of docs/choosing.md, and
the curves beside them, docs/assets/quality-*.svg.

    .venv-zoo/bin/python tests/benchmarks/quality_curves.py DIR… [--minilm DIR]
        --command .venv/bin/ingot [--svg docs/assets]

DIR is what language_model.py wrote, one for each table and drawing, which have its name.
Importance is measured on DIR/calibration, and models are judged on DIR/held-out as `ingot eval`
does, in one process, since it takes longer to start than to judge: language models by KL
divergence, the encoder MiniLM by 1 - cosine of embeddings. MiniLM's importance is measured on
docstrings of Python's library, and it is judged on everyday sentences.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.quality_bench import Bench, Row, sentence_model
from tests.benchmarks.quality_svg import Series, draw

ROOT: Final = Path(__file__).resolve().parents[2]
TYPES: Final = (
    *("int8/32", "int8/64", "int8/128", "mxfp8", "int6/32", "int6/64", "int6/128"),
    *("int5/32", "int5/64", "int5/128", "int4/32", "int4/64", "nvfp4", "int4/128", "mxfp4"),
    *("int3/32", "int3/64", "int3/128", "int2/32", "int2/64", "int2/128"),
)
"""By bits for a weight."""
RECIPES: Final = ("mixed_4_6", "mixed_3_6", "mixed_2_6")
TARGETS: Final = ("3.5", "4", "4.5", "5", "5.5", "6.5")
WAYS: Final = ("MLX's", "mse", "importance")
HEADS: Final = ("SQNR dB: MLX's", "mse", "importance")


class Line(NamedTuple):
    """What is asked for, and what it gives by each way to find scales."""

    asked: str
    rows: dict[str, Row]

    def __str__(self) -> str:
        first = next(iter(self.rows.values()))
        found = [self.rows.get(way) for way in WAYS]
        cells = [
            self.asked,
            f"{first.bits:.2f}",
            *("" if one is None else f"{one.sqnr:.1f}" for one in found),
            *("" if one is None else f"{one.damage:.5f}" for one in found),
        ]
        return f"| {' | '.join(cells)} |"


def lines(bench: Bench) -> Iterator[Line]:
    """Yield a line for each type, recipe and size."""
    words: dict[str, tuple[Any, ...]] = {
        "MLX's": (),
        "mse": ("--calibrate", "mse"),
        "importance": ("--imatrix", bench.matrix),
    }
    asked: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
        kind: (
            ("-q", kind, "--recipe", "uniform"),
            WAYS[:1] if kind == "mxfp8" else WAYS,
        )
        for kind in TYPES
    }
    asked["int4, default"] = ("-q", "int4"), WAYS[:1]
    asked |= {recipe: (("--recipe", recipe), WAYS[:1]) for recipe in RECIPES}
    asked |= {f"target {bits}": (("--target-bpw", bits), WAYS[2:]) for bits in TARGETS}
    with bench.judged() as judge:
        for what, (options, ways) in asked.items():
            rows = {way: bench.make(judge, *options, *words[way]) for way in ways}
            yield Line(what, rows)


def curves(found: list[Line]) -> list[Series]:
    """Return what is drawn: types in groups of 64 by each way, and sizes."""
    series = [
        Series(
            f"one type, {way}" + " scales" * (way == WAYS[0]),
            tuple(
                (line.rows[way].bits, line.rows[way].damage)
                for line in reversed(found)
                if line.asked.endswith("/64")
            ),
        )
        for way in WAYS
    ]
    chosen = [line.rows[WAYS[2]] for line in found if line.asked.startswith("target")]
    points = tuple((row.bits, row.damage) for row in chosen)
    return [*series, Series("types chosen for a size, importance", points)]


def main() -> None:
    """Make, judge, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("models", type=Path, nargs="*", metavar="DIR")
    parser.add_argument("--minilm", type=Path, help="directory of the model")
    parser.add_argument("--command", default="ingot", help="with kernels")
    parser.add_argument("--svg", type=Path, default=ROOT / "docs/assets", metavar="DIR")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        models = {path.name: (path, "KL divergence, nats") for path in options.models}
        if options.minilm is not None:
            minilm = sentence_model(options.minilm, root / "sentences")
            models["minilm"] = minilm, "1 - cosine"
        for number, (name, (path, what)) in enumerate(models.items()):
            bench = Bench(shlex.split(options.command), path, root / str(number))
            bench.measure_importance()
            heads = ("asked", "bits", *HEADS, f"{what}: MLX's", *WAYS[1:])
            print(f"\n{name}\n\n| {' | '.join(heads)} |\n|---|{'--:|' * (len(heads) - 1)}")
            found = []
            for line in lines(bench):
                assert all(math.isfinite(row.damage) for row in line.rows.values())
                found.append(line)
                print(line, flush=True)
            drawn = draw(curves(found), what)
            (options.svg / f"quality-{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
