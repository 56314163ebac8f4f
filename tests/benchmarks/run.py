"""Measure ingot beside its peers: `make bench`.

    python tests/benchmarks/run.py [--only int4,verify] [--size GB] [--pairs N] [--growth]
                                   [--directory DIR] [--json FILE] [--command '.venv/bin/ingot']

Checkpoints are written once below DIR and used again; everything else there is removed. What
the figures mean: docs/performance.md. A slow run is no failure; a command that fails is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks import report
from tests.benchmarks.measure import CommandFailedError, alternate
from tests.benchmarks.rows import (
    ROWS,
    Measure,
    Row,
    Side,
    Stage,
    create,
    create_again,
    in_store,
    on,
)

REPOSITORY: Final = Path(__file__).resolve().parents[2]
USAGE: Final = 2
"""Exit code of a command that does not know an option."""
GROWTH: Final = (
    *(("dense", gigabytes * 10**9) for gigabytes in (1, 2, 4)),
    *(("small", tensors) for tensors in (100, 1_000, 10_000, 100_000)),
)
GROWTH_COMMANDS: Final[dict[str, Side]] = {
    "create": create(),
    "create again": create_again(),
    "show": in_store("show", "model"),
    "verify": in_store("verify"),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """Where everything is.

    Attributes:
        directory: of checkpoints and, while they run, of outputs.
        peers: directory of the peers' executables.
        nbytes: of the checkpoints, at least.
        pairs: how many are measured, at least.
    """

    ingot: tuple[str, ...]
    directory: Path
    peers: Path
    nbytes: int
    pairs: int

    def measure(self, row: Row) -> report.Result:
        """Run one row; what is not there, a peer or an option of ours, is no failure."""
        with self._stage(self.nbytes, *row.models) as stage:
            tensors = _tensors(stage.source)
            peer = None if row.peer is None else on(stage, row.peer)
            pairs = max(self.pairs, row.pairs)
            try:
                ours = on(stage, row.ours)
                # The most that is written: what was read, and again by a converter's peer.
                memory = 0 if row.measure is Measure.ADDED else 2 * _weights(stage.source)
                costs = alternate(ours, peer, pairs, stage.kept, memory)
            except FileNotFoundError as error:
                return report.Result(row, tensors, why_not=f"{error.filename} is not there")
            except CommandFailedError as error:
                failed = error.code != USAGE
                return report.Result(row, tensors, why_not=str(error), failed=failed)
            return report.Result(row, tensors, costs)

    def grow(self, model: str, amount: int) -> Iterator[report.Growth]:
        """Run the plain commands on one checkpoint of `GROWTH`."""
        with self._stage(amount, model) as stage:
            tensors, nbytes = _tensors(stage.source), _weights(stage.source)
            for name, side in GROWTH_COMMANDS.items():
                costs = alternate(on(stage, side), None, self.pairs, stage.kept).ours
                yield report.Growth(name, tensors, nbytes, costs)

    @contextlib.contextmanager
    def _stage(self, amount: int, *models: str) -> Iterator[Stage]:
        source, *_ = [self._checkpoint(model, amount) for model in models]
        with (
            tempfile.TemporaryDirectory(prefix="ingot-bench-", dir=self.directory) as kept,
            contextlib.ExitStack() as resources,
        ):
            yield Stage(self.ingot, self.peers, source.parent, source, Path(kept), resources)

    def _checkpoint(self, model: str, amount: int) -> Path:
        # In a process of its own: a child's peak memory is never less than its parent's.
        script = Path(__file__).with_name("checkpoints.py")
        target = self.directory / str(amount) / model
        subprocess.run([sys.executable, script, model, target, str(amount)], check=True)
        for path in target.iterdir():
            with path.open("rb", buffering=0) as file:  # into the page cache
                while file.read(1 << 20):
                    pass
        return target


def main(words: list[str] | None = None) -> int:
    """Run what was asked for; 1 when a command failed."""
    options = _options(words)
    os.environ |= {"HF_HUB_OFFLINE": "1"}
    os.environ.pop("INGOT_STORE", None)
    options.directory.mkdir(parents=True, exist_ok=True)
    bench = Bench(
        tuple(shlex.split(options.command)),
        options.directory,
        options.peers,
        round(options.size * 1e9),
        options.pairs,
    )
    document: dict[str, Any] = {
        "schema": "ingot.benchmarks/1",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": report.machine(options.directory, options.peers),
    }
    print(*(f"{fact}: {value}" for fact, value in document["machine"].items()), sep="\n")
    growth: list[report.Growth] = []
    results: list[report.Result] = []

    def save() -> None:
        # After each step, so that an interrupted run has what it measured.
        document["growth"] = [step.document() for step in growth]
        document["rows"] = [result.document() for result in results]
        options.json.write_text(json.dumps(document, indent=1) + "\n")

    if options.growth:
        for model, amount in GROWTH:
            print(f"measuring {model} {amount:,}", file=sys.stderr)
            growth += bench.grow(model, amount)
            save()
        print("", *report.growth_table(growth), sep="\n")
    else:
        for row in options.only:
            print(f"measuring {row.name}", file=sys.stderr)
            results.append(bench.measure(row))
            save()
        print("", *report.table(results), sep="\n")
    print(f"\nwrote {options.json}", file=sys.stderr)
    return 1 if any(result.failed for result in results) else 0


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--only", type=_rows, default=ROWS, metavar="ROW,…")
    parser.add_argument("--growth", action="store_true", help="cost by size and tensor count")
    parser.add_argument("--size", type=float, default=2.0, help="of the checkpoints, GB")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=_real_disk() / "ingot-benchmarks")
    parser.add_argument("--json", type=Path, help="default: results.json in the directory")
    parser.add_argument("--command", default=str(Path(sys.executable).with_name("ingot")))
    parser.add_argument("--peers", type=Path, default=REPOSITORY / ".venv-bench" / "bin")
    options = parser.parse_args(words)
    options.directory = options.directory.absolute()
    if options.directory.resolve().is_relative_to(REPOSITORY):
        parser.error(f"{options.directory} is inside the repository")
    options.json = options.json or options.directory / "results.json"
    return options


def _rows(text: str) -> tuple[Row, ...]:
    by_name = {row.name: row for row in ROWS}
    unknown = [name for name in text.split(",") if name not in by_name]
    if unknown:
        message = f"no row {', '.join(unknown)}; there are {', '.join(by_name)}"
        raise argparse.ArgumentTypeError(message)
    return tuple(by_name[name] for name in text.split(","))


def _real_disk() -> Path:
    # /tmp is memory on many systems, where nothing is ever written back.
    candidates = (Path(tempfile.gettempdir()), Path("/var/tmp"))
    disks = [path for path in candidates if report.file_system(path) not in report.RAM_DISKS]
    return disks[0] if disks else candidates[0]


def _tensors(source: Path) -> int:
    index = source / "model.safetensors.index.json"
    if index.exists():
        return len(json.loads(index.read_bytes())["weight_map"])
    if (source / "pytorch_model.bin").exists():
        with zipfile.ZipFile(source / "pytorch_model.bin") as archive:
            return len(archive.namelist()) - 2
    with (source / "model.gguf").open("rb") as file:
        return int.from_bytes(file.read(16)[8:], "little")


def _weights(source: Path) -> int:
    kinds = ("*.safetensors", "*.gguf", "*.bin")
    weights = [path for kind in kinds for path in source.glob(kind)]
    return sum(path.stat().st_size for path in weights)


if __name__ == "__main__":
    sys.exit(main())
