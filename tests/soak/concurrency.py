"""Creates, copies, removals, verifies and gcs of one store, all at once, as real processes.

    python tests/soak/concurrency.py [--seconds 60] [--command .venv/bin/ingot]

What is promised: no command fails, none waits for ever, `verify` never finds anything, and
at the end every model that was reported as created is there, with the bytes of its source.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.check_store import (
    TENSOR,
    check_store,
    check_tensor_blob,
    file_sha256,
    manifest_digest,
    manifest_path,
    parse_json,
)
from tests.soak.harness import (
    Ingot,
    Outcome,
    Source,
    command_argv,
    print_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NAMES = ("soak-a", "soak-b", "soak-c", "soak-victim")
VICTIM = NAMES[-1]  # the one that `rm` may take from under its creator
COPIES = ("copy-a", "copy-b:v1", "team/copy-c")
MAX_VIOLATIONS = 20
NOT_FOUND = 9


@dataclass(slots=True)
class Report:
    """What the loops saw; all of them write to it.

    Attributes:
        seconds: command -> latency of each run.
        codes: command -> exit code -> how often.
        reported: name -> manifest digest of the last successful create.
        ever_reported: digests of all successful creates.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    codes: dict[str, dict[int, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )
    violations: list[str] = field(default_factory=list)
    reported: dict[str, str] = field(default_factory=dict)
    ever_reported: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, outcome: Outcome, *allowed: int) -> bool:
        """Count one run; return whether it ended in one of the codes `allowed`."""
        command, problem = outcome.argv[0], outcome.problem(*allowed)
        with self.lock:
            self.seconds[command].append(outcome.seconds)
            self.codes[command][outcome.code] += 1
        self.complain([problem] if problem else [])
        return problem is None

    def complain(self, violations: Iterable[str]) -> None:
        """Note violations."""
        with self.lock:
            self.violations += violations

    def lines(self) -> list[str]:
        """Return the report as text."""
        lines = []
        for command, seconds in sorted(self.seconds.items()):
            codes = ", ".join(f"{n} x exit {c}" for c, n in sorted(self.codes[command].items()))
            mean = sum(seconds) / len(seconds)
            lines.append(
                f"{command:8}{len(seconds):6} runs, mean {mean:5.2f} s, "
                f"max {max(seconds):5.2f} s   ({codes})"
            )
        lines += (f"VIOLATION {violation}" for violation in self.violations)
        return [*lines, f"{len(self.violations)} violations"]


@dataclass(frozen=True, slots=True)
class Soak:
    """One soak of one store."""

    ingot: Ingot
    report: Report
    deadline: float

    def is_over(self) -> bool:
        """Time is up, or it is hopeless."""
        return time.monotonic() > self.deadline or len(self.report.violations) >= MAX_VIOLATIONS

    def create(self, name: str, source: Source) -> None:
        """Create one model; it must succeed and, unless it can be removed, be there whole."""
        outcome = self.ingot.run("create", name, str(source.directory))
        if not self.report.add(outcome, 0):
            return
        digest = outcome.reported_digest()
        if digest is None:
            self.report.complain([f"create {name} printed no digest: {outcome.stdout!r}"])
            return
        with self.report.lock:
            self.report.reported[name] = digest
            self.report.ever_reported.add(digest)
        if name != VICTIM:
            try:
                self.report.complain(self._differences(name, digest, source))
            except (OSError, ValueError, LookupError, TypeError) as error:
                self.report.complain([f"created {name} is not readable: {error!r}"])

    def create_loop(self, name: str, source: Source) -> None:
        """Import a source that changes each time."""
        while not self.is_over():
            source.change()
            self.create(name, source)

    def verify_loop(self) -> None:
        """A store in use is a store without findings; `list` must survive as well."""
        while not self.is_over():
            outcome = self.ingot.run("verify", "--json")
            if self.report.add(outcome, 0):
                self.report.complain(verify_findings(outcome))
            outcome = self.ingot.run("list", "--json")
            if self.report.add(outcome, 0):
                self.report.complain(_bad_json(outcome))

    def gc_loop(self) -> None:
        """Collect without a pause."""
        while not self.is_over():
            self.report.add(self.ingot.run("gc", "--yes"), 0)

    def copy_loop(self, rng: random.Random) -> None:
        """Copy any model over any copy; it may just have been removed."""
        while not self.is_over():
            target = rng.choice(COPIES)
            model = rng.choice([name for name in NAMES + COPIES if name != target])
            outcome = self.ingot.run("cp", model, target)
            self.report.add(outcome, 0, NOT_FOUND)

    def remove_loop(self, rng: random.Random) -> None:
        """Remove copies and the victim; they may not be there."""
        while not self.is_over():
            outcome = self.ingot.run("rm", rng.choice((*COPIES, VICTIM)))
            self.report.add(outcome, 0, NOT_FOUND)

    def _differences(self, name: str, digest: str, source: Source) -> list[str]:
        """Compare what was just created under `name` with its source, byte for byte."""
        store = self.ingot.store
        if (found := manifest_digest(store, name)) != digest:
            return [f"create {name} reported {digest}, but the manifest is {found}"]
        if self.ingot.create_options:
            return []
        want = source.payload_sha256()
        got: dict[str, str] = {}
        for layer in parse_json(manifest_path(store, name).read_bytes())["layers"]:
            if layer["mediaType"] == TENSOR:
                blob = store / "blobs" / layer["digest"].replace(":", "-")
                got |= tensor_sha256(blob, layer["name"])
        wrong = sorted(key for key in want | got if want.get(key) != got.get(key))
        return [f"{name} differs from its source in {wrong}"] if wrong else []


