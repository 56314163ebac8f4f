"""The kind of a source: how it is laid out, and what its model can do."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, unique
from typing import Final, NamedTuple

from importer.sources.adapter import adapter_of
from importer.sources.chat import ChatTemplates, chat_of
from importer.sources.document import Document
from importer.sources.file import read_whole
from importer.sources.inventory import Inventory
from importer.sources.lengths import context_length, embedding_length
from importer.sources.selection import MODULES, PIPELINE_INDEXES
from store import limits
from store.json import Json

TOKENIZER: Final = "tokenizer_config.json"
JINJA: Final = "chat_template.jinja"


_DIGITS: Final = 10
"""Of a length that makes sense."""


@unique
class SourceKind(StrEnum):
    """How a checkpoint is laid out."""

    MODEL = "model"
    PIPELINE = "pipeline"
    SENTENCE = "sentence"

    @property
    def noun(self) -> str:
        """What it is called in a sentence, with its article."""
        match self:
            case SourceKind.MODEL:
                return "a model"
            case SourceKind.PIPELINE:
                return "a pipeline of diffusers"
            case SourceKind.SENTENCE:
                return "a model of sentence embeddings"


class Classification(NamedTuple):
    """The kind of a source; names, shapes and dtypes decide, never a model class.

    Attributes:
        architecture: the class that the configuration names, or empty.
        family: the configuration's `model_type`, or empty.
        scheme: how the weights are quantized already, or None.
        context_length: tokens, or None where the configuration does not say.
        embedding_length: width of the hidden state, or None.
        capabilities: Ollama's words for what the model can do.
        parser: Ollama's, of the model's answers, or empty.
        renderer: Ollama's, of its prompts, or empty.
        is_packed: whether values of its tensors are stored as codes and scales.
        format: the key of the format of its weights, or empty.
    """

    kind: SourceKind
    architecture: str
    family: str
    scheme: str | None
    context_length: int | None
    embedding_length: int | None
    capabilities: tuple[str, ...]
    parser: str = ""
    renderer: str = ""
    is_packed: bool = False
    format: str = ""


def classify(inventory: Inventory, parser: str = "") -> Classification:
    """Return the kind of a source.

    Args:
        inventory: of the source.
        parser: of answers, in place of the one that belongs to the architecture.

    Raises:
        InputError: a configuration has an impossible value in a field that we use.
    """
    kind = _kind(inventory)
    # An adapter has the configuration of another model beside it, if any.
    is_adapter = adapter_of(inventory) is not None
    config: Document = {} if is_adapter else inventory.configs.get("", {})
    if not config and not is_adapter:
        config = _of_metadata(inventory)
    chat = chat_of(config, chat_templates(inventory), parser)
    capabilities = (*chat.capabilities, *_ALSO[kind])
    is_packed = not all(tensor.is_plain for tensor in inventory.tensors)
    formats = (file.role.format for file in inventory.weights)
    format_ = next(filter(None, formats), "")
    if kind is SourceKind.PIPELINE:
        indexes = map(inventory.document, PIPELINE_INDEXES)
        index = next((found for found in indexes if found is not None), {})
        return Classification(
            kind,
            _text(index.get("_class_name")),
            "diffusers",
            inventory.scheme,
            None,
            None,
            capabilities,
            chat.parser,
            chat.renderer,
            is_packed,
            format_,
        )
    return Classification(
        kind,
        _architecture(config),
        _text(config.get("model_type")),
        inventory.scheme,
        context_length(config),
        embedding_length(config),
        capabilities,
        chat.parser,
        chat.renderer,
        is_packed,
        format_,
    )


_ALSO: Final[Mapping[SourceKind, tuple[str, ...]]] = {
    SourceKind.MODEL: (),
    SourceKind.PIPELINE: ("image",),
    SourceKind.SENTENCE: ("embedding",),
}
"""What a layout tells of a model beside its configuration."""


def _of_metadata(inventory: Inventory) -> Document:
    """Return what GGUF says in place of a `config.json`, under the names that this has."""
    told = next(iter(inventory.metadata.values()), {})
    family = told.get("general.architecture")
    if family is None:
        return {}
    names = {"context_length": "max_position_embeddings", "embedding_length": "hidden_size"}
    found: dict[str, Json] = {"model_type": family}
    for key, name in names.items():
        number = told.get(f"{family}.{key}", "")
        if number.isascii() and number.isdigit() and 0 < len(number) < _DIGITS:
            found[name] = int(number)
    return found


def _kind(inventory: Inventory) -> SourceKind:
    if any(inventory.file(index) is not None for index in PIPELINE_INDEXES):
        return SourceKind.PIPELINE
    if inventory.file(MODULES) is not None:
        return SourceKind.SENTENCE
    if len(inventory.components) > 1 and "" not in inventory.components:
        return SourceKind.PIPELINE  # whose index did not come along
    return SourceKind.MODEL


def _architecture(config: Document) -> str:
    names = config.get("architectures")
    if isinstance(names, list) and names:
        return _text(names[0])
    return _text(config.get("_class_name"))


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def chat_templates(inventory: Inventory) -> ChatTemplates:
    """Return the chat templates that the files of a source hold.

    Raises:
        InputError: tokenizer_config.json is not a JSON object.
    """
    tokenizer = inventory.document(TOKENIZER) or {}
    file = inventory.file(JINJA)
    jinja = read_whole(file, limits.CONFIG_BYTES).decode("utf-8", "replace") if file else ""
    return ChatTemplates(_text(tokenizer.get("chat_template")), jinja)
