"""A described model in words, in the sections of `ollama show`, and as a document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cli.views.collapse import collapse
from cli.views.conversation import conversation_document, parameter_rows, template_rows
from cli.views.ollama import document as runs_document
from cli.views.ollama import runs_of_model, words
from cli.views.table import table
from cli.views.text import preview, rfc3339
from importer.models.description import Description, Share, read_text
from importer.sources.stored.tensors import StoredTensor
from store import MediaType, Store
from store.text import printable, size

if TYPE_CHECKING:
    from importer.models.whole import MetadataEntry


def lines(store: Store, model: Description, *, verbose: bool, by_size: bool) -> Iterator[str]:
    """Yield the lines that `show` prints."""
    yield from _section("Model", _facts(store, model))
    if model.dtypes:
        yield from _section("Types", _shares(model.dtypes))
    if model.components:
        yield from _section("Components", _shares(model.components))
    if model.capabilities:
        yield from _section("Capabilities", ((word,) for word in model.capabilities))
    yield from _section("Storage", _storage(model))
    yield from _section("Template", template_rows(store, model))
    yield from _section("Parameters", parameter_rows(store, model))
    for title, media_type in (
        ("System", MediaType.SYSTEM),
        ("License", MediaType.LICENSE),
    ):
        for layer in list(model.layers(media_type))[:1]:
            yield from _section(title, preview(read_text(store, layer)))
    if verbose:
        yield from _section("Files", _files(model))
        if model.tensors:
            yield "  Tensors"
            yield from tensor_lines(model, "*", by_size=by_size, indent=4)
            yield ""


def tensor_lines(
    model: Description, glob: str, *, by_size: bool, indent: int = 0
) -> Iterator[str]:
    """Yield a row for each tensor that matches; repeated layers are one row."""
    chosen = [tensor for tensor in model.tensors if fnmatchcase(tensor.name, glob)]
    rows = collapse(chosen, lambda tensor: (tensor.type_name, tensor.shape, tensor.nbytes))
    if by_size:
        rows.sort(key=lambda row: -row.first.nbytes * row.repeats)
    cells = [
        (
            row.pattern,
            row.first.type_name,
            "[" + " ".join(map(str, row.first.shape)) + "]",
            size(row.first.nbytes),
            f"x{row.repeats}" if row.repeats > 1 else "",
        )
        for row in rows
    ]
    if cells:
        yield from table(cells, indent, right=(3,))


def metadata_lines(model: Description) -> Iterator[str]:
    """Yield a row for each key that a file of weights has; of an array its length."""
    files = {entry.file for entry in model.metadata}
    rows = []
    for entry in model.metadata:
        shown = _value(entry)
        where = (entry.file,) if len(files) > 1 else ()
        rows.append(tuple(map(printable, (*where, entry.key, shown))))
    yield from table(rows)


def metadata_document(model: Description) -> list[dict[str, object]]:
    """Return the list that `show --metadata --json` prints."""
    return [
        {
            "file": entry.file,
            "key": entry.key,
            "type": entry.type if entry.length is None else f"array of {entry.type}",
            "value": entry.value if _is_json(entry.value) else str(entry.value),
            "length": entry.length,
        }
        for entry in model.metadata
    ]


def _value(entry: MetadataEntry) -> str:
    if entry.length is not None:
        return f"[{entry.length:,} x {entry.type}]"
    value = entry.value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_json(value: object) -> bool:
    """Return whether a value is not a number that JSON lacks."""
    return not isinstance(value, float) or math.isfinite(value)


def document(store: Store, model: Description, glob: str) -> dict[str, object]:
    """Return the document that `show --json` prints."""
    origin = store.origins.get(model.stored.digest)
    return {
        "name": str(model.name),
        "digest": str(model.stored.digest),
        "modified": rfc3339(model.stored.mtime_ns),
        "architecture": model.architecture,
        "format": model.config.get("model_format"),
        "parameters": model.parameters,
        "context_length": model.context_length,
        "embedding_length": model.embedding_length,
        "prequantized": model.prequantized,
        "declared_dtype": model.declared_dtype,
        "capabilities": list(model.capabilities),
        **conversation_document(store, model),
        "runs_in": runs_document(runs_of_model(model)),
        "size": model.size,
        "shared": model.shared,
        "source": str(origin) if origin else None,
        "types": [_share_document(share) for share in model.dtypes],
        "components": [_share_document(share) for share in model.components],
        "config": dict(model.config),
        "layers": [layer.to_json() for layer in model.manifest.layers],
        "tensors": [
            _tensor_document(tensor)
            for tensor in model.tensors
            if fnmatchcase(tensor.name, glob)
        ],
        "problems": list(model.problems),
    }


def _facts(store: Store, model: Description) -> Iterator[tuple[str, str]]:
    yield "architecture", model.architecture or "unknown"
    yield "parameters", _parameters(model)
    if model.context_length is not None:
        yield "context length", str(model.context_length)
    if model.embedding_length is not None:
        yield "embedding length", str(model.embedding_length)
    yield "quantization", _quantization(model)
    if model.declared_dtype is not None:
        yield "config.json says", f"{model.declared_dtype}, as in the source"
    if isinstance(requires := model.config.get("requires"), str):
        yield "requires", requires
    if (runs := runs_of_model(model)) is not None:
        yield "runs in", words(runs)
    origin = store.origins.get(model.stored.digest)
    if origin is not None:
        yield "source", str(origin)


def _parameters(model: Description) -> str:
    if model.parameters is not None:
        return f"{model.parameters:,}"
    human = model.config.get("model_type")
    if not model.tensors and isinstance(human, str) and human:
        return human
    return "unknown"


def _quantization(model: Description) -> str:
    if model.prequantized is not None:
        return f"{model.prequantized} (as in the source)"
    quantized = sorted({tensor.quant for tensor in model.tensors if tensor.quant})
    if quantized:
        return ", ".join(quantized)
    file_type = model.config.get("file_type")
    if not model.tensors and isinstance(file_type, str) and file_type:
        return file_type
    return "none"


def _shares(shares: tuple[Share, ...]) -> list[tuple[str, ...]]:
    total = sum(share.nbytes for share in shares) or 1
    return [
        (
            share.name,
            size(share.nbytes),
            f"{100 * share.nbytes / total:.1f}%",
            f"{share.tensors} tensors" if share.tensors != 1 else "1 tensor",
        )
        for share in shares
    ]


def _storage(model: Description) -> Iterator[tuple[str, str]]:
    yield "size", f"{size(model.size)} in {len(set(model.manifest.blobs))} blobs"
    yield "shared", f"{size(model.shared)} with other models"
    yield "digest", model.stored.digest.short


def _files(model: Description) -> list[tuple[str, ...]]:
    files = [layer for layer in model.manifest.layers if layer.is_file]
    return [(layer.name, size(layer.size)) for layer in files]


def _section(title: str, rows: Iterable[Sequence[str]]) -> list[str]:
    found = [tuple(printable(cell) for cell in row) for row in rows]
    return [f"  {title}", *table(found, 4), ""] if found else []


def _share_document(share: Share) -> dict[str, object]:
    return {"name": share.name, "tensors": share.tensors, "bytes": share.nbytes}


def _tensor_document(tensor: StoredTensor) -> dict[str, object]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "quant_type": tensor.quant,
        "group_size": tensor.group_size,
        "bytes": tensor.nbytes,
        "layer": tensor.layer,
        "digest": str(tensor.digest),
    }
