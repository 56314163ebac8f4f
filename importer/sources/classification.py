"""The kind of a source: how it is laid out, and what its model can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from importer.sources.document import Document
from importer.sources.file import read_whole
from importer.sources.inventory import Inventory
from importer.sources.lengths import context_length, embedding_length
from importer.sources.selection import MODULES, PIPELINE_INDEXES
from store import limits
from store.json import Json


@unique
class SourceKind(StrEnum):
    """How a checkpoint is laid out."""

    MODEL = "model"
    PIPELINE = "pipeline"
    SENTENCE = "sentence"


@dataclass(frozen=True, slots=True)
class Classification:
    """The kind of a source; names, shapes and dtypes decide, never a model class.

    Attributes:
        architecture: the class that the configuration names, or empty.
        family: the configuration's `model_type`, or empty.
        scheme: how the weights are quantized already, or None.
        context_length: tokens, or None where the configuration does not say.
        embedding_length: width of the hidden state, or None.
        capabilities: Ollama's words for what the model can do.
    """

    kind: SourceKind
    architecture: str
    family: str
    scheme: str | None
    context_length: int | None
    embedding_length: int | None
    capabilities: tuple[str, ...]


def classify(inventory: Inventory) -> Classification:
    """Return the kind of a source.

    Raises:
        InputError: a configuration has an impossible value in a field that we use.
    """
    kind = _kind(inventory)
    config: Document = inventory.configs.get("", {})
    if kind is SourceKind.PIPELINE:
        indexes = map(inventory.document, PIPELINE_INDEXES)
        index = next((found for found in indexes if found is not None), {})
        architecture = _text(index.get("_class_name"))
        return Classification(
            kind, architecture, "diffusers", inventory.scheme, None, None, ("image",)
        )
    return Classification(
        kind,
        _architecture(config),
        _text(config.get("model_type")),
        inventory.scheme,
        context_length(config),
        embedding_length(config),
        tuple(_capabilities(kind, config, inventory)),
    )


def _kind(inventory: Inventory) -> SourceKind:
    if any(inventory.file(index) is not None for index in PIPELINE_INDEXES):
        return SourceKind.PIPELINE
    if inventory.file(MODULES) is not None:
        return SourceKind.SENTENCE
    return SourceKind.MODEL


def _architecture(config: Document) -> str:
    names = config.get("architectures")
    if isinstance(names, list) and names:
        return _text(names[0])
    return _text(config.get("_class_name"))


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


_GENERATES: Final = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "MTModel")
_THINKS: Final = ("<think>", "</think>")


def _capabilities(kind: SourceKind, config: Document, inventory: Inventory) -> Iterator[str]:
    if kind is SourceKind.SENTENCE:
        yield "embedding"
        return
    if not _architecture(config).endswith(_GENERATES):
        return
    yield "completion"
    if "vision_config" in config or config.get("has_vision") is True:
        yield "vision"
    if "audio_config" in config or "sound_config" in config:
        yield "audio"
    template = _chat_template(inventory)
    if template is not None and all(word in template for word in _THINKS):
        yield "thinking"


def _chat_template(inventory: Inventory) -> str | None:
    tokenizer = inventory.document("tokenizer_config.json") or {}
    template = tokenizer.get("chat_template")
    if isinstance(template, str):
        return template
    file = inventory.file("chat_template.jinja")
    return read_whole(file, limits.CONFIG_BYTES).decode("utf-8", "replace") if file else None
