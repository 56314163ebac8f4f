"""Sides of rows that have llama.cpp's own programs beside ours.

Where they are, the environment says, as for `make clients`: INGOT_LLAMA_CPP is a directory with
convert_hf_to_gguf.py, INGOT_LLAMA_BUILD one with llama-quantize; the converter's Python is that
of .venv-clients. Without them the rows are not measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.benchmarks.measure import run

if TYPE_CHECKING:
    from tests.benchmarks.rows import Side, Stage

REPOSITORY: Final = Path(__file__).resolve().parents[2]
CONVERTER: Final = Path(__file__).with_name("llama_converter.py")
ABSENT: Final = "no-such-program"
_VOCABULARY: Final = """
import sys
from pathlib import Path
from tests.importer.exports.gguf_checkpoints import vocabulary_of
for name, data in vocabulary_of("llama3").items():
    Path(sys.argv[1], name).write_bytes(data)
"""


def export_gguf(kind: str, *options: str) -> Side:
    """Export a checkpoint without a store."""
    return lambda stage, fresh: [
        *(*stage.ingot, "export", str(spoken(stage)), str(fresh / "out.gguf"), "--to", "gguf"),
        *("-q", kind, *options, "--store", str(fresh / "store")),
    ]


def convert(kind: str) -> Side:
    """Run convert_hf_to_gguf."""
    return lambda stage, fresh: converter(spoken(stage), fresh / "out.gguf", kind)


def convert_and_quantize(kind: str) -> Side:
    """Run convert_hf_to_gguf to BF16, then llama-quantize."""

    def prepare(stage: Stage, fresh: Path) -> list[str]:
        first = converter(spoken(stage), fresh / "bf16.gguf", "bf16")
        second = quantizer(fresh / "bf16.gguf", fresh / "out.gguf", kind)
        if ABSENT in {first[0], second[0]}:
            return [ABSENT]
        script = 'n="$1"; shift; "${@:1:$n}" && shift "$n" && "$@"'
        return ["bash", "-c", script, "bash", str(len(first)), *first, *second]

    return prepare


def quantize(kind: str) -> Side:
    """Run llama-quantize of a BF16 file that is there already."""

    def prepare(stage: Stage, fresh: Path) -> list[str]:
        whole = stage.kept / "bf16.gguf"
        if not whole.exists():
            run(converter(spoken(stage), whole, "bf16"))
        return quantizer(whole, fresh / "out.gguf", kind)

    return prepare


def converter(source: Path, path: Path, kind: str) -> list[str]:
    """Give the command that runs the converter."""
    place = os.environ.get("INGOT_LLAMA_CPP")
    python = REPOSITORY / ".venv-clients" / "bin" / "python"
    program = str(python) if place else ABSENT
    return [program, "-W", "ignore", str(CONVERTER), str(place), str(source), str(path), kind]


def quantizer(source: Path, path: Path, kind: str) -> list[str]:
    """Give the command that runs llama-quantize in as many threads as ours has."""
    place = os.environ.get("INGOT_LLAMA_BUILD")
    program = str(Path(place) / "llama-quantize") if place else ABSENT
    library = f"LD_LIBRARY_PATH={place}"
    argv = [program, str(source), str(path), kind, str(os.cpu_count())]
    return ["env", library, *argv] if place else argv


def spoken(stage: Stage) -> Path:
    """Give the row's checkpoint with a vocabulary that llama.cpp has a name for."""
    place = stage.kept / "spoken"
    if not place.exists():
        place.mkdir()
        for path in stage.source.iterdir():
            if path.name == "config.json":
                told = json.loads(path.read_bytes()) | {"bos_token_id": 1, "eos_token_id": 2}
                (place / path.name).write_text(json.dumps(told))
            elif not path.name.startswith("tokenizer"):
                (place / path.name).hardlink_to(path)
        # In a process of its own: numpy's memory would be part of every peak from here on.
        argv = [sys.executable, "-c", _VOCABULARY, str(place)]
        subprocess.run(argv, check=True, cwd=REPOSITORY)
    return place
