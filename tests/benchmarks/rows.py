"""The goals: what is measured against what, and how good it is meant to be."""

# ruff: noqa: E501 - a row of the table is a line
from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.benchmarks import llama_cpp
from tests.benchmarks.measure import Prepare, run
from tests.soak.machines import Machines

WRITER: Final = Path(__file__).with_name("ollama_writer.py")
GGUF: Final = Path(__file__).with_name("gguf_quantizer.py")
MISTRAL: Final = Path(__file__).with_name("mistralrs_writer.py")
KIB_PER_TENSOR: Final = 1.5
"""What a tensor may add to the peak, beside the weights' own bound."""


class Measure(StrEnum):
    """What of a pair of runs is compared with the goal; less is better."""

    RATIO = "of the peer's time"
    ADDED = "ms over the peer"
    SECONDS = "s"
    PEAK = "MiB at the peak"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the commands of one row find things.

    Attributes:
        ingot: how to start it.
        peers: directory of the peers' executables.
        models: directory of the checkpoints.
        source: the row's checkpoint.
        kept: a directory that lives as long as the row.
        resources: closed with it.
    """

    ingot: tuple[str, ...]
    peers: Path
    models: Path
    source: Path
    kept: Path
    resources: contextlib.ExitStack

    def create(
        self, store: Path, source: Path, *options: str, name: str = "model"
    ) -> list[str]:
        """Give the command that imports `source`."""
        return [*self.ingot, "create", name, str(source), *options, "--store", str(store)]

    def stored(self, *options: str) -> Path:
        """Give a store with the model in it, made by the first who asks."""
        store = self.kept / "store"
        if not store.exists():
            run(self.create(store, self.source, *options))
        return store

    def cluster(self, workers: int) -> str:
        """Give the scheduler of workers of one thread, started by the first who asks."""
        address = self.kept / "scheduler"
        if not address.exists():
            machines = self.resources.enter_context(Machines(self.kept, workers))
            address.write_text(machines.address)
        return address.read_text()


Side = Callable[[Stage, Path], list[str]]
"""Like `Prepare`, for any stage."""


def on(stage: Stage, side: Side) -> Prepare:
    """Bind a side to its stage."""
    return lambda fresh: side(stage, fresh)


@dataclass(frozen=True, slots=True)
class Row:
    """A benchmark.

    Attributes:
        peer: what ours is measured beside; None for an absolute goal.
        goal, stretch: in the unit of `measure`; None where there is none.
        models: the checkpoints; the first is the source.
        pairs: how many at least; quick commands need more.
    """

    name: str
    what: str
    against: str
    ours: Side
    peer: Side | None
    goal: float
    stretch: float | None = None
    measure: Measure = Measure.RATIO
    models: tuple[str, ...] = ("dense",)
    pairs: int = 1

    def bound(self, tensors: int) -> tuple[float, float | None]:
        """Goal and stretch for a checkpoint of so many tensors."""
        more = tensors * KIB_PER_TENSOR / 1024 if self.measure is Measure.PEAK else 0
        return self.goal + more, None if self.stretch is None else self.stretch + more


def create(*options: str) -> Side:
    """First import into a fresh store."""
    return lambda stage, fresh: stage.create(fresh / "store", stage.source, *options)


def create_on_cluster(workers: int, *options: str) -> Side:
    """First import into a fresh store, by so many workers of one thread."""
    return lambda stage, fresh: stage.create(
        fresh / "store", stage.source, *options, "--scheduler", stage.cluster(workers)
    )


def create_again(*options: str) -> Side:
    """Import what the store has, from the same unchanged files, under the same tag."""
    return lambda stage, _: stage.create(stage.stored(*options), stage.source, *options)


def create_tag(*options: str) -> Side:
    """Import what the store has, from the same unchanged files, under a new tag."""
    return lambda stage, fresh: stage.create(
        stage.stored(*options), stage.source, *options, name=f"model:{fresh.name}"
    )


def create_copy(*options: str) -> Side:
    """Import what the store has, from files of another inode and time."""

    def prepare(stage: Stage, fresh: Path) -> list[str]:
        run(stage.create(fresh / "store", stage.source, *options))
        shutil.copytree(stage.source, fresh / "copy", copy_function=shutil.copyfile)
        return stage.create(fresh / "store", fresh / "copy", *options)

    return prepare


def create_tuned(*options: str) -> Side:
    """Import a fine-tune, a tenth of it changed, beside its base."""

    def prepare(stage: Stage, fresh: Path) -> list[str]:
        run(stage.create(fresh / "store", stage.source, *options))
        return stage.create(fresh / "store", stage.models / "tuned", *options, name="tuned")

    return prepare


def mlx_lm(*options: str) -> Side:
    """`mlx_lm.convert -q`, which quantizes every matrix."""
    return lambda stage, fresh: [
        str(stage.peers / "mlx_lm.convert"),
        *("--hf-path", str(stage.source), "--mlx-path", str(fresh / "out"), "-q", *options),
    ]


def writer(*options: str) -> Side:
    """Ollama's order of reads and writes, in Python."""
    return lambda stage, fresh: [
        *(str(stage.peers / "python"), str(WRITER), str(stage.source), str(fresh / "store")),
        *options,
    ]


