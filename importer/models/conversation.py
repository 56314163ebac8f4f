"""How a model is talked to: its templates and parameters, and which of them Ollama uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from importer.models.description import Description
from store import Layer, MediaType, Store, limits
from store.json import Json, JsonError, loads

_TOKENIZER: Final = "tokenizer_config.json"
_JINJA: Final = "chat_template.jinja"
GENERATION: Final = "generation_config.json"
_TEMPLATES: Final = (MediaType.TEMPLATE, MediaType.PROMPT)


class Template(NamedTuple):
    """A template of prompts.

    Attributes:
        source: `TEMPLATE`, as of a Modelfile, or the file that has it, with the name that the
            file gives it, if it has several.
        text: of the template.
        is_used: whether Ollama uses it.
    """

    source: str
    text: str
    is_used: bool = False


class Parameters(NamedTuple):
    """What is said about generating.

    Attributes:
        source: `PARAMETER`, as of a Modelfile, or generation_config.json.
        text: the document.
        used: what Ollama takes of it: all of the former, and where texts end of the latter.
    """

    source: str
    text: str
    used: str


def renderer_of(model: Description) -> str:
    """Return the renderer that Ollama writes prompts with, or empty."""
    renderer = model.config.get("renderer")
    return renderer if isinstance(renderer, str) else ""


def templates_of(store: Store, model: Description) -> Iterator[Template]:
    """Yield the templates of a model, the one that Ollama uses first.

    A renderer that the configuration names goes before all of them. The templates of files are
    in another language (Jinja) than Ollama's.

    Raises:
        IntegrityError: a blob is missing or damaged.
    """
    is_used = not renderer_of(model)
    for kind in _TEMPLATES:
        for layer in model.layers(kind):
            yield Template("TEMPLATE", _text(store, layer), is_used)
            is_used = False
    for file in _files(model, _TOKENIZER):
        yield from _of_tokenizer(_document(store, file).get("chat_template"))
    for file in _files(model, _JINJA):
        yield Template(_JINJA, _text(store, file))


def parameters_of(store: Store, model: Description) -> Iterator[Parameters]:
    """Yield what is said about generating.

    Raises:
        IntegrityError: a blob is missing or damaged.
    """
    for layer in model.layers(MediaType.PARAMS):
        yield Parameters("PARAMETER", _text(store, layer), "all")
    for file in _files(model, GENERATION):
        yield Parameters(GENERATION, _text(store, file), "eos_token_id")


def _of_tokenizer(value: Json) -> Iterator[Template]:
    if isinstance(value, str) and value:
        yield Template(_TOKENIZER, value)
    # transformers writes several as a list of names and templates.
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict):
            name, text = one.get("name"), one.get("template")
            if isinstance(name, str) and isinstance(text, str):
                yield Template(f"{_TOKENIZER}, {name}", text)


def _files(model: Description, name: str) -> Iterator[Layer]:
    return (one for one in model.manifest.layers if one.is_file and one.name == name)


def _text(store: Store, layer: Layer) -> str:
    return store.blobs.read(layer.ref, limits.CONFIG_BYTES).decode("utf-8", "replace")


def _document(store: Store, layer: Layer) -> Mapping[str, Json]:
    data = store.blobs.read(layer.ref, limits.CONFIG_BYTES)
    try:
        value = loads(data, floats=True, constants=True)
    except JsonError:
        return {}
    return value if isinstance(value, dict) else {}
