"""A size that is met, beside programs that choose types too: KL divergence at equal bytes.

    .venv-zoo/bin/python tests/benchmarks/quality_peers.py DIR --command .venv/bin/ingot
        [--mlx DIRECTORY] [--llama DIRECTORY]

DIR is what language_model.py wrote. Each peer makes a model of it: mlx_lm's types, its mixed
recipes and its dynamic_quant, and llama-quantize; what needs a text has DIR/calibration, and
llama-quantize has the importance matrix that ours has, by llama-imatrix. Then ingot makes one
that is no larger, and both are compared with the original on DIR/held-out as `ingot eval` does.
Bits count all weights with their scales, as `ingot show` does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from importer.evaluation.factors import measure_factors, write_factors
from importer.evaluation.models import Setup, loaded
from importer.evaluation.text import read_text, windows
from importer.sources.location import StoredModel
from store import ModelName
from tests.benchmarks.eval_judge import Judge, judging

CONTEXT: Final = 128
MIXED: Final = ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6")
DYNAMIC: Final = ("4.6", "5.0", "5.3")
"""Targets between int4 and int5 in groups of 64, which are what it mixes."""
GGUF: Final = (*("Q2_K", "Q3_K_S", "Q3_K_M", "IQ4_XS", "Q4_K_S", "Q4_K_M", "Q5_K_M", "Q6_K"),)
LOW: Final = ",".join(
    f"int{bits}/{group}" for bits in (2, 3, 4, 5, 6, 8) for group in (128, 64, 32)
)
"""Types that are asked for where a size is small: 2 bits are not among the usual ones."""
LOW_BITS: Final = 3.3
PROBE: Final = "int3/64"
WINDOWS: Final = 8
"""Of the text that factors are measured on."""
FACTORS: Final = "model_sensitivities.json"
"""What dynamic_quant calls its measurements of a directory `model`."""


class Stage(NamedTuple):
    """Where things are.

    Attributes:
        ingot: how it is started.
        mlx, llama: directories of the peers' executables.
        model: the directory that language_model.py wrote.
        root: for everything that is made.
    """

    ingot: list[str]
    mlx: Path
    llama: Path
    model: Path
    root: Path

    def run(self, *words: object, **asked: Any) -> str:
        """Run a command to its end; print what it said where it failed."""
        argv = list(map(str, words))
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, cwd=self.root, **asked
        )
        if done.returncode:
            sys.exit(f"{shlex.join(argv)} exited {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def own(self, *words: object) -> str:
        """Run ingot on the store."""
        return self.run(*self.ingot, *words, "--store", self.root / "store")

    def bits(self, name: str) -> float:
        """Return bits for each weight of a stored model."""
        facts = json.loads(self.own("show", name, "--json"))
        return 8 * facts["weight_bytes"] / facts["parameters"]


class Made(NamedTuple):
    """A peer's model."""

    name: str
    path: Path


def by_mlx(stage: Stage) -> Iterator[Made]:
    """Yield models of mlx_lm's own programs."""
    # dynamic_quant fetches a text unless it is there; it is given ours.
    home = stage.root / "home"
    (home / ".cache/mlx-lm").mkdir(parents=True)
    shutil.copy(stage.model / "calibration", home / ".cache/mlx-lm/calibration_v5.txt")
    environment = os.environ | {"HOME": str(home), "HF_HUB_OFFLINE": "1"}
    shutil.copytree(stage.model / "model", stage.root / "model")
    asked = {f"int{bits}/64": ("--q-bits", bits, "--q-group-size", 64) for bits in (3, 4, 5)}
    asked |= {recipe: ("--quant-predicate", recipe) for recipe in MIXED}
    for name, words in asked.items():
        path = stage.root / f"mlx-{name.replace('/', '-')}"
        convert = (stage.mlx / "mlx_lm.convert", "--hf-path", "model", "--mlx-path", path, "-q")
        stage.run(*convert, *words, env=environment)
        yield Made(f"mlx_lm.convert {name}", path)
    for target in DYNAMIC:
        path = stage.root / f"dynamic-{target}"
        words = ("--model", "model", "--mlx-path", path, "--target-bpw", target)
        known = ("--sensitivities", FACTORS) if (stage.root / FACTORS).exists() else ()
        stage.run(stage.mlx / "mlx_lm.dynamic_quant", *words, *known, env=environment)
        yield Made(f"mlx_lm.dynamic_quant {target}", path)


