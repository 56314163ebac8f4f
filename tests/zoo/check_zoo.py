"""Import every specimen of the zoo, and compare what is stored with what was saved.

    python tests/zoo/check_zoo.py [--keep DIR] [--only NAME] [--command '.venv/bin/ingot']

Tensors, shapes, dtypes, bytes, groups, kept files and what `show` says of them must be what
`readers` finds in the source, which shares no code with ingot.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.check_store import check_store
from tests.zoo import float8
from tests.zoo.judged import JudgedRow, million, note, versions
from tests.zoo.make_zoo import ZOO, make
from tests.zoo.readers import NAMESPACE, Checkpoint, read_source, read_stored

LIBRARIES: Final = ("transformers", "diffusers", "safetensors", "torch")
ROW: Final = "{:24}{:43}{:13}{:>8}{:>7}{:>6}{:>9}  {}"
FLOATING: Final = ("F", "BF", "C")
UNSUPPORTED: Final = 4
"""What ingot exits with when it refuses a scheme."""
SHOWN: Final = 10
"""Differences of one specimen that are printed; all are counted."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one specimen."""

    name: str
    stored: Checkpoint
    differences: list[str]


class Ingot:
    """The command, and a store.

    Attributes:
        failures: a line for each command that did not exit with what was expected.
    """

    def __init__(self, argv: Sequence[str], store: Path) -> None:
        self.argv = argv
        self.store = store
        self.failures: list[str] = []

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a subcommand and return its standard output.

        Args:
            code: that it has to exit with.
        """
        done = subprocess.run(
            [*self.argv, *arguments, "--store", str(self.store)],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != code:
            said = " / ".join((done.stderr or done.stdout).split("\n")).strip()
            how = f"exits {done.returncode}, expected {code}: {said}"
            self.failures.append(f"`ingot {shlex.join(arguments)}` {how}")
        return done.stdout

    def document(self, *arguments: str) -> dict[str, Any]:
        """Run a subcommand with `--json`; the document is empty when it failed."""
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(self.run(*arguments, "--json"))
        return {}


def check(name: str, source: Path, ingot: Ingot) -> Result:
    """Import one source and compare."""
    variant = ZOO[name].imported
    ingot.failures = []
    options = ("--variant", variant) if variant else ()
    code = UNSUPPORTED if ZOO[name].is_refused else 0
    reported = ingot.run("create", name, str(source), *options, code=code)
    if ingot.failures or ZOO[name].is_refused:
        return Result(name, Checkpoint(), ingot.failures)
    expected, stored = read_source(source, variant), read_stored(ingot.store, name)
    manifest = (ingot.store / NAMESPACE / name / "latest").read_bytes()
    said = f"{name}:latest sha256:{hashlib.sha256(manifest).hexdigest()}\n"
    differences = [
        *stored.problems,
        *_compare("create", {"stdout": said}, {"stdout": reported}),
        *_compare("tensor", expected.tensors, stored.tensors),
        *_compare("group of", expected.groups, stored.groups),
        *_compare("file", expected.files, stored.files),
    ]
    ingot.run("verify", name)
    compared = ingot.document("verify", name, "--source", str(source)).get("source", {})
    wanted = {"tensors": len(expected.tensors), "files": len(expected.files)}
    differences += _compare("verify --source", wanted, compared, subset=True)
    ingot.run("show", name)
    shown = ingot.document("show", name)
    if shown:
        differences += _compare("show", _facts(name, expected), _shown_facts(shown))
    return Result(name, stored, differences + ingot.failures)


def _compare(
    what: str, expected: Mapping[str, Any], found: Mapping[str, Any], *, subset: bool = False
) -> list[str]:
    """Say where two mappings differ; with `subset`, more in `found` is no difference."""
    differences = [f"{what} {key} is missing" for key in sorted(expected.keys() - found)]
    if not subset:
        differences += [f"{what} {key} is extra" for key in sorted(found.keys() - expected)]
    differences += [
        f"{what} {key} is {found[key]!r}, expected {value!r}"
        for key, value in sorted(expected.items())
        if key in found and found[key] != value
    ]
    return differences


def _facts(name: str, source: Checkpoint) -> dict[str, object]:
    counts = Counter(full.partition("/")[0] for full in source.tensors)
    specimen = ZOO[name]
    tensors = (
        {
            full: (tensor.dtype, list(tensor.shape), None, len(tensor.data))
            for full, tensor in source.tensors.items()
        }
        if specimen.block is None
        else float8.facts(source.tensors, specimen.block)
    )
    parameters = sum(
        math.prod(shape)
        for dtype, shape, _, _ in tensors.values()
        if dtype.startswith(FLOATING)
    )
    return {
        "architecture": specimen.architecture,
        "parameters": parameters,
        "prequantized": specimen.scheme,
        "problems": [],
        **{f"component {one}": counts[one] for one in source.components},
        **{f"tensor {full}": facts for full, facts in tensors.items()},
    }


def _shown_facts(shown: Mapping[str, Any]) -> dict[str, object]:
    return {
        "architecture": shown["architecture"],
        "parameters": shown["parameters"],
        "prequantized": shown["prequantized"],
        "problems": shown["problems"],
        **{f"component {one['name']}": one["tensors"] for one in shown["components"]},
        **{
            f"tensor {one['name']}": (
                one["dtype"],
                one["shape"],
                one["quant_type"],
                one["bytes"],
            )
            for one in shown["tensors"]
        },
    }


def check_all(names: Sequence[str], root: Path, argv: Sequence[str], *, keep: bool) -> int:
    """Make and check specimens one by one, print a table, and count the differences."""
    ingot = Ingot(argv, root / "store")
    tensors = differences = 0
    for name in names:
        source = root / "checkpoints" / name
        make(name, ZOO[name], source)
        result = check(name, source, ingot)
        _print(result)
        tensors += len(result.stored.tensors)
        differences += len(result.differences)
        if not keep:
            shutil.rmtree(source)
    ingot.failures = []
    of_store: list[str] = []
    if ingot.store.exists():  # what is refused makes none
        ingot.run("verify")
        of_store = [*ingot.failures, *check_store(ingot.store)]
    say(*(f"    store: {line}" for line in of_store))
    differences += len(of_store)
    say(f"{len(names)} checkpoints, {tensors} tensors, {differences} differences")
    note(
        JudgedRow(
            "safetensors",
            "plain: models, pipelines, shards, variants, FP8 blocks",
            versions("transformers", "diffusers"),
            "the bytes of the source, read by code that shares none with ingot's",
            f"{len(names)} checkpoints, {million(tensors)} tensors",
            differences,
        )
    )
    return differences


def _print(result: Result) -> None:
    stored = result.stored
    dtypes = "+".join(sorted({tensor.dtype for tensor in stored.tensors.values()}))
    _say_row(
        result.name,
        ZOO[result.name].architecture,
        dtypes,
        len(stored.tensors),
        len(set(stored.groups.values())),
        len(stored.blobs),
        sum(stored.blobs.values()),
        "DIFFERS" if result.differences else "ok",
    )
    say(*(f"    {line}" for line in result.differences[:SHOWN]))


def _say_row(*cells: object) -> None:
    say(ROW.format(*cells))


def say(*lines: str) -> None:
    """Print lines at once: a run takes minutes, and somebody watches it through a pipe."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def run_checks(description: str, specimens: Mapping[str, Any], heading: str, check: Any) -> int:
    """Run a command line that checks specimens.

    Args:
        description: of the command.
        specimens: by name.
        heading: of the table, printed first.
        check: called as `check_all` is; gives the number of differences.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="for checkpoints and store")
    parser.add_argument("--only", choices=sorted(specimens), metavar="NAME")
    parser.add_argument("--command", metavar="ARGV", help="default: this Python's `-m cli`")
    arguments = parser.parse_args()
    argv = [sys.executable, "-m", "cli"]
    if arguments.command:
        argv = shlex.split(arguments.command)
        argv[0] = os.path.abspath(shutil.which(argv[0]) or argv[0])
    if arguments.keep and arguments.keep.exists():
        parser.error(f"{arguments.keep} is there already")
    started = time.monotonic()
    say(", ".join(f"{library} {version(library)}" for library in LIBRARIES), heading)
    names = [arguments.only] if arguments.only else list(specimens)
    with tempfile.TemporaryDirectory(prefix="ingot-zoo-") as temporary:
        root = (arguments.keep or Path(temporary)).resolve()
        differences = check(names, root, argv, keep=arguments.keep is not None)
    say(f"{time.monotonic() - started:.0f} s")
    return 1 if differences else 0


def main() -> int:
    """Run the command line."""
    columns = "specimen", "architecture", "dtypes", "tensors", "groups", "blobs", "bytes", ""
    return run_checks(__doc__, ZOO, ROW.format(*columns), check_all)


if __name__ == "__main__":
    sys.exit(main())
