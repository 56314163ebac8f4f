"""A size that is met, beside programs that choose types too: KL divergence at equal bytes.

    .venv-zoo/bin/python tests/benchmarks/quality_peers.py DIR --command .venv/bin/ingot
        [--mlx DIRECTORY] [--llama DIRECTORY]

DIR is what language_model.py wrote. Each peer makes a model of it: mlx_lm's types, its mixed
recipes and its dynamic_quant, and llama-quantize; what needs a text has DIR/calibration, and
llama-quantize has the importance matrix that ours has, by llama-imatrix. Then ingot makes one
that is no larger, with the factors of its preset and with measured ones, and both are compared
with the original on DIR/held-out as `ingot eval` does. Bits count all weights with their
scales, as `ingot show` does. dynamic_quant has the beginning of the text: it has no option for
less, and its gradients of BF16 are slow on a CPU.
"""

from __future__ import annotations

import argparse
import itertools
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

from tests.benchmarks.eval_judge import CONTEXT, Judge
from tests.benchmarks.quality_bench import Bench

MIXED: Final = ("mixed_3_4", "mixed_4_6")
DYNAMIC: Final = ("4.6", "5.0")
"""Targets between int4 and int5 in groups of 64, which are what it mixes."""
DYNAMIC_TEXT: Final = 6_000
"""Characters that it gets, some four windows of 512 tokens: a batch."""
GGUF: Final = ("Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K")
LOW: Final = ",".join(
    f"int{bits}/{group}" for bits in (2, 3, 4, 5, 6, 8) for group in (128, 64, 32)
)
"""Types that are asked for where a size is small: 2 bits are not among the usual ones."""
LOW_BITS: Final = 3.3
WINDOWS: Final = 8
"""Of the text that factors are measured on."""
FACTORS: Final = "model_sensitivities.json"
"""What dynamic_quant calls its measurements of a directory `model`."""


class Made(NamedTuple):
    """A peer's model."""

    name: str
    path: Path


def run(root: Path, *words: object, **asked: Any) -> None:
    """Run a peer to its end; print what it said where it failed."""
    argv = list(map(str, words))
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=root, **asked)
    if done.returncode:
        sys.exit(f"{shlex.join(argv)} exited {done.returncode}: {done.stderr[-2000:]}")


def by_mlx(bench: Bench, programs: Path) -> Iterator[Made]:
    """Yield models of mlx_lm's own programs."""
    root = bench.root
    # dynamic_quant fetches a text unless it is there; it is given ours.
    home = root / "home"
    (home / ".cache/mlx-lm").mkdir(parents=True)
    text = (bench.model / "calibration").read_text(encoding="utf-8")[:DYNAMIC_TEXT]
    (home / ".cache/mlx-lm/calibration_v5.txt").write_text(text, encoding="utf-8")
    environment = os.environ | {"HOME": str(home), "HF_HUB_OFFLINE": "1"}
    shutil.copytree(bench.model / "model", root / "model")
    asked: dict[str, tuple[object, ...]] = {"int4/64": ("--q-bits", 4, "--q-group-size", 64)}
    asked |= {recipe: ("--quant-predicate", recipe) for recipe in MIXED}
    for name, words in asked.items():
        path = root / f"mlx-{name.replace('/', '-')}"
        convert = (programs / "mlx_lm.convert", "--hf-path", "model", "--mlx-path", path, "-q")
        run(root, *convert, *words, env=environment)
        yield Made(f"`mlx_lm.convert` {name}", path)
    for target in DYNAMIC:
        path = root / f"dynamic-{target}"
        words = ("--model", "model", "--mlx-path", path, "--target-bpw", target)
        known = ("--sensitivities", FACTORS) if (root / FACTORS).exists() else ()
        run(root, programs / "mlx_lm.dynamic_quant", *words, *known, env=environment)
        yield Made(f"`mlx_lm.dynamic_quant` {target}", path)


def by_llama(bench: Bench, programs: Path, plain: Path) -> Iterator[Made]:
    """Yield models of llama-quantize."""
    for kind in GGUF:
        path = bench.root / f"{kind}.gguf"
        command = (programs / "llama-quantize", "--imatrix", bench.matrix, plain, path, kind, 1)
        run(bench.root, *command)
        yield Made(f"`llama-quantize` {kind}", path)


def main() -> None:
    """Make, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--command", default="ingot", help="with kernels")
    here = Path(sys.executable).parent
    parser.add_argument("--mlx", type=Path, default=here, help="of mlx_lm.convert")
    parser.add_argument("--llama", type=Path, default=here, help="of llama-quantize")
    options = parser.parse_args()
    mlx, llama = options.mlx.absolute(), options.llama.absolute()
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(shlex.split(options.command), options.model.absolute(), Path(place))
        plain = bench.root / "base.gguf"
        bench.run("export", "base", plain, "--to", "gguf")
        bench.matrix = bench.root / "imatrix.gguf"
        text = ("-f", bench.model / "calibration", "-c", CONTEXT, "--no-ppl", "-t", 1)
        run(bench.root, llama / "llama-imatrix", "-m", plain, *text, "-o", bench.matrix)
        print("| made by | bits | theirs | preset's | of theirs | measured | of theirs |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        with bench.judged() as judge:
            factors = bench.measure_factors(judge, WINDOWS)
            peers = by_mlx(bench, mlx), by_llama(bench, llama, plain)
            for made in itertools.chain(*peers):
                print(_compared(bench, judge, made, factors), flush=True)


def _compared(bench: Bench, judge: Judge, made: Made, factors: Path) -> str:
    bench.run("create", "peer", made.path)
    bits, theirs = bench.bits("peer"), judge.judge("peer").damage
    cells = [made.name, f"{bits:.2f}", f"{theirs:.5f}"]
    target = ("--target-bpw", f"{bits:.6f}", "--imatrix", bench.matrix)
    least = ("--allow", LOW) if bits < LOW_BITS else ()
    for words in ((), ("--sensitivity", factors)):
        ours = bench.make(judge, *target, *words, *least)
        assert ours.bits <= bits + 1e-6
        cells += [f"{ours.damage:.5f}", f"{ours.damage / theirs:.2f}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
