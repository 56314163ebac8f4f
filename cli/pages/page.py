"""A stored model as one page: what the template is given, and the page itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from cli.pages import charts, facts
from cli.views.ollama import runs_of_model, words
from importer.models.abilities import abilities_of
from importer.models.conversation import templates_of
from importer.models.description import Description, read_text
from importer.models.places import role_of
from store import MediaType, Store
from store.text import count, printable, size

_WIDE: Final = (1040.0, 460.0)
_TALL: Final = (360.0, 520.0)
"""Units of a tree map, which are pixels on a desktop and on a phone."""
_PLOT: Final = (960.0, 300.0)
_NARROW: Final = (300.0, 240.0)


def page(store: Store, model: Description) -> str:
    """Return the page of a model: the same text for the same model, wherever it is.

    Only headers and documents are read, and of each role about a million values.

    Raises:
        IntegrityError: a blob is missing or damaged.
    """
    import jinja2

    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"size": size, "u": _units, "many": count}
    style = (here / "style.css").read_text(encoding="utf-8")
    return environment.get_template("model.html").render(**_context(store, model), style=style)


def _context(store: Store, model: Description) -> dict[str, Any]:
    tensors = model.tensors
    quality, runs = facts.quality(store, model), runs_of_model(model)
    return {
        "name": printable(str(model.name)),
        "architecture": printable(model.architecture) or "unknown architecture",
        "digest": str(model.stored.digest),
        "numbers": list(facts.numbers(model)),
        "runs_in": "" if runs is None else printable(words(runs)),
        "capabilities": [printable(word) for word in abilities_of(model)],
        "problems": [printable(problem, facts.LONGEST) for problem in model.problems],
        "wide": facts.drawn(charts.tree_map(tensors, *_WIDE)),
        "tall": facts.drawn(charts.tree_map(tensors, *_TALL)),
        "wide_size": _WIDE,
        "tall_size": _TALL,
        "roles": facts.parts(tensors, [(str(role_of(one.name)), one) for one in tensors]),
        "types": facts.parts(tensors, [(one.type_name, one) for one in tensors]),
        "components": facts.parts(tensors, list(facts.in_components(model))),
        "scatter": charts.scatter(quality, *_PLOT),
        "narrow": charts.scatter(quality, *_NARROW),
        "total": facts.total(quality),
        "worst": facts.worst(quality),
        "values": list(facts.values(store, model)),
        "spark": facts.SPARK,
        "provenance": list(facts.provenance(model)),
        "recipe": facts.recipe(model),
        "sources": facts.files((file.name, file.size) for file in model.record.files),
        "files": facts.files(
            (layer.name, layer.size) for layer in model.manifest.layers if layer.is_file
        ),
        "templates": [
            facts.text(one.source, one.text)
            for one in list(templates_of(store, model))[: facts.MOST]
        ],
        "used": [
            facts.text(title, read_text(store, layer))
            for title, kind in (
                ("System prompt", MediaType.SYSTEM),
                ("Parameters", MediaType.PARAMS),
            )
            for layer in model.layers(kind)
        ],
        "licenses": [
            facts.text(layer.name or "License", read_text(store, layer))
            for layer in list(model.layers(MediaType.LICENSE))[: facts.MOST]
        ],
        "tensors": facts.tensors(tensors),
    }


def _units(number: float) -> str:
    """Return a coordinate, short and the same everywhere."""
    return f"{number:.1f}".removesuffix(".0")
