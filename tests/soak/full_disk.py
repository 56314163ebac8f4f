"""Disks with too little room, in every size: nothing breaks, nothing stays, and it is said.

    python tests/soak/full_disk.py [--sizes 64] [--bed tmpfs|ext4|ext3|inodes|limit]

Beds: a tmpfs and an ext4 image with ballast that leaves some bytes; one that maps blocks as
ext3 did, where no space can be reserved and so a write is cut short; an image that runs out of
inodes; a limit on the size of files. On each the import is tried as it is, and by a process
that saw an empty disk when it asked: another one took the space after that.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.check_store import check_store, manifest_digest
from tests.soak import disks
from tests.soak.forked import ForkedIngot, load
from tests.soak.harness import Outcome, print_lines
from tests.soak.scenarios import write_sources

BEDS = ("tmpfs", "ext4", "ext3", "inodes", "limit")
DISK_BYTES = 24 << 20
COLUMNS = 4096  # of which the import makes one blob of 260 KB
# bed -> the least and the most that is left to an import, and to one that saw it too late:
# bytes, files, bytes of the largest file. From the most on, it succeeds.
LEFT = {
    "tmpfs": ((0, 1400 << 10), (0, 300 << 10)),
    "ext4": ((0, 1400 << 10), (0, 300 << 10)),
    "ext3": ((0, 1400 << 10), (0, 440 << 10)),
    "inodes": ((0, 24), (0, 12)),
    "limit": ((1 << 10, 264 << 10), (1 << 10, 264 << 10)),
}
OPTIONS = {"ext3": ("-O", "^extent,^64bit"), "inodes": ("-N", "200")}
"""What mkfs makes of a disk; the others are as it likes."""
NO_SPACE = 7
# What must work on a disk that is full to the last byte; gc most of all.
ALWAYS = (("verify",), ("list",), ("show", "kept"), ("gc", "--yes"))


@dataclass(slots=True)
class Report:
    """What happened: (bed, how it ended) -> how often."""

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the report as text."""
        lines = [f"{bed:8}{n:5} {end}" for (bed, end), n in sorted(self.ends.items())]
        lines.append(f"{sum(self.ends.values())} imports")
        lines += (f"VIOLATION {violation}" for violation in self.violations)
        return [*lines, f"{len(self.violations)} violations"]


@dataclass(frozen=True, slots=True)
class Bed:
    """A place with a store, `kept` and the old `x` in it.

    Attributes:
        names: a word that the message must have.
        fill: makes the place too small: takes what is to be left.
        clear: makes it large again.
        prepare: done in the importing process, given what is left.
    """

    name: str
    names: str
    ingot: ForkedIngot
    sources: Path
    fill: Callable[[int], None]
    clear: Callable[[], None]
    prepare: Callable[[int], None]

    def run(self, left: int, report: Report, *, crowded: bool) -> None:
        """Import where there is only this much left, and judge; then with room."""
        x, kept = self.digests()
        self.fill(left)
        story = f"{self.name}, {left} left{', crowded' if crowded else ''}"
        replace = ("create", "x", str(self.sources / "three"))

        def prepare() -> None:
            self.prepare(left)
            if crowded:
                see_an_empty_disk()

        outcome = self.ingot.run(*replace, prepare=prepare)
        end = f"x exit {outcome.code}{', seen late' if crowded else ''}"
        report.ends[self.name, end] += 1
        found = self.judge(outcome, x, kept)
        found += (self.ingot.run(*words).problem(0) for words in ALWAYS)
        found.append(self.removal())
        self.clear()
        found.append(self.ingot.run(*replace).problem(0))
        found += check_store(self.ingot.store, reported={"kept": kept})
        # As it was, for the next one.
        found.append(self.ingot.run("create", "x", str(self.sources / "two")).problem(0))
        found.append(self.ingot.run("gc", "--yes").problem(0))
        found += check_store(self.ingot.store, reported={"kept": kept, "x": x}, after_gc=True)
        report.violations += (f"{story}: {problem}" for problem in found if problem)

    def judge(self, outcome: Outcome, x: str | None, kept: str | None) -> list[str | None]:
        """Judge an import and what it left."""
        found = [outcome.problem(0, NO_SPACE)]
        if outcome.code == NO_SPACE:
            now = manifest_digest(self.ingot.store, "x")
            if now != x:
                found.append(f"the tag was {x} and is {now}")
            if not re.search(rf"error: .*\d {self.names}.*\d", outcome.stderr):
                found.append(f"it names no {self.names}: {outcome.stderr!r}")
        tmp = self.ingot.store / "tmp"
        found += (f"tmp/{path.name} was left" for path in sorted(tmp.glob("*")))
        return [*found, *check_store(self.ingot.store, reported={"kept": kept or ""})]

    def removal(self) -> str | None:
        """Whoever has no space left must be able to remove."""
        return self.ingot.run("rm", "x").problem(0)

    def digests(self) -> tuple[str, str]:
        """The manifests of `x` and `kept`, which must be there."""
        found = [manifest_digest(self.ingot.store, name) for name in ("x", "kept")]
        x, kept = (digest or "missing" for digest in found)
        return x, kept


