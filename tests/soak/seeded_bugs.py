"""Which layer of tests sees which mistake: plants each into a copy of the code and runs them.

    python tests/soak/seeded_bugs.py [--all] [--bug WORDS]

Prints a table in Markdown, a row as soon as it is known: `x` is seen, `-` not seen, blank not
tried. Each layer is tried that is known to see a mistake, with `--all` every layer, which takes
hours. A mistake that no layer sees is a hole in the tests.
"""

from __future__ import annotations

import argparse
import os
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
COPIED = ("cli", "importer", "store", "fixtures", "tests", "pyproject.toml")
LONGEST_SECONDS = 900
# Layer of docs/reliability.md -> what runs a few seconds of it, each its own process.
LAYERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "A": ((*PYTEST, "tests/store/test_crash.py"),),
    "B": (("tests/soak/syscalls.py", "--every", "120", "--stop"),),
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
    "units": (
        (
            *PYTEST,
            "tests/store",
            "tests/importer",
            "tests/cli",
            "--deselect=tests/store/test_crash.py",
            "--deselect=tests/store/test_races.py",
            "--deselect=tests/store/test_seeded_bugs.py",
            "--deselect=tests/store/test_lock.py",
            "--deselect=tests/cli/test_held_locks.py",
            "--deselect=tests/cli/test_read_only_stores.py",
        ),
    ),
}


def sees(layer: str, root: Path) -> bool:
    """Whether a layer fails on the code at `root`."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    for words in LAYERS[layer]:
        try:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=root,
                env=environment,
                capture_output=True,
                check=False,
                timeout=LONGEST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return True  # a test that hangs fails, too
        if done.returncode:
            return True
    return False


def planted(bug: Bug | None, layers: Iterable[str]) -> dict[str, bool]:
    """Say of each layer whether it sees a mistake, or fails without any for None."""
    with tempfile.TemporaryDirectory(prefix="ingot-bug-") as place:
        root = Path(place)
        for name in COPIED:
            source = REPOSITORY / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, root / name)
        if bug is not None:
            bug.plant(root)
        return {layer: sees(layer, root) for layer in layers}


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
    failing = [layer for layer, fails in planted(None, tried).items() if fails]
    if failing:
        print_lines([f"without any mistake these layers fail: {', '.join(failing)}"])
        return 1
    print_lines([f"| mistake | {' | '.join(tried)} |", f"|---|{'---|' * len(tried)}"])
    missed = []
    for bug in bugs:
        seen = planted(bug, tried if options.all else bug.layers)
        marks = ["" if layer not in seen else "-x"[seen[layer]] for layer in tried]
        print_lines([f"| {bug.name} | {' | '.join(marks)} |"])
        missed += [f"{bug.name} by {layer}" for layer in bug.layers if not seen[layer]]
    print_lines([f"{len(bugs)} mistakes; not seen: {', '.join(missed) or 'none'}"])
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
