"""How a model is talked to, in words: its templates and parameters, and what Ollama uses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

from cli.views.text import preview
from importer.models.conversation import (
    Parameters,
    Template,
    parameters_of,
    renderer_of,
    templates_of,
)
from importer.models.description import Description
from store import Store
from store.errors import IngotError
from store.text import printable

_Found = TypeVar("_Found", Template, Parameters)


def use_of_template(model: Description, template: Template) -> str:
    """Say whether Ollama uses a template."""
    if template.is_used:
        return "Ollama uses it"
    if renderer := renderer_of(model):
        return f"Ollama uses its renderer `{printable(renderer)}` instead"
    if template.source == "TEMPLATE":
        return "Ollama uses another one"
    return "Ollama does not read it"


def use_of_parameters(parameters: Parameters) -> str:
    """Say what Ollama takes of parameters."""
    if parameters.used == "all":
        return "Ollama uses them"
    return f"Ollama takes `{parameters.used}` from it, and nothing else"


def template_rows(store: Store, model: Description) -> Iterator[tuple[str, ...]]:
    """Yield a row that names each template, and its first lines."""
    for template in _readable(templates_of(store, model)):
        yield (f"{template.source}: {use_of_template(model, template)}",)
        yield from ((f"  {line}",) for (line,) in preview(template.text))


def parameter_rows(store: Store, model: Description) -> Iterator[tuple[str, ...]]:
    """Yield a row that says where parameters are, and their first lines."""
    for parameters in _readable(parameters_of(store, model)):
        yield (f"{parameters.source}: {use_of_parameters(parameters)}",)
        yield (f"  {' '.join(parameters.text.split())}",)


def conversation_document(store: Store, model: Description) -> dict[str, object]:
    """Return what `--json` says of both."""
    templates = _readable(templates_of(store, model))
    generation = _readable(parameters_of(store, model))
    return {
        "templates": [{"source": one.source, "used": one.is_used} for one in templates],
        "generation": [{"source": one.source, "used": one.used} for one in generation],
    }


def _readable(found: Iterator[_Found]) -> Iterator[_Found]:
    """Yield until a blob is damaged: the description tells of it already."""
    with contextlib.suppress(IngotError, OSError):
        yield from found
