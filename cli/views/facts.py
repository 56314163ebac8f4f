"""What a model is: the first section of `show`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cli.views.ollama import runs_of_model, words
from importer.models.description import Description
from importer.models.dimensions import Dimensions, dimensions_of
from importer.models.fallbacks import fallbacks_of
from importer.models.summary import shortened
from store import IngotError, MediaType, Store, limits
from store.json import Json
from store.text import count, size

_LARGE_REPORT = 4 << 20
"""Bytes of a report of quality that `show` leaves alone: reading it would take a second."""
_NAMED = 2


def facts_of(store: Store, model: Description) -> Iterator[tuple[str, str]]:
    """Yield what is known of a model, each fact with its name."""
    yield "architecture", model.architecture or "unknown"
    yield "parameters", _parameters(model)
    yield from _dimensions(dimensions_of(model.source))
    if model.context_length is not None:
        yield "context length", f"{model.context_length:,}"
    if model.embedding_length is not None:
        yield "embedding length", f"{model.embedding_length:,}"
    yield "quantization", _quantization(model)
    if model.parameters:
        yield "bits per weight", f"{8 * model.weight_bytes / model.parameters:.2f}"
    if model.declared_dtype is not None:
        yield "config.json says", f"{model.declared_dtype}, as in the source"
    runs = runs_of_model(model)
    runs_somewhere = runs is None or bool(runs.version)
    if isinstance(requires := model.config.get("requires"), str) and runs_somewhere:
        yield "requires", f"Ollama {requires}"
    if runs is not None:
        yield "runs in", words(runs)
    elif any(model.layers(MediaType.MODEL)):
        yield "runs in", "programs that load GGUF files, such as Ollama and llama.cpp"
    yield from _recipe(model)
    yield from _sources(store, model)
    if (quality := _quality(store, model)) is not None:
        yield "quality", quality
    if (fallbacks := _fallbacks(model)) is not None:
        yield "fell back", fallbacks


def _dimensions(found: Dimensions) -> Iterator[tuple[str, str]]:
    if found.layers is not None:
        yield "layers", f"{found.layers:,}"
    if found.heads is not None:
        kv_heads = f", {found.kv_heads:,} for keys and values" if found.kv_heads else ""
        yield "heads", f"{found.heads:,}{kv_heads}"
    if found.experts is not None:
        used = f", {found.experts_used:,} for each token" if found.experts_used else ""
        yield "experts", f"{found.experts:,}{used}"
    if found.vocabulary is not None:
        yield "vocabulary", f"{found.vocabulary:,}"


def _parameters(model: Description) -> str:
    if model.parameters is not None:
        return f"{model.parameters:,}"
    human = model.config.get("model_type")
    if not model.tensors and isinstance(human, str) and human:
        return shortened(human)
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


def _recipe(model: Description) -> Iterator[tuple[str, str]]:
    """Yield which recipe decided, and with which options."""
    recipe = model.record.recipe or {}
    name, wanted = _text(recipe.get("name")), _text(recipe.get("type"))
    if not name or (name == "plain" and not wanted):
        return
    options = [f"for {wanted}"] if wanted else []
    if misaligned := _text(recipe.get("misaligned")):
        options.append(f"misaligned: {misaligned}")
    if experts := _text(recipe.get("experts")):
        options.append(f"experts {experts}")
    if _text(recipe.get("nonfinite")):
        options.append("NaN and infinity allowed")
    yield "recipe", f"{name} {', '.join(options)}".rstrip()
    layer = next(model.layers(MediaType.IMATRIX), None)
    if layer is not None:
        yield "importance", f"matrix {layer.digest.short}, {size(layer.size)}"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _sources(store: Store, model: Description) -> Iterator[tuple[str, str]]:
    record = model.record
    if record.hub is not None:
        yield "repository", f"hf.co/{record.hub.repository}"
        yield "revision", record.hub.revision
    if record.variant is not None:
        yield "variant", record.variant
    if record.model is not None:
        yield "made of", _name_of(store, str(record.model))
    origin = store.origins.get(model.stored.digest)
    if origin is not None:
        yield "source", str(origin)


def _name_of(store: Store, digest: str) -> str:
    from store.lookup import find_name

    found = find_name(store.catalog, digest)
    short = digest.removeprefix("sha256:")[:12]
    return (
        f"{found} ({short})" if found is not None else f"{short}, which has no name any longer"
    )


def _quality(store: Store, model: Description) -> str | None:
    """Return the quality in a line, where there is a report of it."""
    layer = next(model.layers(MediaType.QUALITY), None)
    if layer is None:
        return None
    more = f"`ingot show {model.name} --quality`"
    if layer.size > _LARGE_REPORT:
        return f"{more} has a report"
    from importer.codecs.metrics import Deviation
    from importer.models.quality import read_quality
    from importer.models.suspicion import suspicion_of

    found = []
    with contextlib.suppress(IngotError, OSError):
        found = read_quality(
            store.blobs.read(layer.ref, limits.QUALITY_BYTES), f"blob {layer.digest}"
        )
    known = [(one.deviation, one.name) for one in found if one.deviation is not None]
    if not known:
        return f"{more} has a report" if found else "the report cannot be read"
    total = Deviation.total(deviation for deviation, _ in known)
    worst, name = min(known, key=lambda pair: pair[0].sqnr)
    suspicious = sum(suspicion_of(one) is not None for one in found)
    warning = (
        f", {suspicious:,} of {count(len(found), 'tensor')} suspicious" if suspicious else ""
    )
    return f"{total.sqnr:.1f} dB, worst {worst.sqnr:.1f} dB of {name}{warning}"


def _fallbacks(model: Description) -> str | None:
    """Name the tensors that do not fit their rule, repeated layers in one name."""
    found = fallbacks_of(model)
    if not found:
        return None
    from cli.views.collapse import collapse

    rows = collapse(found, lambda one: one.reason)
    named = [f"{row.pattern} ({row.first.reason})" for row in rows[:_NAMED]]
    more = f" and {count(sum(row.repeats for row in rows[_NAMED:]), 'other')}"
    verb = "is not quantized" if len(found) == 1 else "are not quantized"
    listed = ", ".join(named) + (more if len(rows) > _NAMED else "")
    return f"{count(len(found), 'tensor')} {verb}: {listed}"
