"""The layers and the words of a configuration that the use of a model becomes.

Layers are what Ollama's server makes of a Modelfile (`server/create.go`), byte for byte, and
what it does with those of the model that FROM names: a template, a system prompt and messages
replace the old ones, licenses are added, parameters are merged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from importer.recipes.runtimes import FIRST
from importer.request import Message, Use
from store import BlobRef, Layer, MediaType
from store.errors import InputError, IntegrityError
from store.json import Json, JsonError, dumps, loads

Put = Callable[[bytes], Layer]
"""Put a document into the store; the layer's media type is not set yet."""
Read = Callable[[Layer], bytes]

_ORDER: Final = (
    "model_format", "model_family", "model_families", "model_type", "file_type", "renderer",
    "parser", "requires", "remote_host", "remote_model", "capabilities", "context_length",
    "embedding_length", "base_name", "draft", "architecture", "os",
)  # fmt: skip
"""The fields of Ollama's ConfigV2; what else there is goes behind them."""


_TEMPLATES: Final = (MediaType.TEMPLATE, MediaType.PROMPT)
"""Ollama reads the second one, of earlier versions, as the first."""


def applied(layers: Iterable[Layer], use: Use, read: Read, put: Put) -> tuple[Layer, ...]:
    """Return the layers of a model with what a use adds and replaces.

    A document that is there already stays where it is, so that a Modelfile that says what the
    model has makes the same manifest.

    Args:
        layers: of the model that it is made from; none for a new one.
        use: what was asked for.
        read: gives the content of a layer.
        put: stores a document.
    """
    made = list(layers)
    if use.template:
        made = _replaced(
            made, (MediaType.TEMPLATE, MediaType.PROMPT), use.template.encode(), put
        )
    if use.system:
        made = _replaced(made, (MediaType.SYSTEM,), use.system.encode(), put)
    for text in use.licenses:
        layer = _as(put(text.encode()), MediaType.LICENSE)
        if not any(layer.digest == one.digest for one in _of(made, MediaType.LICENSE)):
            made.append(layer)
    if use.parameters:
        made = _with_parameters(made, use, read, put)
    if use.messages:
        made = _replaced(made, (MediaType.MESSAGES,), messages_bytes(use.messages), put)
    return tuple(made)


def inherited(use: Use, words: Mapping[str, str]) -> Use:
    """Return a use with a stored model's words where it has none."""
    return use._replace(
        renderer=use.renderer or words.get("renderer", ""),
        parser=use.parser or words.get("parser", ""),
        requires=use.requires or words.get("requires", ""),
    )


def with_stops(use: Use, family: str) -> Use:
    """Return a use with the stops that Ollama gives a GGUF file of some families.

    As its server does: where neither PARSER and RENDERER nor `stop` say otherwise.
    """
    stops = _STOPS.get(family)
    if stops is None or (use.parser and use.renderer) or "stop" in use.parameters:
        return use
    return use._replace(parameters={**use.parameters, "stop": [*stops]})


_STOPS: Final = {"gemma4": ("<turn|>",)}


def use_layers(
    put: Callable[[bytes], BlobRef], there: Sequence[tuple[Layer, bytes]], use: Use
) -> tuple[Layer, ...]:
    """Store the documents of a use; return their layers, with those of a stored model.

    Args:
        put: stores and pins one.
        there: what the model that the new one is made from has, with contents.
        use: what was asked for.
    """

    def layer_of(data: bytes) -> Layer:
        ref = put(data)
        return Layer("", ref.digest, ref.size)

    for _, data in there:
        put(data)
    contents = {layer.digest: data for layer, data in there}
    layers = (layer for layer, _ in there)
    return applied(layers, use, lambda layer: contents[layer.digest], layer_of)


def messages_bytes(messages: Iterable[Message]) -> bytes:
    """Return the document of a messages layer."""
    return dumps([{"role": one.role, "content": one.content} for one in messages]) + b"\n"


def configured(config: bytes, use: Use) -> bytes:
    """Return a configuration with the words of a use; the same bytes where it changes nothing.

    Raises:
        IntegrityError: the configuration is not one.
        InputError: a model of tensors requires a version that does not read them.
    """
    words = {"renderer": use.renderer, "parser": use.parser, "requires": use.requires}
    document = _document(config)
    if document.get("model_format") == "safetensors" and use.requires:
        _check_version(use.requires)
    changes = {key: word for key, word in words.items() if word and document.get(key) != word}
    if not changes:
        return config
    return dumps(ordered({**document, **changes})) + b"\n" * config.endswith(b"\n")


def _check_version(requires: str) -> None:
    numbers = [int(one) for one in re.findall(r"[0-9]+", requires.partition("+")[0])[:3]]
    version = tuple(numbers + [0] * (3 - len(numbers)))
    first = tuple(map(int, FIRST.split(".")))
    if version < first or (version == first and "-" in requires):
        raise InputError(
            f"REQUIRES {requires} is below {FIRST}, the first Ollama that reads tensors",
            code="E_REQUIRES",
        )


def _document(config: bytes) -> dict[str, Json]:
    try:
        document = loads(config)
    except JsonError as error:
        raise IntegrityError(f"the configuration: {error}", code="E_CONFIG") from error
    if not isinstance(document, dict):
        raise IntegrityError("the configuration is not a JSON object", code="E_CONFIG")
    return document


def ordered(document: dict[str, Json]) -> dict[str, Json]:
    """Return a configuration with its fields in Ollama's order."""
    known = {key: document[key] for key in _ORDER if key in document}
    return known | document


def _with_parameters(layers: list[Layer], use: Use, read: Read, put: Put) -> list[Layer]:
    documents = list(_of(layers, MediaType.PARAMS))
    if not documents and not use.parameters:
        return layers
    from importer.modelfile.parameters import decode, encode  # noqa: PLC0415 - 3 ms

    there: dict[str, object] = {}
    for layer in documents:
        try:
            there |= decode(read(layer))
        except ValueError as error:
            raise IntegrityError(
                f"blob {layer.digest} is not a document of parameters", code="E_JSON"
            ) from error
    merged = {**there, **use.parameters}
    if encode(merged) == encode(there):
        return layers
    return _replaced(layers, (MediaType.PARAMS,), encode(merged), put)


def _replaced(
    layers: list[Layer], kinds: tuple[MediaType, ...], data: bytes, put: Put
) -> list[Layer]:
    layer = _as(put(data), kinds[0])
    there = [one for one in layers if one.media_type in kinds]
    if [one.digest for one in there] == [layer.digest]:
        return layers
    return [*(one for one in layers if one not in there), layer]


def _of(layers: Iterable[Layer], kind: MediaType) -> Iterator[Layer]:
    return (one for one in layers if one.media_type == kind and not one.is_file)


def _as(layer: Layer, kind: MediaType) -> Layer:
    return Layer(kind, layer.digest, layer.size)
