"""One function for each parser that reads untrusted bytes: total, and no looser than others.

A target takes any bytes. It may raise nothing but what the parser documents; whatever it
accepts must hold up against a second opinion.
"""

from __future__ import annotations

import io
import json
import os
import pickletools
import struct
import zipfile
from collections.abc import Callable

from safetensors import SafetensorError, safe_open

from importer.formats.pytorch.checkpoint import read_checkpoint
from importer.formats.pytorch.values import ITEM_BYTES
from importer.models.config import config_bytes
from importer.planning.plan import BlobPlan
from importer.planning.planner import make_plan
from importer.recipes.options import parse_options
from importer.sources.classification import classify
from importer.sources.containers.sharded import read_index
from importer.sources.document import read_document
from importer.sources.file import Extent, Identity, SourceFile
from importer.sources.inventory import read_inventory
from store.errors import IngotError
from store.json import JsonError, dumps, loads
from store.manifest import Manifest
from store.names import ModelName
from store.paths import why_unsafe
from store.tensorfile import LENGTH_BYTES, data_bytes, header_length, parse_header
from store.text import is_printable, printable
from tests.fuzz import (
    asked_targets,
    export_targets,
    gguf_targets,
    imatrix_targets,
    onnx_targets,
    packed_targets,
    registry_targets,
    scaled_targets,
    store_targets,
    uqff_targets,
)
from tests.fuzz.scratch import SCRATCH
from tests.importer.formats.pytorch.builders import checkpoint_of


def header(data: bytes) -> None:
    """A safetensors file: what we accept, the reference accepts, with the same tensors."""
    try:
        length = header_length(data[:LENGTH_BYTES], len(data), "x")
        found = parse_header(data[LENGTH_BYTES : LENGTH_BYTES + length], len(data), "x")
    except IngotError:
        return
    path = SCRATCH / f"{os.getpid()}.safetensors"
    path.write_bytes(data)
    try:
        with safe_open(path, framework="np") as reference:
            theirs = {
                name: (piece.get_dtype(), tuple(piece.get_shape()))
                for name in reference.keys()  # noqa: SIM118 - no mapping
                for piece in [reference.get_slice(name)]
            }
    except SafetensorError as refused:
        message = f"we accept what the reference refuses: {refused}"
        raise AssertionError(message) from refused
    assert theirs == {entry.name: (entry.dtype, entry.shape) for entry in found.entries}
    assert sum(entry.nbytes for entry in found.entries) == len(data) - found.nbytes
    for entry in found.entries:
        assert data_bytes(entry.dtype, entry.shape) == entry.nbytes
        assert is_printable(entry.name)


def header_json(data: bytes) -> None:
    """The JSON of a header, with a length and data that fit: deeper than `header` gets."""
    header(struct.pack("<Q", len(data)) + data + bytes(_needed(data)))


def manifest(data: bytes) -> None:
    """A manifest: what parses can be written, and parses to the same again."""
    try:
        first = Manifest.parse(data, "x")
    except IngotError:
        return
    assert Manifest.parse(first.to_bytes(), "x") == first


def index(data: bytes) -> None:
    """A shard index: only safe relative names come out."""
    try:
        shards = read_index(_file(data), _Everything())
    except IngotError:
        return
    assert shards
    for shard in shards.values():
        assert why_unsafe(shard) is None
        assert (SCRATCH / shard).resolve().is_relative_to(SCRATCH.resolve())


def config(data: bytes) -> None:
    """A configuration: an object or an error."""
    try:
        document = read_document(_file(data))
    except IngotError:
        return
    assert isinstance(document, dict)


