"""What the soaks of clusters share: their options, a source, kills, and what gc has to free."""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.check_store import check_store
from tests.soak.harness import Ingot, Running, command_argv, print_lines

if TYPE_CHECKING:
    from pathlib import Path

    from tests.soak.machines import Machines

SIDE = 2048
OPTIONS = ("--quantize", "int4")
NETWORK_EXIT = 10
LET_GO_SECONDS = 20
MAX_VIOLATIONS = 10


class Options(NamedTuple):
    """How many workers there are, whom to kill how often, by which seed, and which ingot."""

    workers: int
    kills: dict[str, int]
    seed: int
    argv: tuple[str, ...]


def parsed(description: str | None) -> Options:
    """Return what the command line asks for, after the seed was printed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worker-kills", type=int, default=50)
    parser.add_argument("--client-kills", type=int, default=20)
    parser.add_argument("--scheduler-kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--command", help="default: this Python with -m cli")
    given = parser.parse_args()
    print_lines([f"seed {given.seed}"])
    kills = {
        whom: getattr(given, f"{whom}_kills") for whom in ("worker", "client", "scheduler")
    }
    return Options(given.workers, kills, given.seed, command_argv(given.command))


def kill_workers(
    machines: Machines, running: Running, seconds: float, rng: random.Random
) -> list[str]:
    """Kill one worker, or two, at random moments of a command; return what it was doing.

    Args:
        machines: whose workers these are; others take their places.
        running: the command.
        seconds: that it takes.
        rng: chooses.
    """
    ends = []
    for moment in sorted(rng.uniform(0, seconds) for _ in range(rng.choice((1, 2)))):
        time.sleep(max(0, running.started + moment - time.perf_counter()))
        was_running = running.process.poll() is None
        index = rng.randrange(1, machines.count + 1)
        machines.kill(index)
        machines.start_worker(index)
        ends.append("at work" if was_running else "finished first")
    return ends


def collect_all(ingot: Ingot) -> list[str]:
    """Let gc free what nobody needs; return what is wrong then.

    Workers let go when they hear that nobody waits, so it is tried for some seconds.
    """
    end = time.monotonic() + LET_GO_SECONDS
    while True:
        outcome = ingot.run("gc", "--yes")
        left = check_store(ingot.store, after_gc=True)
        if not left or outcome.code or time.monotonic() > end:
            break
        time.sleep(0.2)
    problem = outcome.problem(0)
    return [*([problem] if problem else []), *left]


def write_source(directory: Path, tensors: int) -> Path:
    """Write a model of matrices of 8 MiB, whose values no two tensors share."""
    directory.mkdir()
    config = {"architectures": ["SoakForCausalLM"], "model_type": "soak"}
    (directory / "config.json").write_text(json.dumps(config), "utf-8")
    nbytes = 2 * SIDE * SIDE
    header = {
        f"model.layers.{n}.mlp.up_proj.weight": {
            "dtype": "BF16",
            "shape": [SIDE, SIDE],
            "data_offsets": [n * nbytes, (n + 1) * nbytes],
        }
        for n in range(tensors)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (directory / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for n in range(tensors):
            numbers = bytearray(random.Random(n).randbytes(nbytes))
            numbers[1::2] = b"\x3c" * (nbytes // 2)  # sign and high exponent bits
            file.write(numbers)
    return directory
