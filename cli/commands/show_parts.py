"""The flags of `ingot show` that print one text of a model, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importer.models.description import Description
    from store import Layer, Store


def print_part(store: Store, model: Description, what: str, *, json: bool) -> None:
    """Print one text of a model.

    Args:
        store: that has the model.
        model: as it was described.
        what: the flag, without its dashes.
        json: print a document that has the text under the flag's name.

    Raises:
        NotFoundError: the model has no such text.
    """
    from cli.views.console import out, out_json
    from importer.models.stored_configuration import read_configuration

    needs_it = what in {"modelfile", "recipe"} or (what == "metadata" and not model.metadata)
    if needs_it and not model.config:
        # What it does not have, and what nobody can read, are two things.
        read_configuration(store, model.manifest.config)
    if what == "metadata":
        _print_metadata(model, json=json)
        return
    if what == "modelfile":
        texts = _modelfile(store, model)
    else:
        texts = _recipe(model) if what == "recipe" else _raw(store, model, what)
    if json:
        out_json("show", {"name": str(model.name), what: "\n".join(texts)})
    else:
        out(line for text in texts for line in _printable_lines(text))


def _print_metadata(model: Description, *, json: bool) -> None:
    from cli.views.console import out, out_json
    from cli.views.metadata import metadata_document, metadata_lines
    from store.errors import NotFoundError

    if not model.metadata:
        message = f"model `{model.name}` has no metadata of a file of weights"
        raise NotFoundError(message, code="E_NO_PART")
    if json:
        out_json("show", {"name": str(model.name), "metadata": metadata_document(model)})
    else:
        out(metadata_lines(model))


def _recipe(model: Description) -> list[str]:
    from importer.recipes.document import to_toml
    from store.errors import NotFoundError

    document = model.record.recipe
    if document is None:
        raise NotFoundError(f"model `{model.name}` has no recipe", code="E_NO_PART")
    return ["\n".join(to_toml(document))]


def _modelfile(store: Store, model: Description) -> list[str]:
    from importer.modelfile.written import modelfile_lines

    lines = modelfile_lines(store, model.name, model.config, model.manifest.layers)
    head = (
        f"# Modelfile of {model.name}: `ingot create NAME -f FILE` recreates this model;",
        "# edit it to make a variant that shares the blobs of its weights.",
        "",
    )
    return ["\n".join((*head, *lines))]


def _raw(store: Store, model: Description, what: str) -> list[str]:
    from importer.models.description import read_text
    from store.errors import NotFoundError

    texts = _conversation(store, model, what)
    if texts is not None:
        return texts
    layers = list(_layers(model, what))
    if not layers:
        raise NotFoundError(f"model `{model.name}` has no {what}", code="E_NO_PART")
    return [read_text(store, layer) for layer in layers]


def _conversation(store: Store, model: Description, what: str) -> list[str] | None:
    """Return the template or the parameters, and tell what Ollama makes of them."""
    from cli.views.console import talk
    from cli.views.conversation import use_of_parameters, use_of_template
    from importer.models.conversation import parameters_of, templates_of
    from store.text import printable

    if what == "template" and (templates := list(templates_of(store, model))):
        for one in templates:
            talk(f"{printable(one.source)}: {use_of_template(model, one)}")
        return [templates[0].text]
    if what == "parameters" and (found := list(parameters_of(store, model))):
        for parameters in found:
            talk(f"{parameters.source}: {use_of_parameters(parameters)}")
        return [parameters.text for parameters in found]
    return None


def _printable_lines(text: str) -> list[str]:
    from store.text import printable

    # Line by line: the text may have been written to drive a terminal.
    return [printable(line, len(line) + 1) for line in text.split("\n")]


def _layers(model: Description, what: str) -> list[Layer]:
    from store import MediaType

    if what == "config":
        return [layer for layer in model.manifest.layers if layer.name == "config.json"]
    kinds = {
        "license": MediaType.LICENSE,
        "template": MediaType.TEMPLATE,
        "system": MediaType.SYSTEM,
        "parameters": MediaType.PARAMS,
    }
    return list(model.layers(kinds[what]))
