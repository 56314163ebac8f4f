"""Quantized blobs: what the codec says, whatever the threads, in bounded memory, or refused."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
import pytest

from importer.codecs import runtime
from importer.codecs.base import Encoded, Operation, Part, Span
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY, KernelRuntime
from importer.codecs.spec import QUANT_TYPES
from importer.engine import schedule, workers
from importer.engine.reuse import Reuse
from importer.engine.write import write_blobs
from importer.events import BlobDone, Compiling, NoKernels, Wrote
from importer.pipeline import plan_import
from importer.recipes.recipe import Recipe
from importer.recipes.rule import Rule
from importer.request import ImportRequest
from store import CommitOutcome, ModelName, Store
from store.errors import InputError
from store.tensorfile import elements
from tests.importer.builders import REPOSITORY, blobs, create, model

ALL = {
    name: Recipe(name, (Rule(("*",), quant, "asked"),)) for name, quant in QUANT_TYPES.items()
}
KEPT = Rule(("*norm*",), None, "kept", optional=True)
INT4 = Recipe("int4", (KEPT, *ALL["int4"].rules))
ENCODE = Operation.ENCODE
NAN, INFINITY, ONE = 0x7FC0, 0xFF80, 0x3F80


def weights(seed, *shape):
    """BF16 of the size of weights."""
    values = np.random.default_rng(seed).normal(0, 0.02, shape).astype(np.float32)
    return "BF16", shape, (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()


def tensors():
    """Single tensors and a group of experts, most of several chunks of 4 KiB."""
    found = {
        f"model.layers.{n}.mlp.up_proj.weight": weights(n, 24, 64 * n) for n in range(1, 6)
    }
    found |= {f"model.layers.0.mlp.experts.{n}.w": weights(n, 8 + n, 128) for n in range(9)}
    stacked = weights(7, 5, 16, 64)
    return found | {"stack": stacked, "norm": ("F32", (70,)), "none": ("F16", (0, 64))}


@pytest.fixture
def source(tmp_path):
    return model(tmp_path / "m", tensors(), tokenizer__model=bytes(5000))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def other(store, name="other"):
    return Store(store.layout.root.with_name(name))


def plan_of(store, source, recipe=INT4):
    return plan_import(ImportRequest(ModelName.parse("m"), source, recipe), store)


def carry_out(store, plan, threads=1, listen=lambda _: None, **options):
    """Write a plan's blobs; nothing is published."""
    with store.writing("") as writer:
        return write_blobs(plan.jobs, writer, Reuse(store, plan), threads, listen, **options)


@pytest.mark.parametrize("quant", ALL)
def test_a_blob_is_its_header_and_what_the_codec_makes_of_the_whole_tensor(
    store, source, quant, monkeypatch
):
    monkeypatch.setattr(workers, "CHUNK", 4096)
    recipe = Recipe(quant, (KEPT, *ALL[quant].rules))
    plan = plan_of(store, source, recipe)
    content = (source / "model.safetensors").read_bytes()

    written = carry_out(store, plan, threads=3)

    for blob, done in zip(plan.blobs, written, strict=False):
        expected = blob.header
        for tensor in blob.tensors:
            (found,) = tensor.sources
            (array,) = found.arrays
            rows = bytearray(content[array.offset : array.offset + array.nbytes])
            whole = found.shape, range(elements(found.shape))
            parts = tensor.transcoder.convert([rows], *whole, NUMPY).parts
            expected += b"".join(map(bytes, parts))
        assert store.blobs.path(done.ref.digest).read_bytes() == expected


@pytest.mark.parametrize("chunk", [1, 100, 4096, 1 << 19])
@pytest.mark.parametrize("threads", [1, 2, 4, 7])
def test_neither_threads_nor_chunks_change_a_byte(store, source, threads, chunk, monkeypatch):
    create(other(store), source, recipe=INT4)
    monkeypatch.setattr(workers, "CHUNK", chunk)

    create(store, source, recipe=INT4, threads=threads)

    assert blobs(store) == blobs(other(store))


