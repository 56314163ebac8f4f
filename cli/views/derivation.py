"""What making a model of another one did, or would do, in words and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.text import count

if TYPE_CHECKING:
    from importer.modelfile.derive import Derivation
    from importer.request import Use
    from importer.sources.location import StoredModel
    from store import ModelName


def plan_lines(name: ModelName, base: StoredModel, use: Use) -> Iterator[str]:
    """Yield the lines that `create --dry-run` prints."""
    yield f"plan for {name}: the layers of {base}, of which no weight is read"
    for word in said(use):
        yield f"  {word} as the Modelfile says"


def plan_document(name: ModelName, base: StoredModel, use: Use) -> dict[str, object]:
    """Return the document that `create --dry-run --json` prints."""
    return {"name": str(name), "dry_run": True, "base": str(base), "says": [*said(use)]}


def result_lines(made: Derivation, base: StoredModel) -> Iterator[str]:
    """Yield what is told of it."""
    yield f"copied {count(made.kept, 'layer')} of {base}; no weight was read"
    if made.made:
        yield f"wrote {', '.join(layer.title for layer in made.made)}"


def result_document(
    made: Derivation, base: StoredModel, warnings: tuple[str, ...]
) -> dict[str, object]:
    """Return the document that `create --json` prints."""
    return {
        "name": str(made.name),
        "digest": str(made.digest),
        "replaced": str(made.replaced) if made.replaced else None,
        "base": str(base),
        "layers": {"kept": made.kept, "new": len(made.made), "dropped": len(made.dropped)},
        "warnings": list(warnings),
    }


def said(use: Use) -> Iterator[str]:
    """Yield what a Modelfile says of the use of a model."""
    if use.template:
        yield "template"
    if use.system:
        yield "system prompt"
    if use.licenses:
        yield count(len(use.licenses), "license")
    if use.parameters:
        yield count(len(use.parameters), "parameter")
    if use.messages:
        yield count(len(use.messages), "message")
    yield from (word for word in ("parser", "renderer", "requires") if getattr(use, word))
