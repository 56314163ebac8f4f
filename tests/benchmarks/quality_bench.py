"""A store with an original, an importance matrix of it, and a judge of what is made of it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.benchmarks.eval_judge import CONTEXT, Judge, judging
from tests.zoo.calibration import CALIBRATED_ON, docstrings, everyday

ROOT: Final = Path(__file__).resolve().parents[2]
PROBE: Final = "int3/64"
"""Type that a matrix gets alone, so that its factor is known."""
_EVERY: Final = 3
"""One of so many everyday sentences: each takes two runs for each model."""


class Row(NamedTuple):
    """A model, and what it is like.

    Attributes:
        bits: for each weight.
        sqnr: of all weights that changed, dB.
        damage: see `Found`.
    """

    bits: float
    sqnr: float
    damage: float
    agreement: float | None


class Bench:
    """Models of one original.

    Args:
        command: how ingot is started.
        model: a directory with a `model`, and texts for `calibration` and `held-out`.
        root: for everything that is made.
    """

    def __init__(self, command: list[str], model: Path, root: Path):
        self._command, self.model, self.root = command, model, root
        self.matrix = root / "imatrix.safetensors"
        self.store = root / "store"
        root.mkdir(parents=True, exist_ok=True)
        # As most models come: what is quantized then has scales of 16 bits.
        self.run("create", "base", model / "model", "-q", "bf16")

    def run(self, *words: object, command: list[str] | None = None) -> str:
        """Run a command on the store; print what it said where it failed."""
        argv = [*(command or self._command), *map(str, words), "--store", str(self.store)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode:
            sys.exit(f"{argv} exited {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def measure_importance(self) -> None:
        """Write the matrix, by the torch of this interpreter."""
        text = ("--text", self.model / "calibration", "--context", CONTEXT, "--jobs", 1)
        ours = [sys.executable, "-m", "cli"]
        self.run("imatrix", "base", *text, "-o", self.matrix, command=ours)

    @contextlib.contextmanager
    def judged(self) -> Iterator[Judge]:
        """Load the original and what it is judged on."""
        with judging(self.store, "base", self.model / "held-out") as judge:
            yield judge

    def bits(self, name: str) -> float:
        """Return bits for each weight of a stored model."""
        facts = json.loads(self.run("show", name, "--json"))
        return float(8 * facts["weight_bytes"] / facts["parameters"])

    def make(self, judge: Judge, *words: object) -> Row:
        """Create a model of the original with some words more, and judge it."""
        self.run("create", "small", "base", *words)
        found = judge.judge("small")
        return Row(
            self.bits("small"),
            10 * math.log10(found.signal / found.noise),
            found.damage,
            found.agreement,
        )

    def measure_factors(self, judge: Judge, limit: int) -> Path:
        """Return a file of the factors, measured on a part of the text of the importance."""
        path = self.root / "factors.json"
        probe = ("-q", PROBE, "--recipe", "uniform", "--imatrix", self.matrix)
        self.run("create", "probe", "base", *probe)
        judge.factors("probe", self.model / "calibration", limit, path)
        return path


def sentence_model(minilm: Path, place: Path) -> Path:
    """Return a directory with MiniLM, docstrings and everyday sentences."""
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "model").exists():
        (place / "model").symlink_to(minilm.absolute())
    texts = {"calibration": docstrings()[:CALIBRATED_ON], "held-out": everyday()[::_EVERY]}
    for name, some in texts.items():
        (place / name).write_text("\n".join(some) + "\n", encoding="utf-8")
    return place