def checkpoint(data: bytes) -> None:
    """A header's JSON and, after a NUL, a configuration: a whole plan, or an error."""
    header_text, _, config_text = data.partition(b"\0")
    directory = SCRATCH / f"{os.getpid()}.checkpoint"
    directory.mkdir(exist_ok=True)
    weights = struct.pack("<Q", len(header_text)) + header_text + bytes(_needed(header_text))
    (directory / "model.safetensors").write_bytes(weights)
    (directory / "config.json").write_bytes(config_text)
    try:
        found = read_inventory(directory)
        facts = classify(found)
        plan = make_plan(found, facts, parse_options("int4").resolve(facts))
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    read = [array.extent for one in found.tensors for array in one.arrays]
    used = [array.extent for t in plan.tensors for s in t.sources for array in s.arrays]
    assert sorted(used, key=_place) == sorted(read, key=_place)
    assert all(job.nbytes == len(job.header) + _data_nbytes(job) for job in plan.blobs)
    assert isinstance(loads(config_bytes(plan), floats=True), dict)


def pytorch(data: bytes) -> None:
    """A PyTorch checkpoint: tensors lie in the file, and other readers see its parts, too."""
    try:
        found = read_checkpoint("x", len(data), lambda start, end: data[start:end])
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    for name, place in found.places.items():
        assert is_printable(name)
        end = place.offset + place.tensor.extent * ITEM_BYTES[place.tensor.dtype]
        assert 0 < place.offset <= end <= len(data)
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            (main,) = (one for one in archive.namelist() if one.endswith("/data.pkl"))
            with archive.open(main) as stored:
                stored._expected_crc = None  # torch.load checks none, and may have saved none
                list(pickletools.genops(stored.read()))


def pytorch_pickle(data: bytes) -> None:
    """The pickle of a checkpoint that has one storage: deeper than `pytorch` gets."""
    pytorch(checkpoint_of(data))


def strict_json(data: bytes) -> None:
    """Strict JSON is a subset of Python's, and what has no float round-trips through Go's."""
    try:
        value = loads(data)
    except JsonError:
        return
    assert value == json.loads(data)
    assert loads(dumps(value)) == value


def name(data: bytes) -> None:
    """A model name: its text parses back to it, its path stays below the manifests.

    But for the case of the default host and namespace, which the text leaves out.
    """
    try:
        found = ModelName.parse(data.decode("utf-8", "surrogateescape"))
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    assert str(ModelName.parse(str(found))) == str(found)
    assert len(found.parts) == 4
    for part in found.parts:
        assert "/" not in part
        assert part not in {"", ".", ".."}
        assert part.isascii()


def text(data: bytes) -> None:
    """Untrusted text: what is printed is printable, and short text is kept or escaped."""
    shown = printable(data.decode("utf-8", "surrogateescape"), 1 << 20)
    assert is_printable(shown)


class _Everything:
    """A source that has whatever an index names."""

    def __contains__(self, path: object) -> bool:
        return True


TARGETS: dict[str, Callable[[bytes], None]] = {
    "header": header,
    "header_json": header_json,
    "manifest": manifest,
    "index": index,
    "config": config,
    "strict_json": strict_json,
    "pytorch": pytorch,
    "pytorch_pickle": pytorch_pickle,
    "name": name,
    "text": text,
    "checkpoint": checkpoint,
    **gguf_targets.TARGETS,
    **imatrix_targets.TARGETS,
    **scaled_targets.TARGETS,
    **uqff_targets.TARGETS,
    **onnx_targets.TARGETS,
    **packed_targets.TARGETS,
    **asked_targets.TARGETS,
    **registry_targets.TARGETS,
    **store_targets.TARGETS,
    **export_targets.TARGETS,
}


def _place(extent: Extent) -> tuple[str, int, int]:
    return extent.file.path, extent.offset, extent.nbytes


def _needed(text: bytes) -> int:
    """The bytes of data that a header promises, if that is a number that can be had."""
    needed = 0
    try:
        document = json.loads(text)
        needed = max(
            value["data_offsets"][1] for key, value in document.items() if key != "__metadata__"
        )
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
        pass
    return needed if isinstance(needed, int) and 0 <= needed <= 1 << 16 else 0


def _data_nbytes(job: BlobPlan) -> int:
    return sum(part.nbytes for tensor in job.tensors for part in tensor.parts)


def _file(data: bytes) -> SourceFile:
    path = SCRATCH / f"{os.getpid()}.json"
    path.write_bytes(data)
    seen = path.stat()
    identity = Identity(seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
    return SourceFile(path.name, path, identity)