def gguf_and_mlx(stage: Stage, fresh: Path) -> list[str]:
    """gguf-py's dequantize, then `mx.quantize`."""
    python = str(stage.peers / "python")
    return [python, str(GGUF), str(stage.source), str(fresh / "out")]


def create_other(model: str, *options: str) -> Side:
    """First import of another checkpoint into a fresh store."""
    return lambda stage, fresh: stage.create(fresh / "store", stage.models / model, *options)


def mistralrs(isq: str) -> Side:
    """mistral.rs, which loads the model and writes UQFF of it."""
    return lambda stage, fresh: [
        *(str(stage.peers / "python"), str(MISTRAL), str(stage.source), str(fresh / "out")),
        isq,
    ]


def copy_and_hash(suffix: str) -> Side:
    """`cp -r`, then `openssl dgst` of the weights of the copy."""
    script = f'cp -r "$1" "$2" && openssl dgst -sha256 "$2"/*.{suffix}'
    return lambda stage, fresh: [
        *("sh", "-c", script, "sh"),
        *(str(stage.source), str(fresh / "copy")),
    ]


def hash_source(stage: Stage, _: Path) -> list[str]:
    """`openssl dgst` of the weights, which writes nothing."""
    return ["openssl", "dgst", "-sha256", *map(str, sorted(stage.source.glob("*.safetensors")))]


def hash_blobs(*options: str) -> Side:
    """`openssl dgst` of every blob of the store."""
    return lambda stage, _: [
        *("openssl", "dgst", "-sha256"),
        *map(str, sorted((stage.stored(*options) / "blobs").iterdir())),
    ]


def export(to: str, *options: str) -> Side:
    """Export a stored model; `options` are those of the `create` that stored it."""
    return lambda stage, fresh: [
        *(*stage.ingot, "export", "model", str(fresh / "out"), "--to", to),
        *("--store", str(stage.stored(*options))),
    ]


def export_source(to: str, *options: str) -> Side:
    """Export a checkpoint without a store."""
    return lambda stage, fresh: [
        *(*stage.ingot, "export", str(stage.source), str(fresh / "out"), "--to", to),
        *(*options, "--store", str(fresh / "store")),
    ]


def copy_and_hash_blobs(*options: str) -> Side:
    """`cp -r` of every blob of a store, `openssl dgst` of each, and `sync`."""
    script = 'cp -r --reflink=never "$1" "$2" && openssl dgst -sha256 "$1"/* >"$2.txt" && sync -f "$2"'
    return lambda stage, fresh: [
        *("sh", "-c", script, "sh"),
        *(str(stage.stored(*options) / "blobs"), str(fresh / "copy")),
    ]


def in_store(*words: str) -> Side:
    """Any command on a store with the plain model."""
    return lambda stage, _: [*stage.ingot, *words, "--store", str(stage.stored())]


def ingot_help(stage: Stage, _: Path) -> list[str]:
    """`ingot --help`."""
    return [*stage.ingot, "--help"]


def bare_python(_: Stage, __: Path) -> list[str]:
    """An interpreter that does nothing."""
    return [sys.executable, "-c", "pass"]