@pytest.mark.parametrize("threads", [1, 4])
def test_sources_that_follow_each_other_are_one_tensor(store, tmp_path, threads, monkeypatch):
    parts = {f"w.{n}": weights(n, 4, 64) for n in range(5)}
    whole = "BF16", (5, 4, 64), b"".join(data for *_, data in parts.values())
    source = model(tmp_path / "m", {**parts, "w": whole})
    plan = plan_of(store, source, ALL["int4"])
    stacked = next(blob for blob in plan.blobs if blob.name == "w")
    single = [tensor for tensor in plan.tensors if tensor.name != "w"]
    (tensor,) = stacked.tensors
    sources = tuple(source for one in single for source in one.sources)
    again = stacked._replace(tensors=(tensor._replace(sources=sources),))
    monkeypatch.setattr(workers, "CHUNK", 256)

    with store.writing("") as writer:
        reuse = Reuse(store, plan)
        reuse.take_notes()
        one, two = (
            write_blobs([job], writer, reuse, threads, lambda _: None)[0]
            for job in (stacked, again)
        )

    assert one.ref == two.ref
    assert (one.installed, two.installed) == (CommitOutcome.NEW, CommitOutcome.REUSED)


def test_events_count_every_byte_that_is_written(store, source):
    events = []

    written = carry_out(store, plan_of(store, source), 4, events.append)

    sizes = {}
    for event in events:
        if isinstance(event, Wrote):
            sizes[event.blob] = sizes.get(event.blob, 0) + event.nbytes
    done = {event.blob: event.nbytes for event in events if isinstance(event, BlobDone)}
    assert sizes == done
    assert sorted(done.values()) == sorted(one.ref.size for one in written)


# What a type cannot hold.


def spoilt(tmp_path, *bad):
    """A model with some bad values in three of its rows."""
    dtype, shape, data = weights(1, 64, 128)
    bits = np.frombuffer(data, np.uint16).copy()
    bits[: 1000 * len(bad) : 1000] = bad
    return model(
        tmp_path / "m", {"good": weights(2, 8, 64), "bad": (dtype, shape, bits.tobytes())}
    )


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(workers, "CHUNK", 512)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(
    ("values", "count"), [([NAN], "a value"), ([NAN, ONE, INFINITY, INFINITY], "3 values")]
)
def test_values_that_are_not_finite_are_refused(store, tmp_path, values, count, threads):
    source = spoilt(tmp_path, *values)

    with pytest.raises(InputError, match=f"^`bad` has {count} that int4 cannot hold") as caught:
        create(store, source, recipe=INT4, threads=threads)

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_NONFINITE", 3)
    assert store.catalog.find(ModelName.parse("m")) is None
    assert list(store.layout.tmp.iterdir()) == []


def test_values_that_are_not_finite_may_be_allowed(store, tmp_path):
    plan = plan_of(store, spoilt(tmp_path, NAN))

    written = carry_out(store, plan, allow_nonfinite=True)

    assert [done.ref.size for done in written] == [job.nbytes for job in plan.jobs]


def test_values_of_a_tensor_that_is_kept_are_not_looked_at(store, tmp_path):
    create(store, spoilt(tmp_path, NAN, INFINITY), threads=2)


# Memory and threads.


