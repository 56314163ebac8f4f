"""`ingot show`: what a model is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.options import JsonOpt, NameArg, StoreOpt, existing_store
from cli.views.sort import Sort

if TYPE_CHECKING:
    from importer.models.description import Description
    from store import Layer, Store


def show(
    name: NameArg,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the files and every tensor, too.")
    ] = False,
    tensors: Annotated[
        bool, typer.Option("--tensors", help="List the tensors, or those that GLOB matches.")
    ] = False,
    glob: Annotated[
        str,
        typer.Argument(metavar="[GLOB]", help="Which tensors --tensors or --quality show."),
    ] = "*",
    sort: Annotated[
        Sort | None,
        typer.Option(
            metavar="ORDER",
            help="The order of the tensors: name, size, and with --quality sqnr, zeroed or "
            "clipped.",
        ),
    ] = None,
    quality: Annotated[
        bool,
        typer.Option("--quality", help="Show what quantizing cost, the worst tensors first."),
    ] = False,
    recipe: Annotated[
        bool,
        typer.Option("--recipe", help="Print only the rules that decided, as a recipe file."),
    ] = False,
    metadata: Annotated[
        bool,
        typer.Option("--metadata", help="Print only what files of weights say of themselves."),
    ] = False,
    config: Annotated[bool, typer.Option("--config", help="Print only config.json.")] = False,
    license_: Annotated[
        bool, typer.Option("--license", help="Print only the license.")
    ] = False,
    template: Annotated[
        bool, typer.Option("--template", help="Print only the template.")
    ] = False,
    system: Annotated[
        bool, typer.Option("--system", help="Print only the system prompt.")
    ] = False,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="Print only the parameters.")
    ] = False,
    modelfile: Annotated[
        bool,
        typer.Option("--modelfile", help="Print a Modelfile that makes the model again."),
    ] = False,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Show what a model is made of, one of ours or one of Ollama's.

    Example: ingot show llama --tensors '*.mlp.*'
    """
    from cli.views.console import out, out_json, talk
    from cli.views.description import document, lines, tensor_lines
    from importer.models.description import describe
    from store.errors import UsageError
    from store.lookup import check_text, get_name
    from store.text import printable

    raw = {
        "recipe": recipe,
        "metadata": metadata,
        "config": config,
        "license": license_,
        "template": template,
        "system": system,
        "parameters": parameters,
        "modelfile": modelfile,
    }
    if sum((*raw.values(), quality)) > 1:
        names = ", ".join(f"--{what}" for what in ("quality", *raw))
        raise UsageError(f"only one of {names}", code="E_USAGE")
    if glob != "*" and not (tensors or quality):
        raise UsageError("GLOB needs `--tensors` or `--quality`", code="E_USAGE")
    if sort is Sort.ERROR and not quality:
        raise UsageError("`--sort error` needs `--quality`", code="E_USAGE")
    check_text(name)
    with existing_store(store) as opened:
        model = describe(opened, get_name(opened.catalog, name))
        if quality:
            _print_quality(opened, model, glob, sort, json=json)
            return
        chosen = next((what for what, wanted in raw.items() if wanted), None)
        if chosen is not None:
            _print_raw(opened, model, chosen, json=json)
            return
        _warn(model)
        by_size = sort is Sort.SIZE
        if json:
            out_json("show", document(opened, model, glob))
        elif tensors:
            rows = list(tensor_lines(model, glob, by_size=by_size))
            out(rows)
            if not rows:
                talk(f"no tensor of {model.name} matches `{printable(glob)}`")
        else:
            out(lines(opened, model, verbose=verbose, by_size=by_size))
    if model.problems:
        raise typer.Exit(5)


def _warn(model: Description) -> None:
    from cli.views.console import warn

    for problem in model.problems:
        warn(problem)
    if not model.manifest.is_supported:
        warn(f"the manifest of {model.name} has an unknown schema or media type")


def _print_quality(
    store: Store, model: Description, glob: str, sort: Sort | None, *, json: bool
) -> None:
    from cli.views.console import out, out_json
    from cli.views.quality import quality_document, quality_lines
    from importer.models.quality import read_quality
    from store import MediaType, limits
    from store.errors import NotFoundError

    layer = next(model.layers(MediaType.QUALITY), None)
    if layer is None:
        raise NotFoundError(
            f"model `{model.name}` has no report of its quality",
            code="E_NO_REPORT",
        )
    found = read_quality(store.blobs.read(layer.ref, limits.QUALITY_BYTES))
    order = sort or Sort.ERROR
    if json:
        rows = quality_document(found, glob, order)
        out_json("show", {"name": str(model.name), "quality": rows})
    else:
        out(quality_lines(found, glob, order))


def _print_metadata(model: Description, *, json: bool) -> None:
    from cli.views.console import out, out_json
    from cli.views.description import metadata_document, metadata_lines
    from store.errors import NotFoundError

    if not model.metadata:
        message = f"model `{model.name}` has no metadata of a file of weights"
        raise NotFoundError(message, code="E_NO_PART")
    if json:
        out_json("show", {"name": str(model.name), "metadata": metadata_document(model)})
    else:
        out(metadata_lines(model))


def _print_raw(store: Store, model: Description, what: str, *, json: bool) -> None:
    from cli.views.console import out, out_json

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
        f"# Modelfile of {model.name}: `ingot create NAME -f FILE` makes the same model of it,",
        "# and with other lines another one, whose weights are the same blobs.",
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
