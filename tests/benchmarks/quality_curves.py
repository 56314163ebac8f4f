"""Bits, SQNR and outputs by type, group and calibration, of a small language model.

    .venv-zoo/bin/python tests/benchmarks/quality_curves.py DIR --command .venv/bin/ingot

DIR is what language_model.py wrote. Importance is measured on DIR/calibration; models are
judged on DIR/held-out as `ingot eval` does, in one process, since it takes longer to start than
to judge. Prints a table, and draws docs/assets/quality.svg.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.eval_judge import judging
from tests.benchmarks.quality_svg import Series, draw

ROOT: Final = Path(__file__).resolve().parents[2]
CONTEXT: Final = 128
TYPES: Final = (
    *(f"int{bits}/64" for bits in (2, 3, 4, 5, 6, 8)),
    *("int4/32", "int4/128", "nvfp4", "mxfp4", "mxfp8"),
)
TARGETS: Final = ("3.5", "4", "4.5", "5", "5.5", "6.5")
WAYS: Final = ("MLX's", "mse", "importance")


class Row(NamedTuple):
    """A model, and what it is like.

    Attributes:
        sqnr: of all weights that changed, dB.
    """

    asked: str
    way: str
    bits: float
    sqnr: float
    perplexity: float
    divergence: float
    agreement: float

    def __str__(self) -> str:
        return (
            f"| {self.asked} | {self.way} | {self.bits:.2f} | {self.sqnr:.1f} | "
            f"{self.perplexity:.3f} | {self.divergence:.5f} | {100 * self.agreement:.1f} % |"
        )


class Bench:
    """A store with the original.

    Args:
        command: how ingot is started.
        model: what language_model.py wrote.
        root: for everything that is made.
    """

    def __init__(self, command: list[str], model: Path, root: Path):
        self._command, self._model, self._root = command, model, root
        self.matrix = root / "imatrix.safetensors"
        self.run("create", "base", model / "model")

    def run(self, *words: object, command: list[str] | None = None) -> str:
        """Run a command on the store."""
        argv = [*(command or self._command), *map(str, words)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        return subprocess.run(
            [*argv, "--store", str(self._root / "store")],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        ).stdout

    def measure_importance(self) -> None:
        """Write the matrix, by the torch of this interpreter."""
        text = ("--text", self._model / "calibration", "--context", CONTEXT, "--jobs", 1)
        ours = [sys.executable, "-m", "cli"]
        self.run("imatrix", "base", *text, "-o", self.matrix, command=ours)

    def rows(self, wanted: Iterator[tuple[str, str, tuple[Any, ...]]]) -> Iterator[Row]:
        """Yield a row for each model that is wanted: what is asked, the way, and the words."""
        text = self._model / "held-out"
        with judging(self._root / "store", "base", text, CONTEXT) as judge:
            for asked, way, words in wanted:
                self.run("create", "small", "base", *words)
                facts = json.loads(self.run("show", "small", "--json"))
                bits = 8 * facts["weight_bytes"] / facts["parameters"]
                found = judge.judge("small")
                sqnr = 10 * math.log10(found.signal / found.noise)
                yield Row(
                    *(asked, way, bits, sqnr),
                    *(found.perplexity, found.divergence, found.agreement),
                )


def wanted(matrix: Path) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield what models are made."""
    words: dict[str, tuple[Any, ...]] = {
        "MLX's": (),
        "mse": ("--calibrate", "mse"),
        "importance": ("--imatrix", matrix),
    }
    for kind, way in itertools.product(TYPES, WAYS):
        if kind != "mxfp8" or way == WAYS[0]:
            yield kind, way, ("-q", kind, "--recipe", "uniform", *words[way])
    for bits in TARGETS:
        yield f"target {bits}", "importance", ("--target-bpw", bits, *words["importance"])


def main() -> None:
    """Make, judge, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--command", default="ingot", help="with kernels")
    parser.add_argument("--svg", type=Path, default=ROOT / "docs/assets/quality.svg")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(shlex.split(options.command), options.model, Path(place))
        bench.measure_importance()
        print("| asked | scales | bits | SQNR dB | perplexity | KL divergence | same token |")
        print("|---|---|--:|--:|--:|--:|--:|")
        for row in bench.rows(wanted(bench.matrix)):
            rows.append(row)
            print(row, flush=True)
    series = [
        Series(
            f"one type, {way} scales" if way == WAYS[0] else f"one type, {way}",
            tuple(
                (row.bits, row.divergence)
                for row in rows
                if row.way == way and row.asked.endswith("/64")
            ),
        )
        for way in WAYS
    ]
    chosen = tuple((one.bits, one.divergence) for one in rows if one.asked.startswith("target"))
    series.append(Series("types chosen for a size, importance", chosen))
    options.svg.write_text(draw(series, "KL divergence, nats"), encoding="utf-8")


if __name__ == "__main__":
    main()
