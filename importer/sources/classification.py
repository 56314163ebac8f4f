"""What kind of source an inventory is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from importer.sources.document import Document
from importer.sources.file import read_whole
from importer.sources.inventory import Inventory
from importer.sources.selection import MODULES, PIPELINE_INDEXES
from store import limits
from store.errors import InputError
from store.json import Json
from store.text import printable


@unique
class SourceKind(StrEnum):
    """How a checkpoint is laid out."""

    MODEL = "model"
    PIPELINE = "pipeline"
    SENTENCE = "sentence"


@dataclass(frozen=True, slots=True)
class Classification:
    """What kind of source it is; names, shapes and dtypes decide, never a model class.

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
    """Say what kind of source it is.

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
        _length(config, _CONTEXT),
        _length(config, _EMBEDDING),
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


_CONTEXT: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "n_ctx",
    "seq_length",
    "context_length",
    "max_target_positions",
)
_EMBEDDING: Final = ("hidden_size", "n_embd", "d_model", "dim", "word_embed_proj_dim")
_INNER: Final = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")
_LARGEST: Final = 2**31 - 1
_EXACT: Final = 2.0**24


def _length(config: Document, keys: tuple[str, ...]) -> int | None:
    for part in _with_inner(config):
        for key in keys:
            value = part.get(key)
            if value is None or isinstance(value, (list, dict)):
                continue  # a length for each stage is not one length
            length = value
            if isinstance(value, float) and value.is_integer() and value < _EXACT:
                length = int(value)  # transformers writes 1200.0 for music-flamingo
            if type(length) is not int or not 0 < length <= _LARGEST:
                raise InputError(
                    f"`config.json`: `{key}` is {printable(repr(value))}, expected an integer "
                    f"from 1 to {_LARGEST}",
                    code="E_CONFIG",
                    hint="The configuration is not of this model: fetch it again",
                )
            return length
    return None


def _with_inner(config: Document) -> Iterator[Mapping[str, Json]]:
    yield config
    for key in _INNER:
        inner = config.get(key)
        if isinstance(inner, dict):
            yield from _with_inner(inner)


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
