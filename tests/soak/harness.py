"""What the soaks share: the command as a real process, and source models made on the fly."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
WATCHDOG_SECONDS = 60
REPORTED_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
WIDTH = {"F32": 4, "BF16": 2}
VARIANTS = 3
TENSORS = {
    "model.embed_tokens.weight": ("BF16", (512, 256)),
    "model.layers.0.input_layernorm.weight": ("F32", (256,)),
    "model.layers.0.self_attn.q_proj.weight": ("BF16", (256, 256)),
    "model.layers.0.self_attn.k_proj.weight": ("BF16", (64, 256)),
    "model.layers.0.self_attn.o_proj.weight": ("F32", (256, 256)),
    "model.layers.0.mlp.up_proj.weight": ("BF16", (512, 256)),
    "model.layers.0.mlp.down_proj.weight": ("F32", (256, 512)),
    "model.layers.1.mlp.experts.0.up_proj.weight": ("BF16", (128, 256)),
    "model.layers.1.mlp.experts.1.up_proj.weight": ("BF16", (128, 256)),
    "model.layers.1.mlp.gate.weight": ("F32", (2, 256)),
    "model.norm.weight": ("F32", (256,)),
    "lm_head.weight": ("BF16", (512, 256)),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one process ended.

    Attributes:
        code: exit code as a shell sees it: 128 + n after signal n.
        seconds: wall time from start to end.
        timed_out: the watchdog killed it.
    """

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    pid: int = 0

    def reported_digest(self) -> str | None:
        """Return the last manifest digest on stdout, if the command got that far."""
        found = REPORTED_DIGEST.findall(self.stdout)
        return found[-1] if found else None

    def problem(self, *allowed: int) -> str | None:
        """Return what is wrong with this end when only the codes `allowed` are right."""
        command = " ".join(self.argv)
        if self.timed_out:
            return f"`{command}` took over {WATCHDOG_SECONDS} s"
        if self.code not in allowed:
            return f"`{command}` exited {self.code}, expected {allowed}: {self.stderr[-600:]}"
        return None


@dataclass(frozen=True, slots=True)
class Ingot:
    """The command under test, bound to one store.

    Attributes:
        argv: how to start it, such as `[".venv/bin/ingot"]`.
        store: passed as `--store` after the command's name.
        create_options: given to every `create`.
    """

    argv: tuple[str, ...]
    store: Path
    create_options: tuple[str, ...] = ()

    def on(self, store: Path) -> Ingot:
        """Return the same command for another store."""
        return Ingot(self.argv, store, self.create_options)

    def run(self, command: str, *arguments: str) -> Outcome:
        """Run one command to its end, or to the watchdog's."""
        return self.finish(self.start(command, *arguments))

    def start(self, command: str, *arguments: str) -> Running:
        """Start one command in a process group of its own."""
        options = self.create_options if command == "create" else ()
        argv = (*self.argv, command, *arguments, *options, "--store", str(self.store))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("INGOT_")}
        environment["PYTHONPATH"] = str(REPOSITORY)
        process = subprocess.Popen(
            argv,
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        return Running((command, *arguments), process, time.perf_counter())

    def finish(self, running: Running) -> Outcome:
        """Wait for a started command; nothing of its process group survives."""
        process, timed_out = running.process, False
        try:
            stdout, stderr = process.communicate(timeout=WATCHDOG_SECONDS)
        except subprocess.TimeoutExpired:
            timed_out = True
            kill_group(process.pid)
            stdout, stderr = process.communicate()
        seconds = time.perf_counter() - running.started
        kill_group(process.pid)
        code = process.returncode
        code = 128 - code if code < 0 else code
        return Outcome(running.argv, code, stdout, stderr, seconds, timed_out, process.pid)


@dataclass(frozen=True, slots=True)
class Running:
    """A started command; `started` is on the clock of `time.perf_counter`."""

    argv: tuple[str, ...]
    process: subprocess.Popen[str]
    started: float


@dataclass(slots=True)
class Source:
    """A source model on disk whose tensors change between imports.

    Every tensor has a few variants that all sources share, so that models have blobs in
    common, blobs go and come back, and every change keeps the size of the file.
    """

    directory: Path
    rng: random.Random
    variants: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.variants = {name: self.rng.randrange(VARIANTS) for name in TENSORS}
        self.directory.mkdir(parents=True)
        config = {"architectures": ["SoakForCausalLM"], "model_type": "soak"}
        (self.directory / "config.json").write_text(json.dumps(config), "utf-8")
        self.write()

    def change(self, count: int = 3) -> None:
        """Change `count` tensors, each to another of its variants, and rewrite the file."""
        for name in self.rng.sample(sorted(TENSORS), count):
            step = self.rng.randrange(1, VARIANTS)
            self.variants[name] = (self.variants[name] + step) % VARIANTS
        self.write()

    def write(self) -> None:
        """Write `model.safetensors` in place."""
        header: dict[str, Any] = {}
        payloads, end = [], 0
        for name, (dtype, shape) in TENSORS.items():
            payloads.append(payload(name, self.variants[name]))
            begin, end = end, end + len(payloads[-1])
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        content = b"".join((len(text).to_bytes(8, "little"), text, *payloads))
        (self.directory / "model.safetensors").write_bytes(content)

    def payload_sha256(self) -> dict[str, str]:
        """Return tensor -> SHA-256 of the bytes that it has now."""
        return {
            name: hashlib.sha256(payload(name, variant)).hexdigest()
            for name, variant in self.variants.items()
        }


def payload(name: str, variant: int) -> bytes:
    """Return the bytes of one variant of a tensor: small positive numbers, never NaN."""
    dtype, shape = TENSORS[name]
    width = WIDTH[dtype]
    nbytes = math.prod(shape) * width
    numbers = bytearray(random.Random(f"{name}/{variant}").randbytes(nbytes))
    numbers[width - 1 :: width] = b"\x3c" * (nbytes // width)  # sign and high exponent bits
    return bytes(numbers)


def kill_group(pid: int) -> None:
    """Kill what is left of the process group of a command."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def do_not_ignore_sigint() -> None:
    """Let commands die of SIGINT even when a shell started the soak in the background.

    An ignored signal stays ignored across exec, and Python then installs no handler.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def command_argv(given: str | None) -> tuple[str, ...]:
    """Return how to start the command: `given`, or this Python's `-m cli`."""
    if given is None:
        return (sys.executable, "-m", "cli")
    return (os.path.abspath(shutil.which(given) or given),)


def print_lines(lines: Sequence[str]) -> None:
    """Print at once, so that a long soak can be watched through a pipe."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
