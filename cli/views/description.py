"""A described model in words, in the sections of `ollama show`, and as a document."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from cli.views.conversation import conversation_document, parameter_rows, template_rows
from cli.views.facts import facts_of
from cli.views.ollama import document as runs_document
from cli.views.ollama import runs_of_model
from cli.views.table import command_lines, facts, table, terminal_width, wrapped
from cli.views.text import preview, rfc3339
from importer.models.abilities import abilities_of
from importer.models.description import Description, Share, read_text
from importer.models.dimensions import dimensions_of
from importer.models.fallbacks import fallbacks_of
from importer.sources.stored.tensors import StoredTensor
from store import IngotError, MediaType, Store
from store.text import printable, size

_PARTNERS = 3
"""Names that are given of those that a model shares blobs with."""


def lines(store: Store, model: Description, *, verbose: bool, by_size: bool) -> Iterator[str]:
    """Yield the lines that `show` prints."""
    yield from _section("Model", facts(facts_of(store, model), 4))
    if model.dtypes:
        yield from _section("Types", table(_shares(model.dtypes), 4, right=(1, 2)))
    if model.components:
        yield from _section("Components", table(_shares(model.components), 4, right=(1, 2)))
    yield from _section("Capabilities", _texts((word,) for word in abilities_of(model)))
    yield from _section("Storage", facts(_storage(model), 4))
    yield from _section("Template", _told(template_rows(store, model)))
    yield from _section("Parameters", _told(parameter_rows(store, model)))
    for title, media_type in (
        ("System", MediaType.SYSTEM),
        ("License", MediaType.LICENSE),
    ):
        for layer in model.layers(media_type):
            # The description has told of a blob that is missing or damaged.
            with contextlib.suppress(IngotError, OSError):
                yield from _section(title, _texts(preview(read_text(store, layer))))
    if verbose:
        yield from _verbose(store, model, by_size=by_size)


def _verbose(store: Store, model: Description, *, by_size: bool) -> Iterator[str]:
    """Yield what few want to see: how to make the model again, files and tensors."""
    from cli.views.remake import create_words
    from cli.views.tensors import tensor_lines
    from importer.models.provenance import provenance_of

    if not model.record.is_empty:
        made = provenance_of(store, model.stored)
        words = [printable(word, 4096) for word in create_words(made)]
        made_by = list(command_lines(words, 4))
        if any(layer.is_use for layer in model.manifest.layers):
            shown = f"ingot show {printable(str(model.name))} --modelfile"
            room = (terminal_width() or 1000) - 4
            text = f"and the instructions that `{shown}` prints"
            made_by += [f"    {line}" for line in wrapped(text, room)]
        yield from _section("Made by", made_by)
    yield from _section("Files", table(_files(model), 4, right=(1,)))
    yield from _section("Tensors", list(tensor_lines(model, "*", by_size=by_size, indent=4)))


def document(
    store: Store, model: Description, glob: str, *, by_size: bool
) -> dict[str, object]:
    """Return the document that `show --json` prints."""
    tensors = [tensor for tensor in model.tensors if fnmatchcase(tensor.name, glob)]
    if by_size:
        tensors.sort(key=lambda tensor: -tensor.nbytes)
    record, sharing = model.record, model.sharing
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
        "dimensions": dimensions_of(model.source)._asdict(),
        "weight_bytes": model.weight_bytes,
        "fell_back": [{"name": one.name, "reason": one.reason} for one in fallbacks_of(model)],
        "prequantized": model.prequantized,
        "declared_dtype": model.declared_dtype,
        "capabilities": list(abilities_of(model)),
        **conversation_document(store, model),
        "runs_in": runs_document(runs_of_model(model)),
        "size": model.size,
        "shared": sharing.shared,
        "own": sharing.own,
        "shared_with": [
            {"name": str(one.name), "bytes": one.nbytes} for one in sharing.partners
        ],
        "source": str(origin) if origin else None,
        "repository": record.hub.repository if record.hub is not None else None,
        "revision": record.hub.revision if record.hub is not None else None,
        "variant": record.variant,
        "types": [_share_document(share) for share in model.dtypes],
        "components": [_share_document(share) for share in model.components],
        "config": dict(model.config),
        "layers": [layer.to_json() for layer in model.manifest.layers],
        "tensors": [_tensor_document(tensor) for tensor in tensors],
        "problems": list(model.problems),
    }


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
    yield "own", f"{size(model.sharing.own)}, in no other model"
    yield "shared", f"{size(model.sharing.shared)} with {_partners(model)}"
    yield "digest", model.stored.digest.short


def _partners(model: Description) -> str:
    partners = model.sharing.partners
    named = ", ".join(str(one.name) for one in partners[:_PARTNERS])
    more = f" and {len(partners) - _PARTNERS} more" if len(partners) > _PARTNERS else ""
    return named + more or "other models"


def _files(model: Description) -> list[tuple[str, ...]]:
    files = [layer for layer in model.manifest.layers if layer.is_file]
    return [(layer.name, size(layer.size)) for layer in files]


def _texts(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return rows of one cell, each cut where the terminal ends."""
    return [line for row in rows for line in table([row], 4)]


def _told(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return sentences, broken where the terminal ends, and excerpts below them, cut there."""
    room = (terminal_width() or 1000) - 4
    lines: list[str] = []
    for (text,) in rows:
        if text.startswith(" "):
            lines += table([(text,)], 4)
        else:
            lines += (f"    {line}" for line in wrapped(printable(text, 1000), room))
    return lines


def _section(title: str, found: Sequence[str]) -> list[str]:
    return [f"  {title}", *found, ""] if found else []


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