def _quantized(quant_type: str, *options: str) -> tuple[str, ...]:
    # The recipe under which the same tensors are quantized as by the peers: all matrices.
    return ("--quantize", quant_type, *options, "--recipe", "uniform")


INT4: Final = _quantized("int4", "--group-size", "64")
INT8: Final = _quantized("int8")
MXFP8: Final = _quantized("mxfp8")
NVFP4: Final = _quantized("nvfp4")
MXFP4: Final = _quantized("mxfp4")
MLX_INT4: Final = mlx_lm("--q-bits", "4", "--q-group-size", "64")
MLX_INT8: Final = mlx_lm("--q-bits", "8", "--q-group-size", "64")
CONVERT: Final = "mlx_lm.convert -q, same bits and group"
WRITES: Final = "a writer in Ollama's way"
COPY: Final = "cp -r of the blobs, openssl dgst of each, sync -f"
FIRST: Final = "own first create"
START: Final = 20
"""Pairs of commands that take milliseconds."""

# fmt: off
ROWS: Final = (
    Row("int4", "create int4", CONVERT, create(*INT4), MLX_INT4, 0.24, 0.18),
    Row("int8", "create int8", CONVERT, create(*INT8), MLX_INT8, 0.30, 0.23),
    Row("mxfp8", "create mxfp8", CONVERT, create(*MXFP8), mlx_lm("--q-mode", "mxfp8"), 0.20, 0.15),
    Row("nvfp4", "create nvfp4", CONVERT, create(*NVFP4), mlx_lm("--q-mode", "nvfp4"), 0.025, 0.018),
    Row("mxfp4", "create mxfp4", CONVERT, create(*MXFP4), mlx_lm("--q-mode", "mxfp4"), 0.025, 0.015),
    Row("moe", "create int4, experts", CONVERT, create(*INT4), MLX_INT4, 0.25, 0.19, models=("moe",)),
    Row("mse-int4", "create int4 --calibrate mse", "create int4", create(*INT4, "--calibrate", "mse"), create(*INT4), 3.0, 2.0),
    Row("mse-int8", "create int8 --calibrate mse", "create int8", create(*INT8, "--calibrate", "mse"), create(*INT8), 3.0, 2.0),
    Row("int4-writer", "create int4", WRITES, create(*INT4), writer("int4"), 0.22, 0.16),
    Row("plain-writer", "create", WRITES, create(), writer(), 0.75, 0.5),
    Row("plain-copy", "create", "cp -r and openssl dgst of the copy", create(), copy_and_hash("safetensors"), 0.75, 0.5),
    Row("gguf-copy", "create of a GGUF file", "cp -r and openssl dgst of the copy", create(), copy_and_hash("gguf"), 1.0, 0.8, models=("gguf",)),
    Row("gguf-int4", "create int4 of Q8_0 GGUF", "gguf-py's dequantize, then mx.quantize", create(*INT4), gguf_and_mlx, 0.1, 0.05, models=("gguf-q8_0",)),
    Row("gguf-apart", "create --unpack of F16 GGUF", "create of safetensors", create("--unpack"), create_other("dense"), 1.1, 1.0, models=("gguf-f16", "dense")),
    Row("pytorch", "create of a PyTorch file", "create of safetensors", create(), create_other("dense"), 1.1, 1.0, models=("pytorch", "dense")),
    Row("int4-hash", "create int4", "openssl dgst of the source", create(*INT4), hash_source, 0.8, 0.6),
    Row("verify", "verify", "openssl dgst of the blobs", in_store("verify"), hash_blobs(), 0.6, 0.52),
    Row("export-hf", "export --to hf", COPY, export("hf"), copy_and_hash_blobs(), 0.8, 0.6),
    Row("export-mlx", "export --to mlx, stored int4", COPY, export("mlx", *INT4), copy_and_hash_blobs(*INT4), 0.8, 0.6),
    Row("export-int4", "export --to mlx -q int4", CONVERT, export_source("mlx", "-q", "int4"), MLX_INT4, 0.3, 0.2),
    Row("export-afq4", "export --to uqff -q afq4", "mistralrs write_uqff", export_source("uqff", "-q", "afq4"), mistralrs("AFQ4"), 0.15, 0.1),
    Row("export-q4k", "export --to uqff -q q4k", "mistralrs write_uqff", export_source("uqff", "-q", "q4k"), mistralrs("Q4K"), 0.35, 0.2),
    *(Row(f"gguf-{kind}", f"export --to gguf -q {kind}", "convert_hf_to_gguf", llama_cpp.export_gguf(kind), llama_cpp.convert(kind), 0.15, 0.1) for kind in ("f16", "bf16")),
    *(Row(f"gguf-{kind}", f"export --to gguf -q {kind}", "convert_hf_to_gguf, then llama-quantize", llama_cpp.export_gguf(kind), llama_cpp.convert_and_quantize(kind), 0.12, 0.08) for kind in ("q8_0", "q4_0")),
    *(Row(f"gguf-{kind}", f"export --to gguf -q {kind}", "llama-quantize alone", llama_cpp.export_gguf(kind), llama_cpp.quantize(kind), 0.4, 0.2) for kind in ("q4_k_m", "q5_k_m", "q6_k", "q3_k_m", "q2_k")),
    Row("again", "create again", "", create_again(), None, 0.25, 0.15, Measure.SECONDS),
    Row("again-int4", "create int4 again", "", create_again(*INT4), None, 0.25, 0.15, Measure.SECONDS),
    Row("tag", "create, another tag", "", create_tag(), None, 0.25, 0.15, Measure.SECONDS),
    Row("touched", "create of a copy of the source", FIRST, create_copy(), create(), 0.25, 0.2),
    Row("touched-int4", "the same, int4", FIRST, create_copy(*INT4), create(*INT4), 0.25, 0.2),
    Row("tuned", "create of a fine-tune", FIRST, create_tuned(), create(), 0.35, 0.25, models=("dense", "tuned")),
    Row("tuned-int4", "the same, int4", FIRST, create_tuned(*INT4), create(*INT4), 0.35, 0.25, models=("dense", "tuned")),
    Row("durable", "create", "--no-fsync", create(), create("--no-fsync"), 1.4),
    Row("durable-int4", "create int4", "--no-fsync", create(*INT4), create(*INT4, "--no-fsync"), 1.4),
    Row("jobs", "create --jobs 2", "--jobs 1", create("--jobs", "2"), create("--jobs", "1"), 0.75, 0.65),
    Row("jobs-int4", "create int4 --jobs 2", "--jobs 1", create(*INT4, "--jobs", "2"), create(*INT4, "--jobs", "1"), 0.75, 0.65),
    Row("cluster-int4", "create int4, two workers of one thread", "--jobs 2", create_on_cluster(2, *INT4), create(*INT4, "--jobs", "2"), 1.25, 1.1),
    Row("help", "ingot --help", "python -c pass", ingot_help, bare_python, 80, 50, Measure.ADDED, pairs=START),
    Row("show", "ingot show", "python -c pass", in_store("show", "model"), bare_python, 80, 50, Measure.ADDED, pairs=START),
    Row("list", "ingot list", "python -c pass", in_store("list"), bare_python, 80, 50, Measure.ADDED, pairs=START),
    Row("rss-int4", "create int4 --jobs 2", "", create(*INT4, "--jobs", "2"), None, 220, measure=Measure.PEAK),
    Row("rss-plain", "create --jobs 2", "", create("--jobs", "2"), None, 64, measure=Measure.PEAK),
    Row("rss-export", "export --to mlx -q int4 --jobs 2", "", export_source("mlx", "-q", "int4", "--jobs", "2"), None, 250, measure=Measure.PEAK),
    Row("rss-gguf", "export --to gguf -q q4_k_m --jobs 2", "", llama_cpp.export_gguf("q4_k_m", "--jobs", "2"), None, 250, measure=Measure.PEAK),
    Row("rss-uqff", "export --to uqff -q q4k --jobs 2", "", export_source("uqff", "-q", "q4k", "--jobs", "2"), None, 250, measure=Measure.PEAK),
    Row("rss-hf", "export --to hf --jobs 2", "", export_source("hf", "--jobs", "2"), None, 250, measure=Measure.PEAK),
    Row("rss-verify", "verify --jobs 2", "", in_store("verify", "--jobs", "2"), None, 64, measure=Measure.PEAK),
)
# fmt: on
