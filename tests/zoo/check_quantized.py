"""Quantize specimens of the zoo in several ways, and have each judged by MLX.

    python tests/zoo/check_quantized.py [--keep DIR] [--only NAME] [--command '.venv/bin/ingot']

For each way a table says how many tensors of the sources were quantized, to what, how many did
not fit their rule, and how many differ from what `quantized_judge` expects.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.check_store import check_store
from tests.zoo.check_zoo import SHOWN, Ingot, run_checks, say
from tests.zoo.judged import JudgedRow, million, note, versions
from tests.zoo.make_zoo import make
from tests.zoo.quantizable import MODELS, QUANTIZABLE
from tests.zoo.quantized_judge import QuantizeOptions, Verdict, judge

ROW: Final = "{:16}{:28}{:>8}{:>9}{:>8}  {}"
WAYS: Final[Mapping[str, QuantizeOptions]] = {
    "-q int4": QuantizeOptions("int4"),
    "-q nvfp4": QuantizeOptions("nvfp4"),
    "-q mxfp8": QuantizeOptions("mxfp8"),
    "-q int4 --experts stacked": QuantizeOptions("int4", stacked=True),
    "-q int4 --recipe ollama": QuantizeOptions("int4", "ollama", stacked=True),
    "-q nvfp4 --recipe ollama": QuantizeOptions("nvfp4", "ollama", stacked=True),
}
"""What is added to `create`."""


def check(name: str, source: Path, way: str, ingot: Ingot) -> Verdict:
    """Import one source in one way, and judge."""
    ingot.failures = []
    ingot.run("create", name, str(source), *shlex.split(way))
    if ingot.failures:
        return Verdict(differences=ingot.failures)
    verdict = judge(source, ingot.store, name, WAYS[way])
    # What ingot makes of the source a second time.
    ingot.run("verify", name, "--source", str(source))
    verdict.differences += ingot.failures
    if not verdict.quantized:
        verdict.differences.append("nothing should be quantized: the specimen is too small")
    return verdict


def check_all(names: Sequence[str], root: Path, argv: Sequence[str], *, keep: bool) -> int:
    """Make and check specimens one by one, print tables, and count the differences."""
    ingot = Ingot(argv, root / "store")
    found: dict[str, list[Verdict]] = {way: [] for way in WAYS}
    for name in names:
        source = root / "checkpoints" / name
        make(name, QUANTIZABLE[name], source)
        for way, asked in WAYS.items():
            # What Ollama decides is decided for language models.
            if asked.recipe == "default" or name in MODELS:
                verdict = check(name, source, way, ingot)
                found[way].append(verdict)
                _print(name, way, verdict)
        if not keep:
            shutil.rmtree(source)
    ingot.failures = []
    ingot.run("verify")
    of_store = [*ingot.failures, *check_store(ingot.store)]
    say(*(f"    store: {line}" for line in of_store), "")
    _say_row("checkpoints", "", "tensors", "misfits", "differ", "quantized")
    differences, tensors = len(of_store), 0
    for way, verdicts in found.items():
        total = Verdict()
        for verdict in verdicts:
            total.tensors += verdict.tensors
            total.quantized += verdict.quantized
            total.misfits += verdict.misfits
            total.differences += verdict.differences
        _print(str(len(verdicts)), way, total, shown=0)
        differences += len(total.differences)
        tensors += total.tensors
    note(
        JudgedRow(
            "store",
            "int4, nvfp4, mxfp8, and the recipe of Ollama",
            "ingot",
            f"`quantize` of {versions('mlx')}",
            f"{len(names)} checkpoints, {len(WAYS)} ways, {million(tensors)} tensors",
            differences,
        )
    )
    return differences


def _print(name: str, way: str, verdict: Verdict, *, shown: int = SHOWN) -> None:
    quantized = sorted(verdict.quantized.items())
    kinds = " + ".join(f"{count} {kind}" for kind, count in quantized)
    differences = verdict.differences
    _say_row(name, way, verdict.tensors, verdict.misfits, len(differences), kinds)
    say(*(f"    {line}" for line in differences[:shown]))


def _say_row(*cells: object) -> None:
    say(ROW.format(*cells))


def main() -> int:
    """Run the command line."""
    columns = "specimen", "way", "tensors", "misfits", "differ", "quantized"
    say(f"mlx {version('mlx')}")
    return run_checks(__doc__, QUANTIZABLE, ROW.format(*columns), check_all)


if __name__ == "__main__":
    sys.exit(main())
