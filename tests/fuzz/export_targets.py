"""Targets for exports: whatever a model says of itself, each format is written or refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from importer.exports.base import ExportOptions
from importer.exports.export import ExportRequest, export_model, plan_export
from importer.sources.location import Source, StoredModel
from store import MediaType, ModelName, Store
from store.errors import IngotError
from store.text import is_printable
from tests.fuzz.scratch import SCRATCH
from tests.importer.builders import create, handmade
from tests.importer.exports import gguf_checkpoints, gguf_fused, gguf_vision

ASKED: Final = (
    *(("hf", ExportOptions()), ("hf", ExportOptions(dtype="F16"))),
    *(("mlx", ExportOptions()), ("mlx", ExportOptions("int4"))),
    *(("gguf", ExportOptions()), ("gguf", ExportOptions("q4_0"))),
    *(("gguf", ExportOptions(projector=True)), ("gguf", ExportOptions(shard_size=9_000))),
    *(("uqff", ExportOptions()), ("uqff", ExportOptions("afq4,q4k"))),
)
_MAKERS: Final = (
    *((gguf_checkpoints.checkpoint, name) for name in ("llama", "gemma3", "phi3", "deepseek2")),
    *((gguf_checkpoints.checkpoint, name) for name in ("gpt-oss-packed", "llama3")),
    *((gguf_fused.checkpoint, name) for name in ("falcon-groups", "llama4", "lfm2")),
    (gguf_vision.checkpoint, "pixtral"),
)
_NAME: Final = ModelName.parse("m")
_LLAMA3: Final = 5
_DOCUMENTS: Final = ("config.json", "tokenizer.json", "tokenizer_config.json")


def configuration(data: bytes) -> None:
    """A config.json beside weights; the first byte chooses whose."""
    number = data[0] % len(_MAKERS) if data else 0
    source = _checkpoint(number)
    _exported(source, source / "config.json", data[1:])


def vocabulary(data: bytes) -> None:
    """A tokenizer.json; the first byte says whether it is that, or what configures it."""
    source = _checkpoint(_LLAMA3)
    is_tokenizer = not data or data[0] % 2 == 0
    path = source / ("tokenizer.json" if is_tokenizer else "tokenizer_config.json")
    _exported(source, path, data[1:], ASKED[4:5])


def blob(data: bytes) -> None:
    """A tensor of a stored model, as somebody else may have written it."""
    place = _place("stored")
    with Store(place / "store") as store:
        store.fs.is_durable = False
        named = {"name": "model.layers.0.mlp.up_proj.weight"}
        source = _checkpoint(_LLAMA3)
        kept = [
            (MediaType.JSON, (source / path).read_bytes(), {"name": path})
            for path in _DOCUMENTS
        ]
        try:
            handmade(store, [(MediaType.TENSOR, data, named), *kept])
        except IngotError:
            return
        _tried(StoredModel(_NAME), place, store, ASKED)


def _exported(
    source: Path,
    path: Path,
    data: bytes,
    asked: Sequence[tuple[str, ExportOptions]] = ASKED,
) -> None:
    kept = path.read_bytes()
    try:
        path.write_bytes(data)
        _tried(source, _place("out"), None, asked)
    finally:
        path.write_bytes(kept)


def _tried(
    source: Source,
    place: Path,
    store: Store | None,
    asked: Sequence[tuple[str, ExportOptions]],
) -> None:
    """Export a model in several ways: either DEST is whole, or it is not there."""
    for number, (to, options) in enumerate(asked):
        request = ExportRequest(source, place / f"dest-{number}", to, options)
        try:
            planned = plan_export(request, store)
            export_model(request, planned, store)
        except IngotError as refused:
            shown = str(refused)
            assert is_printable(shown)
            assert not request.dest.exists()
        else:
            assert _nbytes(request.dest) == planned.write.nbytes
    shutil.rmtree(place)


def _nbytes(dest: Path) -> int:
    return sum(path.stat().st_size for path in _files(dest))


def _files(dest: Path) -> Iterator[Path]:
    yield from (path for path in dest.rglob("*") if path.is_file()) if dest.is_dir() else [dest]


def _place(name: str) -> Path:
    place = SCRATCH / f"{name}-{os.getpid()}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place


def _checkpoint(number: int) -> Path:
    """Return a checkpoint that this process has for itself."""
    place = SCRATCH / f"checkpoint-{number}-{os.getpid()}"
    if not place.exists():
        maker, name = _MAKERS[number]
        maker(place, name)
    return place


def _seeds(path: str, numbers: Sequence[int]) -> list[bytes]:
    return [bytes([number]) + (_checkpoint(number) / path).read_bytes() for number in numbers]


def _blobs() -> list[bytes]:
    """Return blobs of some types that ingot makes."""
    from importer.recipes.options import parse_options

    found = []
    for kind in (None, "int4", "mxfp4"):
        with Store(_place("seeds") / "store") as store:
            store.fs.is_durable = False
            create(
                store, _checkpoint(_LLAMA3), recipe=parse_options(kind, recipe=kind and "mlx")
            )
            manifest = store.catalog.get(_NAME).parse()
            layer = next(one for one in manifest.layers if "up_proj" in (one.name or ""))
            found.append((store.layout.blobs / layer.digest.file_name).read_bytes())
    return found


TARGETS: dict[str, Callable[[bytes], None]] = {
    "export": configuration,
    "export_vocabulary": vocabulary,
    "export_blob": blob,
}
SEEDS: Final = {
    "export": _seeds("config.json", range(len(_MAKERS))),
    "export_vocabulary": [
        b"\0" + (_checkpoint(_LLAMA3) / "tokenizer.json").read_bytes(),
        b"\1" + (_checkpoint(_LLAMA3) / "tokenizer_config.json").read_bytes(),
    ],
    "export_blob": _blobs(),
}
