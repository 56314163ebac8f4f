"""Export tiny models in every way, load each with the program it is for, and compare.

    python tests/clients/check_clients.py [--keep DIR] [--only NAME]... [--to FORMAT]...

In an environment with tests/clients/requirements.txt. A row says how many arrays were compared,
how many differ, and the largest difference of the logits.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.clients import gguf, mlx_in, models, pipelines, reference, uqff
from tests.importer.exports.exporting import arrays, tree
from tests.zoo.judged import JudgedRow, million, note, versions

ROW = "{:18}{:30}{:>8}{:>8}{:>12}  {}"
PROGRAMS = (
    "transformers",
    "diffusers",
    "sentence-transformers",
    "mlx-lm",
    "mlx",
    "mistralrs",
)
FORMATS = ("gguf", "hf", "mlx", "uqff")
MLX_WAYS = {
    "plain": ((), {}),
    "int4": (("-q", "int4"), {"quantize": True}),
    "int8/32": (("-q", "int8/32"), {"quantize": True, "q_bits": 8, "q_group_size": 32}),
    "mxfp4": (("-q", "mxfp4"), {"quantize": True, "q_mode": "mxfp4"}),
    "nvfp4": (("-q", "nvfp4"), {"quantize": True, "q_mode": "nvfp4"}),
    "mxfp8": (("-q", "mxfp8"), {"quantize": True, "q_mode": "mxfp8"}),
    "mixed_3_6": (
        ("--recipe", "mixed_3_6"),
        {"quantize": True, "quant_predicate": "mixed_3_6"},
    ),
}
"""What `export --to mlx` is given, and what `mlx_lm.convert` is given."""


class Row(NamedTuple):
    """One export that was compared."""

    name: str
    way: str
    arrays: int
    differ: int
    logits: float | None
    problems: list[str]

    def __str__(self):
        """As the table has it."""
        logits = "" if self.logits is None else f"{self.logits:.3g}"
        said = "; ".join(self.problems) or "ok"
        return ROW.format(self.name, self.way, self.arrays, self.differ, logits, said)


class Ingot:
    """The command, and a store."""

    def __init__(self, words, store):
        self.words, self.store = words, store

    def run(self, *words):
        """Run it; an error ends the check."""
        argv = [*self.words, *map(str, words), "--store", str(self.store), "--no-fsync"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{shlex.join(argv)}: {done.stderr.strip()}")


def differing(found, expected):
    """Count the arrays that are not the same in both."""
    names = found.keys() | expected.keys()
    return sum(found.get(name) != expected.get(name) for name in names)


def check_hf(name, source, place, ingot):
    """Through the store and out again: plain, stacked, and decoded."""
    expected = reference.torch_logits(source)
    ways = {"plain": (), "stacked": ("--experts", "stacked")}
    for way, words in ways.items():
        ingot.run("create", f"{name}-{way}", source, *words)
        out = place / f"hf-{way}"
        ingot.run("export", f"{name}-{way}", out, "--to", "hf", "--shard-size", "500K")
        found = reference.torch_logits(out)
        problems = kept(source, out)
        logits = reference.largest(found, expected)
        if logits:
            problems.append("other logits")
        different = differing(arrays(out), arrays(source))
        yield Row(name, f"hf {way}", len(arrays(out)), different, logits, problems)
    ingot.run("create", f"{name}-int8", source, "-q", "int8")
    ingot.run("export", f"{name}-int8", place / "hf-int8", "--to", "hf")
    found, expected = arrays(place / "hf-int8"), arrays(source)
    problems = [] if found.keys() == expected.keys() else ["other tensors"]
    logits = reference.largest(
        reference.torch_logits(place / "hf-int8"), reference.torch_logits(source)
    )
    yield Row(name, "hf of int8", len(found), 0, logits, problems)


def kept(source, out):
    """Name the kept files that differ."""
    before, after = tree(source), tree(out)
    return [
        f"{path} differs"
        for path in before
        if not path.endswith((".safetensors", ".index.json"))
        and before[path] != after.get(path)
    ]


def check_mlx(name, source, place, ingot):
    """From the source and from the store, beside what mlx-lm converts."""
    for way, (words, asked) in MLX_WAYS.items():
        expected = place / f"{way.replace('/', '-')}-mlx-lm"
        try:
            reference.convert(source, expected, **asked)
        except (ValueError, AttributeError, TypeError, KeyError) as error:
            yield Row(name, f"mlx {way}", 0, 0, None, [f"mlx-lm itself: {error}"])
            continue
        outs = {f"mlx {way}": place / f"{way.replace('/', '-')}"}
        ingot.run("export", source, outs[f"mlx {way}"], "--to", "mlx", *words)
        if words[:1] == ("-q",):
            stored = f"{name}-{way.replace('/', '-')}"
            ingot.run("create", stored, source, *words, "--recipe", "mlx")
            outs[f"mlx {way}, stored"] = place / f"{way.replace('/', '-')}-stored"
            ingot.run("export", stored, outs[f"mlx {way}, stored"], "--to", "mlx")
        for label, out in outs.items():
            found, wanted = arrays(out), arrays(expected)
            problems = list(same_documents(out, expected, mixed=way.startswith("mixed")))
            logits = None
            if reference.runs(source, way):
                pair = reference.mlx_logits(out), reference.mlx_logits(expected)
                logits = reference.largest(*pair)
                if logits:
                    problems.append("other logits")
            yield Row(name, label, len(found), differing(found, wanted), logits, problems)
        if way != "plain":
            for label, count, differ in mlx_in.check(expected, ingot, differing):
                yield Row(name, f"{way} {label}", count, differ, None, [])


def same_documents(out, expected, *, mixed):
    """Name what differs in configuration and index."""
    for path in ("config.json", "model.safetensors.index.json"):
        ours, theirs = (json.loads((one / path).read_bytes()) for one in (out, expected))
        if mixed:  # mlx-lm gives every module an entry, and groups of `null`
            for one in (ours, theirs):
                one.pop("quantization", None)
                one.pop("quantization_config", None)
        if ours != theirs:
            yield f"{path} differs"


def check(name, formats, place, ingot):
    """Yield the rows of a model."""
    if name in models.ARCHITECTURES and formats & {"hf", "mlx"}:
        source = models.make(name, place / "source")
        for to, way in (("hf", check_hf), ("mlx", check_mlx)):
            if to in formats:
                yield from way(name, source, place, ingot)
    if name in gguf.ARCHITECTURES and "gguf" in formats:
        yield from (Row(name, *row) for row in gguf.check(name, place / "gguf", ingot))
    if name in uqff.ARCHITECTURES and "uqff" in formats:
        yield from (Row(name, *row) for row in uqff.check(name, place, ingot))


def main():
    """Check everything, print a table, and return the number of failures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="keep what is made in this directory")
    parser.add_argument("--only", action="append", help="a model; may be repeated")
    parser.add_argument("--to", action="append", help="a format; may be repeated")
    parser.add_argument("--command", default=".venv/bin/ingot", help="how to run ingot")
    asked = parser.parse_args()
    root = asked.keep or Path(tempfile.mkdtemp(prefix="ingot-clients-"))
    names = [
        *dict.fromkeys((*models.ARCHITECTURES, *uqff.ARCHITECTURES, *gguf.ARCHITECTURES)),
        *pipelines.MAKERS,
    ]
    print(", ".join(f"{name} {version(name)}" for name in PROGRAMS))
    print(ROW.format("MODEL", "WAY", "ARRAYS", "DIFFER", "LOGITS", ""))
    failures = 0
    of_mlx: list[Row] = []
    for name in asked.only or names:
        place = root / name
        ingot = Ingot(shlex.split(asked.command), root / "store")
        if name in pipelines.MAKERS:
            rows = (Row(*row) for row in pipelines.check(name, place, ingot, kept, differing))
        else:
            rows = check(name, set(asked.to or FORMATS), place, ingot)
        for row in rows:
            print(row, flush=True)
            is_theirs = any(" itself" in one for one in row.problems)
            failures += bool(row.differ or (row.problems and not is_theirs))
            if name in models.ARCHITECTURES and row.way.startswith("mlx"):
                of_mlx.append(row)
        if not asked.keep:
            shutil.rmtree(place, ignore_errors=True)
    if not asked.keep:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{failures} failures")
    if of_mlx and not asked.only:
        note(
            JudgedRow(
                "safetensors",
                f"MLX triplets: {', '.join(MLX_WAYS)}",
                f"{versions('mlx-lm', 'mlx')} and FFAI's layout",
                "the arrays that went in, out again as `mlx` and `hf`, and imported again",
                f"{len(of_mlx)} rows, {million(sum(row.arrays for row in of_mlx))} arrays",
                sum(row.differ for row in of_mlx),
            )
        )
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