def by_llama(stage: Stage, plain: Path, matrix: Path) -> Iterator[Made]:
    """Yield models of llama-quantize."""
    for kind in GGUF:
        path = stage.root / f"{kind}.gguf"
        command = (stage.llama / "llama-quantize", "--imatrix", matrix, plain, path, kind, 1)
        stage.run(*command)
        yield Made(f"llama-quantize {kind}", path)


def measure(stage: Stage, judge: Judge, matrix: Path) -> Path:
    """Write what the error of each matrix does alone, as `ingot eval --sensitivity` does."""
    probe = ("-q", PROBE, "--recipe", "uniform", "--imatrix", matrix)
    stage.own("create", "probe", "base", *probe)
    text = read_text(stage.model / "calibration")
    read = windows(text, judge.base.tokenizer, CONTEXT, WINDOWS)
    source = StoredModel(ModelName.parse("probe"))
    with loaded(source, judge.store, Setup()) as small:
        found = measure_factors(judge.base, small, text, (read, read))
    path = stage.root / "factors.json"
    write_factors(path, found)
    return path


def main() -> None:
    """Make, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--command", default="ingot", help="with kernels")
    here = Path(sys.executable).parent
    parser.add_argument("--mlx", type=Path, default=here, help="of mlx_lm.convert")
    parser.add_argument("--llama", type=Path, default=here, help="of llama-quantize")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        stage = Stage(
            shlex.split(options.command),
            options.mlx.absolute(),
            options.llama.absolute(),
            options.model.absolute(),
            Path(place),
        )
        stage.own("create", "base", stage.model / "model")
        plain = stage.root / "base.gguf"
        stage.own("export", "base", plain, "--to", "gguf")
        matrix = stage.root / "imatrix.gguf"
        text = ("-f", stage.model / "calibration", "-c", CONTEXT, "--no-ppl", "-t", 1)
        stage.run(stage.llama / "llama-imatrix", "-m", plain, *text, "-o", matrix)
        print("| made by | bits | KL divergence | ours, bits | KL | of the peer's | top-1 |")
        print("|---|--:|--:|--:|--:|--:|---|")
        with judging(stage.root / "store", "base", stage.model / "held-out", CONTEXT) as judge:
            factors = measure(stage, judge, matrix)
            for made in itertools.chain(by_mlx(stage), by_llama(stage, plain, matrix)):
                _compare(stage, judge, made, matrix, factors)


def _compare(stage: Stage, judge: Judge, made: Made, matrix: Path, factors: Path) -> None:
    stage.own("create", "peer", made.path)
    bits = stage.bits("peer")
    theirs = judge.judge("peer")
    ways = {"importance": (), "importance, factors": ("--sensitivity", factors)}
    if "dynamic" in made.name:
        ways["importance, their factors"] = ("--sensitivity", stage.root / FACTORS)
    for way, words in ways.items():
        target = ("--target-bpw", f"{bits:.6f}", "--imatrix", matrix)
        least = ("--allow", LOW) if bits < LOW_BITS else ()
        stage.own("create", "ours", "base", *target, *words, *least)
        ours = judge.judge("ours")
        kl = [one.divergence for one in (theirs, ours)]
        top = " / ".join(f"{100 * one.agreement:.1f} %" for one in (theirs, ours))
        print(
            f"| {made.name} | {bits:.3f} | {kl[0]:.5f} | {stage.bits('ours'):.3f}, {way} | "
            f"{kl[1]:.5f} | {kl[1] / kl[0]:.2f} | {top} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
