"""Import the hard cases of every format, and say what each needs: memory at the peak, seconds.

    python tests/benchmarks/memory.py [CASE]... [--bound MIB] [--command INGOT] [--scratch DIR]

Sources are sparse files, so that two GB of weights are made in a moment; `compile` is GPTQ on a
machine that has no compiled kernels yet. Exit 1 when a case exceeds the bound.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from store.tensorfile import data_bytes, encode_header
from tests.benchmarks.measure import RSS_UNIT

MIB = 1 << 20
BOUND = 250
Array = tuple[str, tuple[int, ...]]
Q4 = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}
BLOCK = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def checkpoint(
    place: Path, arrays: Mapping[str, Array], quantization: Mapping[str, object]
) -> Path:
    """Write a directory whose weights are zeros that take no space on the disk."""
    entries = [
        (name, dtype, shape, data_bytes(dtype, shape))
        for name, (dtype, shape) in sorted(arrays.items())
    ]
    header = encode_header(entries)
    with (place / "model.safetensors").open("wb") as file:
        file.write(header)
        file.truncate(len(header) + sum(entry[3] for entry in entries))
    config = {"dtype": "bfloat16", "quantization_config": quantization}
    (place / "config.json").write_text(json.dumps(config if quantization else {}))
    return place


def gptq(place: Path, columns: int = 1 << 16, rows: int = 67_584) -> Path:
    """One matrix of GPTQ, symmetric, 2.2 GB of codes."""
    groups = columns // 128
    arrays: dict[str, Array] = {
        "a.qweight": ("I32", (columns // 8, rows)),
        "a.qzeros": ("I32", (groups, rows // 8)),
        "a.scales": ("F16", (groups, rows)),
    }
    return checkpoint(place, arrays, Q4)


def act_order(place: Path) -> Path:
    """The same with the group of every column in an array."""
    columns, rows = 1 << 16, 67_584
    gptq(place)
    arrays: dict[str, Array] = {
        "a.qweight": ("I32", (columns // 8, rows)),
        "a.qzeros": ("I32", (columns // 128, rows // 8)),
        "a.scales": ("F16", (columns // 128, rows)),
        "a.g_idx": ("I32", (columns,)),
    }
    return checkpoint(place, arrays, {**Q4, "desc_act": True})


def awq(place: Path) -> Path:
    """One matrix of AWQ, 2.2 GB of codes, which are packed along rows."""
    columns, rows = 1 << 16, 67_584
    arrays: dict[str, Array] = {
        "a.qweight": ("I32", (columns, rows // 8)),
        "a.qzeros": ("I32", (columns // 128, rows // 8)),
        "a.scales": ("F16", (columns // 128, rows)),
    }
    return checkpoint(place, arrays, {"quant_method": "awq", "bits": 4, "group_size": 128})


def fp8(place: Path) -> Path:
    """One matrix of FP8 in blocks, 2 GB."""
    arrays: dict[str, Array] = {
        "a.weight": ("F8_E4M3", (1 << 16, 1 << 15)),
        "a.weight_scale_inv": ("F32", (1 << 9, 1 << 8)),
    }
    return checkpoint(place, arrays, BLOCK)


def fp8_row(place: Path) -> Path:
    """Rows of FP8 as long as they may be, 1 GB."""
    arrays: dict[str, Array] = {
        "a.weight": ("F8_E4M3", (1 << 10, 1 << 20)),
        "a.weight_scale_inv": ("F32", (1 << 3, 1 << 13)),
    }
    return checkpoint(place, arrays, BLOCK)


def packed_row(place: Path) -> Path:
    """Rows of compressed-tensors' packed integers as long as they may be, 1 GB."""
    rows, columns = 1 << 11, 1 << 20
    arrays: dict[str, Array] = {
        "a.weight_packed": ("I32", (rows, columns // 8)),
        "a.weight_scale": ("BF16", (rows, columns // 128)),
    }
    weights = {"num_bits": 4, "group_size": 128, "symmetric": True, "type": "int"}
    groups = {"g": {"targets": ["Linear"], "weights": weights}}
    said = {"quant_method": "compressed-tensors", "config_groups": groups}
    return checkpoint(place, arrays, said)


def plain(place: Path) -> Path:
    """One matrix of BF16, 2 GB."""
    return checkpoint(place, {"a.weight": ("BF16", (1 << 15, 1 << 15))}, {})


def many(place: Path) -> Path:
    """100 000 tensors."""
    arrays = {f"model.layers.{n}.mlp.up_proj.weight": ("BF16", (2, 64)) for n in range(10**5)}
    return checkpoint(place, arrays, {})


def _gguf(place: Path, tokens: int, length: int, tensor: tuple[int, int], kind: int) -> Path:
    """A GGUF file of one matrix, with a vocabulary."""

    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    path = place / "model.gguf"
    rows, columns = tensor
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 1, 2))
        file.write(text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"))
        file.write(text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, tokens))
        for number in range(tokens):
            file.write(text(f"{number:0{length}d}".encode()))
        info = struct.pack("<IQQIQ", 2, columns, rows, kind, 0)
        file.write(text(b"token_embd.weight") + info)
        file.write(bytes(-file.tell() % 32))
        sizes = {0: (1, 4), 8: (32, 34), 12: (256, 144)}[kind]
        file.truncate(file.tell() + rows * columns // sizes[0] * sizes[1])
    return path


def vocabulary(place: Path) -> Path:
    """GGUF with a vocabulary of 100 MB."""
    return _gguf(place, 1_000_000, 92, (32, 256), 0)


def gguf(place: Path) -> Path:
    """GGUF with a matrix of 2 GB of Q4_K."""
    return _gguf(place, 1, 1, (1 << 15, 1 << 17), 12)


Case = tuple[Callable[[Path], Path], tuple[str, ...]]
CASES: dict[str, Case] = {
    "compile": (lambda place: gptq(place, 16_384, 57_344), ("-q", "int4")),
    "plain": (plain, ("-q", "int4")),
    "gptq": (gptq, ("-q", "int8")),
    "gptq-repack": (gptq, ("-q", "repack")),
    "act-order": (act_order, ("-q", "int8")),
    "awq": (awq, ("-q", "int8")),
    "awq-repack": (awq, ("-q", "repack")),
    "fp8": (fp8, ("-q", "int4")),
    "fp8-row": (fp8_row, ("-q", "int4")),
    "packed-row": (packed_row, ("-q", "int8")),
    "gguf": (gguf, ("-q", "int4")),
    "vocabulary": (vocabulary, ()),
    "vocabulary-apart": (vocabulary, ("--unpack",)),
    "tensors": (many, ("-q", "int4")),
}


def measure(argv: list[str], environment: dict[str, str]) -> tuple[int, float, float, float]:
    """Run a command; give its exit code, seconds, seconds of CPU and MiB at the peak."""
    started = time.monotonic()
    child = os.spawnvpe(os.P_NOWAIT, argv[0], argv, environment)
    _, status, used = os.wait4(child, 0)
    seconds = time.monotonic() - started
    peak = used.ru_maxrss * RSS_UNIT / MIB
    return os.waitstatus_to_exitcode(status), seconds, used.ru_utime + used.ru_stime, peak


def main() -> int:
    """Measure what is asked for; give the number of cases that exceed the bound, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=[])
    parser.add_argument("--bound", type=float, default=BOUND, help="MiB at the peak")
    parser.add_argument("--command", default=".venv/bin/ingot", help="how to run ingot")
    parser.add_argument("--scratch", type=Path, help="where sources and stores are made")
    asked = parser.parse_args()
    exceeded = 0
    print(f"{'CASE':18}{'EXIT':>6}{'SECONDS':>9}{'CPU':>9}{'PEAK MIB':>10}")
    for name in asked.cases or CASES:
        make, words = CASES[name]
        with tempfile.TemporaryDirectory(prefix="memory-", dir=asked.scratch) as scratch:
            place = Path(scratch, "source")
            place.mkdir()
            source = make(place)
            environment = dict(os.environ)
            if name == "compile":
                environment["XDG_CACHE_HOME"] = str(Path(scratch, "cache"))
            argv = [*shlex.split(asked.command), "create", "m", str(source), *words]
            argv += ["--store", str(Path(scratch, "store"))]
            code, seconds, cpu, peak = measure(argv, environment)
        print(f"{name:18}{code:>6}{seconds:>9.1f}{cpu:>9.1f}{peak:>10.0f}", flush=True)
        exceeded += peak > asked.bound or code != 0
    return min(exceeded, 1)


if __name__ == "__main__":
    sys.exit(main())
