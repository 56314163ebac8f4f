"""Blobs that rot, shrink, grow or turn into something else: all found, named and healed.

    python tests/soak/bit_rot.py [--rounds 12] [--seed N]

Three models share some of 200 blobs. In each round every blob is damaged in one way, and in
the next round in another. `verify` must find exactly these, say how, and name every model
that is concerned; creating the models again must heal them, also where nobody verified.

Where there are loop devices, bits are also flipped in the image below the file system: no
inode knows of it, so the store's memory of what it wrote is no help against it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.check_store import check_store, manifest_path
from tests.importer.builders import model
from tests.soak import disks
from tests.soak.forked import ForkedIngot, load
from tests.soak.harness import print_lines
from tests.soak.rot import DAMAGES

TENSORS = 130  # in each source, of which they share 60
SHARED = 60
FOUND = 5
IMAGE_BYTES = 24 << 20


@dataclass(slots=True)
class Report:
    """What was damaged, (damage, what verify called it) -> how often."""

    found: Counter[tuple[str, str]] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    @property
    def damages(self) -> int:
        """How many blobs were damaged."""
        return sum(self.found.values())

    def lines(self) -> list[str]:
        """Return the report as text."""
        lines = [
            f"{n:5} x {how}: found as `{told}`" for (how, told), n in sorted(self.found.items())
        ]
        lines.append(f"{self.damages} damaged blobs")
        lines += (f"VIOLATION {violation}" for violation in self.violations[:40])
        return [*lines, f"{len(self.violations)} violations"]


@dataclass(slots=True)
class Rot:
    """A store, what it was made from, and who damages it.

    Attributes:
        outside: where links lead to; nothing in it may change.
    """

    ingot: ForkedIngot
    sources: Path
    outside: Path
    rng: random.Random
    report: Report

    def create(self, *options: str) -> None:
        """Create the models, for the first time or to heal them."""
        for name in ("one", "two"):
            outcome = self.ingot.run("create", name, str(self.sources / name), *options)
            self.complain([outcome.problem(0)])
        self.complain([self.ingot.run("cp", "one", "team/copy:v1").problem(0)])

    def blobs(self) -> list[Path]:
        """The blobs, in the order of their digests."""
        return sorted((self.ingot.store / "blobs").iterdir())

    def users(self) -> dict[str, set[str]]:
        """Which models name a blob: file name -> names as `verify` writes them."""
        users: dict[str, set[str]] = defaultdict(set)
        names = {"one": "one:latest", "two": "two:latest", "team/copy:v1": "team/copy:v1"}
        for name, shown in names.items():
            document = json.loads(manifest_path(self.ingot.store, name).read_bytes())
            for layer in (document["config"], *document["layers"]):
                users[layer["digest"].replace(":", "-")].add(shown)
        return users

    def round(self, number: int) -> None:
        """Damage every blob, verify, heal; in odd rounds heal what nobody has noticed."""
        damaged = {}
        for index, blob in enumerate(self.blobs()):
            how = list(DAMAGES)[(index + number) % len(DAMAGES)]
            damage, problem = DAMAGES[how]
            blob.chmod(0o600)
            damage(blob, self.rng, self.outside)
            damaged[blob.name] = (how, problem)
        kept = self.outside_content()
        if number % 2 == 0:
            self.check(damaged)
        self.create()
        self.judge(f"round {number}")
        if self.outside_content() != kept:
            self.complain([f"round {number}: what links lead to was changed"])

    def check(self, damaged: dict[str, tuple[str, str]]) -> None:
        """Compare what `verify` finds with what was damaged."""
        outcome = self.ingot.run("verify", "--json")
        self.complain([outcome.problem(FOUND)])
        found = {
            finding["subject"].replace(":", "-"): finding
            for finding in json.loads(outcome.stdout)["findings"]
        }
        users = self.users()
        for name, (how, problem) in damaged.items():
            finding = found.pop(name, None)
            told = finding["problem"] if finding else "nothing"
            self.report.found[how, told] += 1
            if told != problem:
                self.complain([f"{how}: blob {name} was found as {told}, not {problem}"])
            if finding and set(finding["models"]) != users[name]:
                self.complain([f"{how}: {finding['models']} named, not {users[name]}"])
        self.complain([f"{name} was not damaged: {finding}" for name, finding in found.items()])

    def judge(self, story: str) -> None:
        """Judge a healed store."""
        found = [self.ingot.run("verify").problem(0), *check_store(self.ingot.store)]
        found.append(self.ingot.run("gc", "--yes").problem(0))
        found += check_store(self.ingot.store, after_gc=True)
        self.complain([f"{story}, healed: {problem}" for problem in found if problem])

    def outside_content(self) -> dict[str, bytes]:
        """What is outside of the store."""
        return {path.name: path.read_bytes() for path in self.outside.iterdir()}

    def complain(self, problems: list[str | None] | list[str]) -> None:
        """Note violations."""
        self.report.violations += (problem for problem in problems if problem)


def write_sources(directory: Path) -> None:
    """Write two sources of many small tensors that share some."""
    for number, name in enumerate(("one", "two")):
        own = range(SHARED, TENSORS)
        names = [f"shared.{n}.weight" for n in range(SHARED)]
        names += [f"own.{number}.{n}.weight" for n in own]
        model(directory / name, dict.fromkeys(names, ("F32", (8, 8))))


def run(rounds: int = 12, *, seed: int = 0) -> Report:
    """Damage every blob of a store `rounds` times; the report has the violations."""
    load()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="ingot-rot-") as place:
        rot = _rot(Path(place), Path(place), seed, report)
        for number in range(rounds):
            rot.round(number)
    return report


def run_below(*, seed: int = 0) -> Report:
    """Flip a bit of every blob in the image of an unmounted file system."""
    load()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="ingot-rot-") as place:
        scratch = Path(place)
        with disks.ext4(scratch, IMAGE_BYTES) as disk:
            rot = _rot(scratch, disk, seed, report)
            for heals in ((), ("--rehash",)):
                damaged = _flip_below(rot, scratch / "image", disk)
                if not heals:  # with it, nobody has to have verified before
                    rot.check(damaged)
                rot.create(*heals)
                rot.judge(f"below, {heals}")
    return report


def _rot(scratch: Path, disk: Path, seed: int, report: Report) -> Rot:
    sources, outside = scratch / "sources", scratch / "outside"
    write_sources(sources)
    outside.mkdir()
    ingot = ForkedIngot(disk / "store", scratch)
    rot = Rot(ingot, sources, outside, random.Random(seed), report)
    rot.create()
    return rot


def _flip_below(rot: Rot, image: Path, disk: Path) -> dict[str, tuple[str, str]]:
    contents = {blob.name: blob.read_bytes() for blob in rot.blobs()}
    disks.shell("umount", str(disk))
    try:
        whole = image.read_bytes()
        with image.open("r+b") as file:
            for content in contents.values():
                index = rot.rng.randrange(len(content))
                # Where the blob is, and where an earlier one of the same content was.
                place = whole.find(content)
                while place >= 0:
                    file.seek(place + index)
                    file.write(bytes([content[index] ^ (1 << rot.rng.randrange(8))]))
                    place = whole.find(content, place + 1)
    finally:
        disks.mount(image, disk)
    return dict.fromkeys(contents, ("a bit flipped below", "digest"))


def main() -> int:
    """Damage blobs in every way and judge what verify and create do; 1 on any violation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    reports = [run(options.rounds, seed=options.seed)]
    if why := disks.why_no_loop():
        print_lines([f"below the file system: skipped, {why}"])
    else:
        reports.append(run_below(seed=options.seed))
    for report in reports:
        print_lines(report.lines())
    return int(any(report.violations for report in reports))


if __name__ == "__main__":
    sys.exit(main())