def test_memory_does_not_grow_with_a_tensor(store, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "CHUNK", 1 << 17)
    # Loading kernels takes memory, too.
    monkeypatch.setattr(runtime, "_WORTH_LOADING", 1 << 40)
    nbytes = 60 << 20
    source = model(tmp_path / "m", {"w": ("BF16", (nbytes // 512, 256), bytes(nbytes))})
    plan = plan_of(store, source)
    carry_out(store, plan_of(store, spoilt(tmp_path / "warm")))  # imports

    tracemalloc.start()
    carry_out(store, plan, threads=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    # Its scales and biases alone are 7.5 MiB.
    assert peak < 6 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """A transcoder that goes on only when two threads have used it at the same time."""

    met: threading.Barrier
    first: list[None] = field(default_factory=lambda: [None, None])

    def parts(self, shape):
        return (Part("", "U8", shape),)

    def unit(self, _):
        return 1

    def spans(self, _, elements):
        return (Span(elements.start, len(elements)),)

    def convert(self, arrays, *_):
        with contextlib.suppress(IndexError):
            self.first.pop()
            self.met.wait(30)
        return Encoded(tuple(arrays))

    def kernels(self):
        return ()


def test_one_large_tensor_keeps_several_threads_busy(store, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "CHUNK", 100)
    source = model(tmp_path / "m", {"w": ("U8", (800,))})
    plan = plan_of(store, source, Recipe("kept", (Rule(("*",), None, "kept"),)))
    (blob,) = plan.blobs
    (tensor,) = blob.tensors
    meeting = Meeting(threading.Barrier(2))
    job = blob._replace(tensors=(tensor._replace(transcoder=meeting),))

    with store.writing("") as writer:
        (done,) = write_blobs([job], writer, Reuse(store, plan), 2, lambda _: None)

    assert done.ref == carry_out(other(store), plan)[0].ref


# Kernels.


def test_kernels_are_made_ready_while_what_needs_none_is_written(store, source, monkeypatch):
    plan = plan_of(store, source)
    kept = {blob.name for blob in plan.blobs if blob.tensors[0].quant is None}
    kept |= {file.file.path for file in plan.files}
    missing, are_done = set(kept), threading.Event()

    def listen(event):
        if isinstance(event, BlobDone):
            missing.discard(event.blob)
            if not missing:
                are_done.set()

    prepared = []

    def prepare(work, announce):
        assert are_done.wait(30)
        prepared.append(work)
        announce()
        return NUMPY

    monkeypatch.setattr(schedule, "prepare", prepare)
    events = []
    carry_out(store, plan, 1, lambda event: (events.append(event), listen(event)))

    quantized = [tensor for tensor in plan.tensors if tensor.quant is not None]
    nbytes = sum(source.nbytes for tensor in quantized for source in tensor.sources)
    (work,) = prepared
    assert work == dict.fromkeys(codec_for(quantized[0].quant, "BF16").kernels(ENCODE), nbytes)
    assert Compiling() in events


def test_a_lack_of_kernels_is_told(store, source, monkeypatch):
    refused = KernelRuntime(problem="ImportError: no numba")
    monkeypatch.setattr(schedule, "prepare", lambda *_: refused)
    events = []

    carry_out(store, plan_of(store, source), 2, events.append)

    assert NoKernels("ImportError: no numba") in events


def test_kernels_are_not_made_ready_for_what_is_reused(store, source, monkeypatch):
    create(store, source, recipe=INT4)
    moved = source.rename(source.with_name("moved"))
    prepared = []

    def prepare(work, _):
        prepared.extend(work)
        return NUMPY

    monkeypatch.setattr(schedule, "prepare", prepare)

    result = create(store, moved, recipe=INT4, threads=2)

    assert result.tally(CommitOutcome.NEW) == (0, 0)
    assert prepared == []


IMPORT = """
import sys
from pathlib import Path
from importer.codecs.spec import QUANT_TYPES
from importer.recipes.recipe import Recipe
from importer.recipes.rule import Rule
from store import Store
from tests.importer.builders import create
norm = Rule(("*norm*",), None, "kept", optional=True)
rules = norm, Rule(("*",), QUANT_TYPES["int4"], "asked")
create(Store(Path(sys.argv[1])), Path(sys.argv[2]), recipe=Recipe("int4", rules))
heavy = ("importer.codecs.arithmetic", "numba", "llvmlite")
print([name for name in heavy if name in sys.modules])
"""


def test_an_import_that_reuses_everything_needs_no_arithmetic(store, source):
    create(store, source, recipe=INT4)
    store.close()

    done = subprocess.run(
        [sys.executable, "-c", IMPORT, str(store.layout.root), str(source)],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
        text=True,
    )

    assert done.stdout == "[]\n"


def test_kept_and_quantized_tensors_take_turns_the_largest_first(tmp_path, store, monkeypatch):
    def at_once(work):
        done = Future()
        done.set_result(work())
        return done

    monkeypatch.setattr(schedule, "aside", at_once)
    kept = {f"{n}.norm": weights(n, 24 * 64 * n) for n in range(1, 6)}
    quantized = {f"{n}.up_proj.weight": weights(n, 24, 64 * n) for n in range(1, 6)}
    plan = plan_of(store, model(tmp_path / "m", kept | quantized))
    begun = []

    def listen(event):
        if isinstance(event, Wrote) and event.blob not in begun:
            begun.append(event.blob)

    carry_out(store, plan, 1, listen)

    sizes = {job.name: job.nbytes for job in plan.jobs}
    made = [name for name in begun if name in kept or name in quantized]
    assert len(made) == len(kept | quantized)
    assert made == sorted(made, key=lambda name: -sizes[name])
    assert [name in kept for name in made] != sorted(
        (name in kept for name in made), reverse=True
    )
