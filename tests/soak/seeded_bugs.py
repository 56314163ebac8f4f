"""Which layer of tests sees which mistake: plants each into a copy of the code and runs them.

    python tests/soak/seeded_bugs.py [--all] [--bug WORDS] [--layer X] [--jobs N] [--record]

Prints a table in Markdown, a row as soon as it is known: `x` is seen, `-` not seen, blank not
tried. Each layer is tried that is known to see a mistake, with `--all` every layer, which takes
hours. A mistake that no layer sees is a hole in the tests.

The test that saw a mistake last (`bugs/seen.json`, which `--record` writes) is run first, then
the file that tests the changed one, then all of the layer, which misses a mistake if it passes.
At the end, what saw a mistake has to pass without any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.soak.bugs import BUGS, Bug
from tests.soak.harness import REPOSITORY, print_lines

PYTEST = ("-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)
PASSED, TESTS_FAILED, NOT_THERE = 0, 1, (4, 5)
"""Exit codes of pytest; every other one says that it did not come to run tests."""
SEEN = Path(__file__).parent / "bugs" / "seen.json"
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
        ("tests/soak/syscalls.py", "--scenario", "cp over", "--every", "1", "--stop"),
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


class Sight(NamedTuple):
    """How a mistake was seen.

    Attributes:
        words: the command that failed.
        test: of pytest that did, or empty.
        told: its last lines.
    """

    words: tuple[str, ...]
    test: str
    told: str


class BrokenError(Exception):
    """Tests could not be run, so that nothing is known."""


def sight(words: tuple[str, ...], root: Path) -> Sight | None:
    """Return how a command fails on the code at `root`, or None where it passes.

    Raises:
        BrokenError: pytest has no such test, or ended before it ran one.
    """
    environment = {**os.environ, "PYTHONPATH": str(root)}
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
        return Sight(words, "", f"took more than {LONGEST_SECONDS} s")
    if done.returncode == PASSED:
        return None
    told = "\n".join([shlex.join(words), *done.stdout.splitlines()[-LAST_LINES:]])
    if is_pytest(words) and done.returncode != TESTS_FAILED:
        raise BrokenError(told)
    found = FAILED.search(done.stdout) if is_pytest(words) else None
    return Sight(words, found[1] if found else "", told)


def is_pytest(words: tuple[str, ...]) -> bool:
    return words[:2] == PYTEST[:2]


def likely(bug: Bug, layer: str, root: Path) -> Iterator[tuple[str, ...]]:
    """Yield the commands of a layer that are likely to see a mistake, the likeliest first."""
    words = [word for command in LAYERS[layer] if is_pytest(command) for word in command]
    if not words:
        return
    if test := json.loads(SEEN.read_text("utf-8")).get(bug.name, {}).get(layer):
        yield (*PYTEST, test)
    directory, _, name = bug.file.rpartition("/")
    near = f"tests/{directory}/test_{name}.py"
    hidden = [word.partition("=")[2] for word in words if word.startswith("--ignore")]
    is_of_layer = any(near.startswith(word) for word in words)
    if (root / near).exists() and is_of_layer and not near.startswith((*hidden, "-")):
        yield (*PYTEST, near)


def seen_by(bug: Bug, layer: str, root: Path) -> Sight | None:
    """Return how a layer sees the mistake that is in the code at `root`, or None."""
    for words in likely(bug, layer, root):
        try:
            if found := sight(words, root):
                return found
        except BrokenError:  # the test has another name now
            continue
    for words in LAYERS[layer]:
        if found := sight(words, root):
            return found
    return None


@contextlib.contextmanager
def copy_of_the_code() -> Iterator[Path]:
    """Yield a copy of the repository, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="ingot-bug-") as place:
        Path(place).chmod(0o755)  # some tests run as another user
        root = Path(place) / "copy"
        shutil.copytree(REPOSITORY, root, ignore=_hidden_above)
        yield root


def _hidden_above(directory: str, names: list[str]) -> list[str]:
    # Environments and caches; tests read pages and fixtures, some of which are hidden.
    above = Path(directory) == REPOSITORY
    return [name for name in names if above and name.startswith(".")]


def sights(bug: Bug, layers: Iterable[str]) -> dict[str, Sight | None]:
    """Say of each layer how it sees a mistake."""
    with copy_of_the_code() as root:
        bug.plant(root)
        return {layer: seen_by(bug, layer, root) for layer in layers}


def false_alarms(found: Iterable[Sight]) -> list[str]:
    """Return what those commands say that fail without any mistake, too."""
    found = list(found)
    tests = sorted({one.test for one in found if one.test})
    scripts = {one.words for one in found if not one.test}
    every = tuple(word for word in PYTEST if word != "-x")
    commands = [*sorted(scripts), *([(*every, *tests)] if tests else [])]
    with copy_of_the_code() as root:
        failing = (sight(words, root) for words in commands)
        return [one.told for one in failing if one is not None]


def record(found: dict[str, dict[str, Sight | None]]) -> None:
    """Note which test saw which mistake."""
    seen = json.loads(SEEN.read_text("utf-8"))
    for name, by_layer in found.items():
        tests = {layer: one.test for layer, one in by_layer.items() if one and one.test}
        if tests:
            seen[name] = {**seen.get(name, {}), **tests}
    known = {bug.name for bug in BUGS}
    kept = {name: seen[name] for name in sorted(seen) if name in known}
    SEEN.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main() -> int:
    """Plant mistakes and print which layers see them; 1 if a layer misses what it should."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--all", action="store_true", help="try every layer on each mistake")
    parser.add_argument("--bug", default="", help="only those whose name has these words")
    parser.add_argument("--layer", choices=LAYERS, help="try this one alone")
    parser.add_argument("--jobs", type=int, default=1, help="mistakes that are tried at once")
    parser.add_argument("--record", action="store_true", help="note which tests see them")
    options = parser.parse_args()
    layers = {
        bug: [one for one in bug.layers if options.layer in {None, one}]
        for bug in BUGS
        if options.bug in bug.name
    }
    bugs = [bug for bug, known in layers.items() if options.all or known]
    tried = [
        layer for layer in LAYERS if options.all or any(layer in layers[bug] for bug in bugs)
    ]
    print_lines([f"| mistake | {' | '.join(tried)} |", f"|---|{'---|' * len(tried)}"])
    found: dict[str, dict[str, Sight | None]] = {}
    missed: list[str] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        those = pool.map(lambda bug: sights(bug, tried if options.all else layers[bug]), bugs)
        for bug, told in zip(bugs, those, strict=True):
            found[bug.name] = told
            marks = ["" if layer not in told else "-x"[bool(told[layer])] for layer in tried]
            print_lines([f"| {bug.name} | {' | '.join(marks)} |"])
            missed += [f"{bug.name} by {layer}" for layer in layers[bug] if not told[layer]]
            if options.record:
                record(found)
    every = [one for told in found.values() for one in told.values() if one]
    alarms = false_alarms(every)
    for told in alarms:
        print_lines([f"fails without any mistake: {told}", ""])
    pairs = sum(len(told) for told in found.values())
    said = f"{len(bugs)} mistakes, {pairs} times shown to a layer, {len(every)} times seen"
    print_lines([f"{said}; not seen: {', '.join(missed) or 'none'}"])
    return int(bool(missed or alarms))


if __name__ == "__main__":
    sys.exit(main())
