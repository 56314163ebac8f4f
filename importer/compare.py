"""Compare a stored model with the source that it was made from, byte by byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from importer.inventory import Inventory, read_inventory
from importer.sources.tree import SourceFile, opened, read_exactly
from importer.stored import StoredTensor, read_layer
from store import Digest, Layer, MediaType, ModelName, Store
from store.errors import IngotError
from store.findings import Finding, Problem
from store.json import JsonError, loads
from store.verify import Progress

_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared and what differs.

    Attributes:
        notes: what could not be compared.
        nbytes: that were read from the source.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    tensors: int
    files: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class _Pair:
    """Bytes of a source and bytes of a blob that should be equal."""

    subject: str
    file: SourceFile
    source_offset: int
    digest: Digest
    blob_offset: int
    nbytes: int


def compare(
    store: Store,
    name: ModelName,
    source: Path,
    *,
    jobs: int = 1,
    progress: Progress = lambda _, __: None,
) -> Comparison:
    """Compare every plain tensor and every kept file of a model with a source.

    Raises:
        NotFoundError: there is no such model or source.
        InputError: the source cannot be read.
    """
    manifest = store.catalog.get(name).parse()
    inventory = read_inventory(source, _variant(store, manifest.config))
    models = (str(name),)
    findings: list[Finding] = []
    stored: dict[str, StoredTensor] = {}
    for layer in manifest.layers:
        if layer.media_type == MediaType.TENSOR:
            try:
                stored |= {t.name: t for t in read_layer(store, layer, headers=True)}
            except IngotError as error:
                findings.append(Finding(Problem.SOURCE, layer.name, str(error), models))
    files = {layer.name: layer for layer in manifest.layers if layer.is_file}
    findings += _listing(inventory, stored, files, models)
    quantized = sum(
        stored[t.name].quant is not None for t in inventory.tensors if t.name in stored
    )
    pairs = list(_pairs(inventory, stored, files))
    total = sum(pair.nbytes for pair in pairs)

    def tell(nbytes: int) -> None:
        progress(nbytes, total)

    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda pair: _difference(store, pair, tell), pairs)
        for pair, difference in zip(pairs, results, strict=True):
            if difference is not None:
                findings.append(Finding(Problem.SOURCE, pair.subject, difference, models))
    return Comparison(
        tuple(findings),
        (f"{quantized} tensors are quantized and were not compared",) if quantized else (),
        len(inventory.tensors) - quantized,
        len(inventory.files),
        total,
    )


def _variant(store: Store, config: Layer) -> str | None:
    try:
        document = loads(store.blobs.read(config.ref, config.size), floats=True)
    except (JsonError, IngotError):
        return None
    ours = document.get("ingot") if isinstance(document, dict) else None
    variant = ours.get("variant") if isinstance(ours, dict) else None
    return variant if isinstance(variant, str) else None


def _listing(
    inventory: Inventory,
    stored: dict[str, StoredTensor],
    files: dict[str, Layer],
    models: tuple[str, ...],
) -> Iterator[Finding]:
    theirs = {tensor.name: tensor for tensor in inventory.tensors}
    kept = {file.path: file for file in inventory.files}
    for names, message in (
        (theirs.keys() - stored.keys(), "is a tensor of the source that the model lacks"),
        (stored.keys() - theirs.keys(), "is a tensor that the source lacks"),
        (kept.keys() - files.keys(), "is a file of the source that the model lacks"),
        (files.keys() - kept.keys(), "is a file that the source lacks"),
    ):
        for name in sorted(names):
            yield Finding(Problem.SOURCE, name, message, models)
    for name in sorted(theirs.keys() & stored.keys()):
        tensor, twin = theirs[name], stored[name]
        if twin.quant is None and (twin.dtype, twin.shape) != (tensor.dtype, tensor.shape):
            there = f"{tensor.dtype} {list(tensor.shape)}"
            here = f"{twin.dtype} {list(twin.shape)}"
            message = f"is {there} in the source, {here} here"
            yield Finding(Problem.SOURCE, name, message, models)
    for name in sorted(kept.keys() & files.keys()):
        if kept[name].size != files[name].size:
            message = f"has {kept[name].size} bytes in the source, {files[name].size} here"
            yield Finding(Problem.SOURCE, name, message, models)


def _pairs(
    inventory: Inventory, stored: dict[str, StoredTensor], files: dict[str, Layer]
) -> Iterator[_Pair]:
    for tensor in inventory.tensors:
        twin = stored.get(tensor.name)
        if twin is None or twin.quant is not None or twin.offset is None:
            continue
        if (twin.dtype, twin.shape) == (tensor.dtype, tensor.shape):
            size = tensor.nbytes
            place = (twin.digest, twin.offset)
            yield _Pair(tensor.name, tensor.file, tensor.offset, *place, size)
    for file in inventory.files:
        layer = files.get(file.path)
        if layer is not None and layer.size == file.size:
            yield _Pair(file.path, file, 0, layer.digest, 0, file.size)


def _difference(store: Store, pair: _Pair, tell: Callable[[int], None]) -> str | None:
    ours, theirs = memoryview(bytearray(_CHUNK)), memoryview(bytearray(_CHUNK))
    try:
        with opened(pair.file) as descriptor, store.blobs.open(pair.digest) as blob:
            for start in range(0, pair.nbytes, _CHUNK):
                count = min(_CHUNK, pair.nbytes - start)
                read_exactly(pair.file, descriptor, theirs[:count], pair.source_offset + start)
                got = store.fs.read_into(blob, ours[:count], pair.blob_offset + start)
                # As bytes, which compare at memory speed; views compare item by item.
                if got != count or bytes(ours[:count]) != bytes(theirs[:count]):
                    return f"differs from the source after byte {start}"
                tell(count)
    except IngotError as error:
        return str(error)
    return None
