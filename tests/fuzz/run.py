"""Fuzz one or all targets with atheris, guided by coverage; `make soak` runs this.

`python tests/fuzz/run.py [TARGET…] [--runs N]`; each target runs in a process of its own, and
what breaks it is left in a file that libFuzzer names.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS = {"header": 1_000_000}
DEFAULT_RUNS = 100_000
# A database has pages; everything else is found in less.
LARGEST = {"memo": 8192}
DEFAULT_LARGEST = 4096


def main() -> None:
    """Run the targets that were asked for; exit 1 when one breaks."""
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        fuzz(options.inside, options.runs)
        return
    from tests.fuzz.targets import TARGETS

    broken = []
    for target in options.targets or TARGETS:
        runs = options.runs or RUNS.get(target, DEFAULT_RUNS)
        argv = [sys.executable, __file__, "--inside", target, "--runs", str(runs)]
        started = time.monotonic()
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        executed = f"Done {runs} runs" in done.stderr or f"Done {runs}" in done.stderr
        rate = runs / (time.monotonic() - started)
        how = f"ok, {rate:.0f}/s" if executed else "BROKEN"
        print(f"{target}: {runs} runs, {how}", flush=True)
        if not executed:
            broken.append(target)
            print(done.stdout[-2000:], done.stderr[-2000:])  # Python says why on stdout
    sys.exit(1 if broken else 0)


def fuzz(target: str, runs: int) -> None:
    """Run one target in this process; libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["store", "importer"]):
        from tests.fuzz.seeds import SEEDS
        from tests.fuzz.targets import TARGETS

    corpus = Path(tempfile.mkdtemp(prefix=f"corpus-{target}-"))
    for number, seed in enumerate(SEEDS[target]):
        (corpus / str(number)).write_bytes(seed)
    largest = LARGEST.get(target, DEFAULT_LARGEST)
    argv = [sys.argv[0], str(corpus), f"-runs={runs}", f"-max_len={largest}", "-timeout=20"]
    atheris.Setup(argv, lambda data: TARGETS[target](bytes(data)))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
