"""Tell what was measured: a table beside the goals, facts of the machine, a JSON document."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.measure import MIB, Cost, Pairs, Spread
from tests.benchmarks.rows import Measure, Row

REPOSITORY: Final = str(Path(__file__).parents[2])
RAM_DISKS: Final = {"tmpfs", "ramfs"}
_HEAD: Final = (
    *("row", "ours", "s (min)", "cpu s", "MiB"),
    *("beside", "s (min)", "cpu s", "MiB"),
    *("cpu ratio", "result", "[least, most]", "goal", "stretch", ""),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a row.

    Attributes:
        tensors: of the checkpoint.
        pairs: None where it did not run.
        why_not: why it did not.
        failed: it should have run.
    """

    row: Row
    tensors: int
    pairs: Pairs | None = None
    why_not: str = ""
    failed: bool = False

    def value(self) -> Spread | None:
        """What is compared with the goal."""
        if self.pairs is None:
            return None
        match self.row.measure:
            case Measure.RATIO:
                return self.pairs.ratio()
            case Measure.ADDED:
                return self.pairs.added()
            case Measure.SECONDS:
                return self.pairs.seconds()
            case Measure.PEAK:
                return self.pairs.peak()

    def verdict(self) -> str:
        """How the median stands to the goal."""
        value = self.value()
        if value is None:
            return ""
        goal, stretch = self.row.bound(self.tensors)
        if stretch is not None and value.median <= stretch:
            return "stretch"
        return "goal" if value.median <= goal else "missed"

    def document(self) -> dict[str, Any]:
        """The row for the JSON document."""
        goal, stretch = self.row.bound(self.tensors)
        value = self.value()
        return {
            "name": self.row.name,
            "what": self.row.what,
            "against": self.row.against,
            "unit": str(self.row.measure),
            "goal": goal,
            "stretch": stretch,
            "value": asdict(value) if value else None,
            "not_measured": self.why_not or None,
            "runs": asdict(self.pairs) if self.pairs else None,
        }


@dataclass(frozen=True, slots=True)
class Growth:
    """What one command cost on one checkpoint, run by run."""

    command: str
    tensors: int
    nbytes: int
    costs: tuple[Cost, ...]

    def document(self) -> dict[str, Any]:
        """The step for the JSON document."""
        return asdict(self)


def table(results: Iterable[Result]) -> list[str]:
    """Lay the rows that ran out in columns, and say of the others why they did not."""
    cells, left_out = [_HEAD], []
    for result in results:
        value = result.value()
        if result.pairs is None or value is None:
            left_out.append(f"{result.row.name}: not measured: {result.why_not}")
            continue
        goal, stretch = result.row.bound(result.tensors)
        unit = result.row.measure
        cells.append(
            (
                *(result.row.name, result.row.what, *_costs(result.pairs.ours)),
                *(result.row.against, *_costs(result.pairs.peer)),
                f"{result.pairs.cpu_ratio().median:.2f}" if result.pairs.peer else "",
                _number(value.median, unit),
                f"[{_number(value.least, unit)}, {_number(value.most, unit)}]",
                _number(goal, unit),
                "" if stretch is None else _number(stretch, unit),
                result.verdict(),
            )
        )
    return [*columns(cells), *left_out]


def growth_table(steps: Iterable[Growth]) -> list[str]:
    """Lay out how cost grows."""
    cells = [("command", "tensors", "GB", "s (min)", "cpu s", "MiB")]
    cells += [
        (step.command, f"{step.tensors:,}", f"{step.nbytes / 1e9:.3f}", *_costs(step.costs))
        for step in steps
    ]
    return columns(cells)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the cells of a table, the first row being its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def machine(directory: Path, peers: Path) -> dict[str, str]:
    """What a figure depends on."""
    return {
        "cpu": _cpu(),
        "cores": str(_cores()),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.1f} GB",
        "system": platform.platform(),
        "python": platform.python_version(),
        "file system": file_system(directory),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "openssl": _said("openssl", "version"),
        "peers": _said(str(peers / "python"), "-c", _VERSIONS),
        "commit": _said("git", "-C", REPOSITORY, "describe", "--always", "--dirty"),
    }


def file_system(directory: Path) -> str:
    """Type of the file system that `directory` is on, where Linux tells."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return "unknown"
    # The longest path that leads there; of two on the same path the later one.
    under = [line.split()[1:3] for line in reversed(mounts)]
    under = [mount for mount in under if directory.resolve().is_relative_to(mount[0])]
    return max(under, key=lambda mount: len(mount[0]))[1] if under else "unknown"


def _costs(costs: Sequence[Cost]) -> tuple[str, str, str]:
    if not costs:
        return ("", "", "")
    seconds = Spread.of([cost.seconds for cost in costs])
    cpu = Spread.of([cost.cpu_seconds for cost in costs])
    peak = Spread.of([cost.peak_bytes / MIB for cost in costs])
    wall = f"{seconds.median:.3f} ({seconds.least:.3f})"
    return (wall, f"{cpu.median:.2f}", f"{peak.most:.0f}")


def _number(number: float, unit: Measure) -> str:
    match unit:
        case Measure.ADDED:
            return f"{number:+.0f} ms"
        case Measure.PEAK:
            return f"{number:.0f} MiB"
        case Measure.SECONDS:
            return f"{number:.3f} s"
        case Measure.RATIO:
            return f"{number:.3f}"


_VERSIONS: Final = (
    "from importlib.metadata import version as v;print('mlx', v('mlx'), 'mlx-lm', v('mlx-lm'))"
)


def _said(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return done.stdout.strip()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return _said("sysctl", "-n", "machdep.cpu.brand_string")
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