def see_an_empty_disk() -> None:
    """Make this process believe that there is room, as there was a moment ago."""
    from store.fs import FileSystem
    from store.status import Free

    FileSystem.free = lambda *_: Free(1 << 50, 4096, 1 << 40)  # type: ignore[method-assign]


@contextlib.contextmanager
def beds(scratch: Path, name: str) -> Iterator[Bed]:
    """Make a bed of one kind, with its store."""
    sources = scratch / "sources"
    write_sources(sources, COLUMNS)
    with _disk(scratch, name) as disk:
        ingot = ForkedIngot(disk / "store", scratch)
        for words in (("create", "kept", "one"), ("create", "x", "two")):
            problem = ingot.run(*words[:2], str(sources / words[2])).problem(0)
            if problem:
                raise RuntimeError(problem)
        fills = {"inodes": disks.leave_files, "limit": lambda *_: None}
        fill = fills.get(name, disks.leave_bytes)
        yield Bed(
            name,
            "files" if name == "inodes" else "bytes",
            ingot,
            sources,
            fill=lambda left: fill(disk, left),
            clear=lambda: disks.free_all(disk),
            prepare=_limit_files if name == "limit" else lambda _: None,
        )


def _disk(scratch: Path, name: str) -> contextlib.AbstractContextManager[Path]:
    if name == "limit":
        return contextlib.nullcontext(scratch)
    if name == "tmpfs":
        return disks.tmpfs(scratch, DISK_BYTES)
    return disks.ext4(scratch, DISK_BYTES, *OPTIONS.get(name, ()))


def _limit_files(nbytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes))


def run(bed: str, sizes: int = 64) -> Report:
    """Import in `sizes` sizes of one bed, each twice; the report has the violations."""
    load()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="ingot-full-") as place:
        scratch = Path(place).resolve()
        with beds(scratch, bed) as made:
            for number in range(sizes):
                for crowded, (least, most) in enumerate(LEFT[bed]):
                    left = least + (most - least) * number // max(1, sizes - 1)
                    made.run(left, report, crowded=bool(crowded))
    return report


def main() -> int:
    """Import where there is no room; exit 1 on any violation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--sizes", type=int, default=64)
    parser.add_argument("--bed", choices=BEDS)
    options = parser.parse_args()
    failed = False
    for bed in [options.bed] if options.bed else BEDS:
        why = {"limit": None, "tmpfs": disks.why_no_mount()}.get(bed, disks.why_no_loop())
        if why:
            print_lines([f"{bed}: skipped, {why}"])
            continue
        report = run(bed, options.sizes)
        print_lines(report.lines())
        failed |= bool(report.violations)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
