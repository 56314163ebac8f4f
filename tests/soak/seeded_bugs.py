"""Which layer of tests sees which mistake: plants each into a copy of the code and runs them.

    python tests/soak/seeded_bugs.py [--all] [--bug WORDS]

Prints a table in Markdown, a row as soon as it is known: `x` is seen, `-` not seen, blank not
tried. Each layer is tried that is known to see a mistake, with `--all` every layer, which takes
hours. A mistake that no layer sees is a hole in the tests.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.soak.bugs import BUGS, Bug
from tests.soak.harness import REPOSITORY, print_lines

PYTEST = ("-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider")
LONGEST_SECONDS = 900
LAST_LINES = 15
OF_DOWNLOADS = "tests/hub/test_transfer.py"
OF_IMPORTS = tuple(
    f"tests/importer/{name}.py"
    for name in (
        "verification/test_repair",
        "engine/test_reuse",
        "verification/test_compare",
        "sources/test_tree",
        "engine/test_space",
    )
)
# Layer of docs/reliability.md -> what runs a few seconds of it, each its own process.
LAYERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "A": ((*PYTEST, "tests/store/test_crash.py"),),
    # A few of each, and all around one manifest.
    "B": (
        ("tests/soak/syscalls.py", "--every", "60", "--stop"),
        ("tests/soak/syscalls.py", "--scenario", "cp over", "--every", "2", "--stop"),
    ),
    "C": (
        ("tests/soak/kills.py", "--kills", "12", "--seed", "1"),
        ("tests/soak/kills.py", "--kills", "6", "--seed", "1", "--signal", "TERM"),
    ),
    "D": (("tests/soak/power_cut.py", "--cuts", "6", "--seed", "1"),),
    "E": (("tests/soak/full_disk.py", "--sizes", "3"),),
    "F": (("tests/soak/bit_rot.py", "--rounds", "2", "--seed", "1"),),
    "G": ((*PYTEST, "tests/cli/test_read_only_stores.py"),),
    "H": (("tests/soak/concurrency.py", "--seconds", "10", "--seed", "1"),),
    "I": ((*PYTEST, "tests/store/test_races.py"),),
    "J": ((*PYTEST, "tests/cli/test_held_locks.py", "tests/store/test_lock.py"),),
    "K": ((*PYTEST, "tests/fuzz"),),
    # What no layer of its own tries, by package; arithmetic has its own judges.
    "store": (
        (
            *PYTEST,
            "tests/store",
            "--deselect=tests/store/test_crash.py",
            "--deselect=tests/store/test_races.py",
            "--deselect=tests/store/test_seeded_bugs.py",
            "--deselect=tests/store/test_lock.py",
        ),
    ),
    # First the quick ones of what repairs, reuses and goes on.
    "importer": (
        (*PYTEST, *OF_IMPORTS),
        (
            *PYTEST,
            "tests/importer",
            "--ignore=tests/importer/codecs",
            *(f"--deselect={path}" for path in OF_IMPORTS),
        ),
    ),
    "cli": (
        (
            *PYTEST,
            "tests/cli",
            "--deselect=tests/cli/test_held_locks.py",
            "--deselect=tests/cli/test_read_only_stores.py",
        ),
    ),
    "hub": (
        (*PYTEST, OF_DOWNLOADS),
        (*PYTEST, "tests/hub", f"--deselect={OF_DOWNLOADS}"),
    ),
}


def failure(layer: str, root: Path) -> str:
    """What a layer says when it fails on the code at `root`; empty when it passes."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    for words in LAYERS[layer]:
        try:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=root,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                timeout=LONGEST_SECONDS,
            )
        except subprocess.TimeoutExpired:  # a test that hangs fails, too
            return f"{shlex.join(words)}\ntook more than {LONGEST_SECONDS} s"
        if done.returncode:
            last = done.stdout.splitlines()[-LAST_LINES:]
            return "\n".join([shlex.join(words), *last])
    return ""


def failures(bug: Bug | None, layers: Iterable[str]) -> dict[str, str]:
    """Say of each layer how it fails on a mistake, or without any for None."""
    with tempfile.TemporaryDirectory(prefix="ingot-bug-") as place:
        Path(place).chmod(0o755)  # some tests run as another user
        root = Path(place) / "copy"
        shutil.copytree(REPOSITORY, root, ignore=_hidden_above)
        if bug is not None:
            bug.plant(root)
        return {layer: failure(layer, root) for layer in layers}


def _hidden_above(directory: str, names: list[str]) -> list[str]:
    # Environments and caches; tests read pages and fixtures, some of which are hidden.
    above = Path(directory) == REPOSITORY
    return [name for name in names if above and name.startswith(".")]


def main() -> int:
    """Plant mistakes and print which layers see them; 1 if a layer misses what it should."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--all", action="store_true", help="try every layer on each mistake")
    parser.add_argument("--bug", default="", help="only those whose name has these words")
    options = parser.parse_args()
    bugs = [bug for bug in BUGS if options.bug in bug.name]
    tried = [
        layer for layer in LAYERS if options.all or any(layer in bug.layers for bug in bugs)
    ]
    failing = {layer: told for layer, told in failures(None, tried).items() if told}
    for layer, told in failing.items():
        print_lines([f"layer {layer} fails without any mistake: {told}", ""])
    if failing:
        return 1
    print_lines([f"| mistake | {' | '.join(tried)} |", f"|---|{'---|' * len(tried)}"])
    missed = []
    for bug in bugs:
        told = failures(bug, tried if options.all else bug.layers)
        seen = {layer: bool(text) for layer, text in told.items()}
        marks = ["" if layer not in seen else "-x"[seen[layer]] for layer in tried]
        print_lines([f"| {bug.name} | {' | '.join(marks)} |"])
        missed += [f"{bug.name} by {layer}" for layer in bug.layers if not seen[layer]]
    print_lines([f"{len(bugs)} mistakes; not seen: {', '.join(missed) or 'none'}"])
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
