"""Fuzz one or all targets with atheris, guided by coverage; `make soak` runs this.

`python tests/fuzz/run.py [TARGET…] [--runs N] [--jobs N]`; each target runs in a process of its
own, as many at once as there are cores. What breaks it is in a file that libFuzzer names.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEFAULT_RUNS = 1_000_000
# What the store itself writes; these open a database or make directories for each input.
RUNS = dict.fromkeys(("memo", "origin", "pins", "record", "recipe_document"), 100_000)
# A database has pages, a blob and a vocabulary their seeds; everything else is found in less,
# and graphs and layers in far less.
LARGEST = {"memo": 8192, "export_vocabulary": 8192, "export_blob": 16384}
LARGEST |= {"onnx": 1024, "onnx_tensor": 512, "packed_layer": 512, "quant_state": 512}
LARGEST |= {"gguf-apart": 2560, "uqff": 2048, "uqff_layer": 1024}
DEFAULT_LARGEST = 4096
# The modules whose branches guide a target, where those around them have targets of their own:
# a module that is watched takes twice as long, and fills the corpus with what it is not about.
WATCHED = {
    "gguf-apart": ("importer.formats.gguf_names", "importer.sources.containers"),
    "onnx": ("importer.formats.onnx", "importer.sources.schemes.onnx", "importer.codecs"),
    "packed_layer": ("importer.sources.schemes.gptq", "importer.codecs.gptq"),
    "quant_state": ("importer.sources.schemes.bitsandbytes", "importer.codecs.bitsandbytes"),
    "uqff": ("importer.formats.uqff", "importer.sources.schemes.uqff", "importer.codecs"),
}
WATCHED |= {"onnx_tensor": WATCHED["onnx"], "uqff_layer": WATCHED["uqff"]}
DEFAULT_WATCHED = ("store", "importer")
# ext4 flushes a file that is written again when it is closed: from memory, the targets that
# write a file for each input run 10 to 100 times as often.
MEMORY = Path("/dev/shm")
# libFuzzer's own limit is of the clock on the wall, which a process that is paused exceeds with
# nothing wrong: it is there for an input that never ends and never returns to Python.
SECONDS_OF_CPU, SECONDS_AT_ALL = 20, 86_400


def main() -> None:
    """Run the targets that were asked for; exit 1 when one breaks."""
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        fuzz(options.inside, options.runs)
        return
    from tests.fuzz.targets import TARGETS

    asked = {
        target: options.runs or RUNS.get(target, DEFAULT_RUNS)
        for target in options.targets or TARGETS
    }
    with ThreadPoolExecutor(options.jobs) as pool:
        passed = list(pool.map(run, asked, asked.values()))
    sys.exit(0 if all(passed) else 1)


def run(target: str, runs: int) -> bool:
    """Run one target in a process of its own, and say how it went."""
    argv = [sys.executable, __file__, "--inside", target, "--runs", str(runs)]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as scratch:
        env = os.environ | {"TMPDIR": scratch}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    executed = f"Done {runs}" in done.stderr
    how = f"ok, {runs / (time.monotonic() - started):.0f}/s" if executed else "BROKEN"
    # Python says why on stdout.
    why = "" if executed else f"\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    print(f"{target}: {runs} runs, {how}{why}", flush=True)
    return executed


def fuzz(target: str, runs: int) -> None:
    """Run one target in this process; libFuzzer ends it."""
    import atheris

    watched = WATCHED.get(target, DEFAULT_WATCHED)

    with atheris.instrument_imports(include=list(watched)):
        from tests.fuzz.seeds import SEEDS
        from tests.fuzz.targets import TARGETS

    corpus = Path(tempfile.mkdtemp(prefix=f"corpus-{target}-"))
    for number, seed in enumerate(SEEDS[target]):
        (corpus / str(number)).write_bytes(seed)
    largest = LARGEST.get(target, DEFAULT_LARGEST)
    limits = [f"-runs={runs}", f"-max_len={largest}", f"-timeout={SECONDS_AT_ALL}"]
    check = TARGETS[target]

    def timed(data: bytes) -> None:
        signal.setitimer(signal.ITIMER_PROF, SECONDS_OF_CPU)
        check(bytes(data))

    signal.signal(signal.SIGPROF, took_too_long)
    atheris.Setup([sys.argv[0], str(corpus), *limits], timed)
    atheris.Fuzz()


def took_too_long(*_: object) -> None:
    """Break the input that runs, where it is."""
    message = f"an input took {SECONDS_OF_CPU} seconds of CPU time"
    raise AssertionError(message)


if __name__ == "__main__":
    main()
