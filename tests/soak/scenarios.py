"""Each command with the store that it meets, for layers that run real processes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.check_store import manifest_path, parse_json
from tests.importer.builders import model, noise
from tests.soak.harness import WIDTH, Outcome

NOT_FOUND = 9
LITTER = "scrap"
SOURCES = ("one", "two", "three")


class Runner(Protocol):
    """What starts commands."""

    @property
    def store(self) -> Path:
        """The store that they are for."""

    def run(self, command: str, *arguments: str) -> Outcome:
        """Run one to its end."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command and what was there before.

    Attributes:
        words: the command; a source is written `{one}`.
        before: the commands that made the store.
        damage: done to the store then.
        tag: the name whose manifest the command changes.
        removes: a second run does not find what the first has removed.
        litter: names in tmp/ that are not the command's.
        ends: the exit code where nothing fails.
        repairs: a damaged blob may go into quarantine.
    """

    name: str
    words: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    damage: Callable[[Path], None] | None = None
    tag: str | None = None
    removes: bool = False
    litter: frozenset[str] = frozenset()
    ends: int = 0
    repairs: bool = False

    def arrange(self, ingot: Runner, sources: Path) -> None:
        """Make the store."""
        for words in self.before:
            outcome = ingot.run(*_filled(words, sources))
            if problem := outcome.problem(0):
                raise RuntimeError(problem)
        if self.damage is not None:
            self.damage(ingot.store)

    def argv(self, sources: Path) -> tuple[str, ...]:
        """The command's words."""
        return _filled(self.words, sources)


def write_sources(directory: Path, columns: int = 64) -> None:
    """Write the sources: they share most of their tensors, and one differs in each.

    Args:
        columns: of each tensor; the sources have 104 bytes for each of them, and a header.
    """
    shared = {
        "layers.0.mlp.experts.0.up_proj.weight": ("F32", (4, columns)),
        "layers.0.mlp.experts.1.up_proj.weight": ("F32", (4, columns)),
        "norm.weight": ("F32", (columns,)),
    }
    for number, name in enumerate(SOURCES):
        own = {f"layers.{number}.self_attn.q_proj.weight": ("BF16", (32, columns))}
        tensors = {
            tensor: (dtype, shape, _finite(tensor, dtype, math.prod(shape)))
            for tensor, (dtype, shape) in {**shared, **own}.items()
        }
        model(directory / name, tensors)


def _finite(name: str, dtype: str, count: int) -> bytes:
    width = WIDTH[dtype]
    data = bytearray(noise(name, count * width))
    data[width - 1 :: width] = b"\x3c" * count  # sign and high exponent bits
    return bytes(data)


def _filled(words: tuple[str, ...], sources: Path) -> tuple[str, ...]:
    places = {name: str(sources / name) for name in SOURCES}
    return tuple(word.format(**places) for word in words)


def _cut_a_blob(store: Path) -> None:
    blob = max((store / "blobs").iterdir(), key=lambda path: (path.stat().st_size, path.name))
    blob.chmod(0o644)
    with blob.open("r+b") as file:
        file.truncate(100)


def _flip_a_bit(store: Path) -> None:
    # Of a blob that x alone has.
    kept, own = (_blobs_of(store, name) for name in ("kept", "x"))
    blob = min(own - kept)
    blob.chmod(0o644)
    with blob.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        (last,) = file.read()
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    blob.chmod(0o444)


def _flip_a_bit_and_forget(store: Path) -> None:
    # Nothing else knows where it was made from.
    _flip_a_bit(store)
    for origin in (store / "origins").iterdir():
        origin.unlink()


def _blobs_of(store: Path, name: str) -> set[Path]:
    path = manifest_path(store, name)
    layers = parse_json(path.read_bytes())["layers"] if path.exists() else ()
    return {store / "blobs" / layer["digest"].replace(":", "-") for layer in layers}


def _leave_litter(store: Path) -> None:
    (store / "tmp" / LITTER).write_bytes(b"x" * 5000)
    (store / "quarantine" / f"sha256-{'0' * 64}.1").write_bytes(b"bad")


CREATE_KEPT = ("create", "kept", "{one}", "--jobs", "1")
CREATE_X = ("create", "x", "{two}", "--jobs", "1")
REPLACE_X = ("create", "x", "{three}", "--jobs", "1")
TWO = (CREATE_KEPT, CREATE_X)
REPAIR = ("verify", "--repair", "--jobs", "1")
SCENARIOS = (
    Scenario("first use", CREATE_X, tag="x"),
    Scenario("create", CREATE_X, (CREATE_KEPT,), tag="x"),
    Scenario("create replaced", REPLACE_X, TWO, tag="x"),
    Scenario("create same", CREATE_X, TWO, tag="x"),
    Scenario("create healed", CREATE_X, (CREATE_X,), _cut_a_blob, tag="x"),
    Scenario("create renewed", CREATE_X, (CREATE_X,), _flip_a_bit, tag="x"),
    Scenario("create rehashed", (*CREATE_X, "--rehash"), TWO, tag="x"),
    Scenario("create quantized", (*CREATE_X, "--quantize", "int4"), (CREATE_KEPT,), tag="x"),
    Scenario(
        "create reported",
        (*CREATE_X, "--quantize", "int4", "--report"),
        (CREATE_KEPT,),
        tag="x",
    ),
    Scenario("cp", ("cp", "kept", "team/y:v1"), TWO, tag="team/y:v1"),
    Scenario("cp over", ("cp", "kept", "x"), TWO, tag="x"),
    Scenario("rm", ("rm", "x"), TWO, tag="x", removes=True),
    Scenario(
        "gc",
        ("gc", "--yes"),
        (*TWO, ("rm", "x")),
        _leave_litter,
        litter=frozenset({LITTER}),
    ),
    Scenario("verify", ("verify", "--jobs", "1"), TWO),
    Scenario("compare", ("verify", "kept", "--source", "{one}", "--jobs", "1"), TWO),
    Scenario("repair", REPAIR, TWO, _flip_a_bit, repairs=True),
    Scenario("repair in vain", REPAIR, TWO, _flip_a_bit_and_forget, ends=5, repairs=True),
    Scenario("list", ("list",), TWO),
    Scenario("show", ("show", "kept", "--tensors"), TWO),
)