def tensor_sha256(blob: Path, name: str) -> dict[str, str]:
    """Return tensor -> SHA-256 of its bytes, for the tensors of one blob."""
    content = blob.read_bytes()
    data = memoryview(content)[8 + int.from_bytes(content[:8], "little") :]
    spans = {key: entry["data_offsets"] for key, entry in check_tensor_blob(blob, name).items()}
    return {
        key: hashlib.sha256(data[begin:end]).hexdigest() for key, (begin, end) in spans.items()
    }


def verify_findings(outcome: Outcome) -> list[str]:
    """Return what `verify --json` found, or that it has no list `findings`."""
    try:
        findings = json.loads(outcome.stdout)["findings"]
    except (ValueError, KeyError, TypeError) as error:
        return [f"verify --json: {error!r} in {outcome.stdout[:300]!r}"]
    return [f"verify found {finding}" for finding in findings]


def run(
    seconds: float = 60,
    *,
    argv: tuple[str, ...] | None = None,
    seed: int = 0,
    create_options: tuple[str, ...] = (),
) -> Report:
    """Soak a fresh store for `seconds` and judge it; the report has the violations."""
    with tempfile.TemporaryDirectory(prefix="ingot-soak-") as scratch:
        root = Path(scratch)
        sources = {
            name: Source(root / "sources" / name, random.Random(f"{seed}/{name}"))
            for name in NAMES
        }
        ingot = Ingot(argv or command_argv(None), root / "store", create_options)
        report = Report()
        for name in NAMES:
            Soak(ingot, report, time.monotonic()).create(name, sources[name])
        soak = Soak(ingot, report, time.monotonic() + seconds)
        _run_together(
            *(lambda name=name: soak.create_loop(name, sources[name]) for name in NAMES),
            soak.gc_loop,
            soak.verify_loop,
            lambda: soak.copy_loop(random.Random(f"{seed}/cp")),
            lambda: soak.remove_loop(random.Random(f"{seed}/rm")),
        )
        _judge(soak)
        return soak.report


def _run_together(*loops: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guard(loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as failure:  # noqa: BLE001 - a thread's failure is the soak's
            failures.append(failure)

    threads = [threading.Thread(target=guard, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _judge(soak: Soak) -> None:
    """Judge the store at rest, before and after a last gc."""
    store, report = soak.ingot.store, soak.report
    reported = dict(report.reported)
    if manifest_digest(store, VICTIM) is None:
        reported.pop(VICTIM, None)
    report.complain(check_store(store, reported=reported))
    # Nobody was killed, so everybody has tidied up.
    report.complain(f"tmp/{path.name} was left behind" for path in (store / "tmp").glob("*"))
    for path in sorted((store / "manifests").rglob("*")):
        if path.is_file() and f"sha256:{file_sha256(path)}" not in report.ever_reported:
            report.complain([f"{path.relative_to(store)} is no manifest that was created"])
    report.add(soak.ingot.run("gc", "--yes"), 0)
    report.complain(check_store(store, reported=reported, after_gc=True))
    last = soak.ingot.run("verify", "--json")
    if report.add(last, 0):
        report.complain(verify_findings(last))


def _bad_json(outcome: Outcome) -> list[str]:
    try:
        json.loads(outcome.stdout)
    except ValueError as error:
        return [f"{outcome.argv}: {error!r} in {outcome.stdout[:300]!r}"]
    return []


def main() -> int:
    """Soak one store with everything at once; exit 1 on any violation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--quantize", metavar="TYPE", help="passed to every create")
    parser.add_argument("--command", help="default: this Python with -m cli")
    options = parser.parse_args()
    create_options = ("--quantize", options.quantize) if options.quantize else ()
    print_lines([f"seed {options.seed}, {options.seconds:g} s"])
    report = run(
        options.seconds,
        argv=command_argv(options.command),
        seed=options.seed,
        create_options=create_options,
    )
    print_lines(report.lines())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
