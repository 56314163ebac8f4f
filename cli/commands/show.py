"""`ingot show`: what a model is made of."""

# Without `from __future__ import annotations`: typer would compile each from its text, 3 ms.

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.options import JsonOpt, ModelArg, StoreOpt, existing_store
from cli.views.sort import Sort

if TYPE_CHECKING:
    from importer.models.description import Description
    from store import Store


def show(
    name: ModelArg,
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
    tree: Annotated[
        bool, typer.Option("--tree", help="Show where the bytes are: layers, roles, types.")
    ] = False,
    tensor: Annotated[
        str | None,
        typer.Option(
            "--tensor",
            metavar="NAME",
            help="Read a tensor, or those that a glob matches: range, histogram, outliers.",
        ),
    ] = None,
    recipe: Annotated[
        bool,
        typer.Option("--recipe", help="Print only the rules that decided, as a recipe file."),
    ] = False,
    metadata: Annotated[
        bool,
        typer.Option("--metadata", help="Print only the metadata of the weight files."),
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
    html: Annotated[
        str | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write a page about the model into FILE, for a browser; - is stdout.",
            show_default=False,
        ),
    ] = None,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Show a model's details, also of a model that Ollama wrote.

    Example: ingot show llama --tensors '*.mlp.*'
    Example: ingot show llama --html llama.html
    """
    from cli.commands.former import check_text
    from cli.commands.sources import get_model
    from importer.models.description import describe

    modes = {
        "tensors": tensors,
        "quality": quality,
        "tree": tree,
        "tensor": tensor is not None,
        "recipe": recipe,
        "metadata": metadata,
        "config": config,
        "license": license_,
        "template": template,
        "system": system,
        "parameters": parameters,
        "modelfile": modelfile,
        "html": html is not None,
    }
    mode = _one_of(modes)
    _check_order(mode, glob, sort, verbose=verbose)
    check_text(name)
    with existing_store(store) as opened:
        model = describe(opened, get_model(opened, name).manifest)
        match mode:
            case "quality":
                _print_quality(opened, model, glob, sort, json=json)
            case "tree":
                _warn(opened, model)
                _print_tree(model, json=json)
            case "tensor":
                from cli.commands.show_tensor import print_statistics

                print_statistics(opened, model, tensor or "", json=json)
            case "html":
                from cli.commands.page import write_page

                _warn(opened, model)
                write_page(opened, model, html or "", json=json)
            case "" | "tensors":
                by_size = sort is Sort.SIZE
                is_list = mode == "tensors" and not json
                _warn(opened, model)
                if glob != "*":
                    _check_match(model, glob)
                if is_list:
                    _print_tensors(model, glob, by_size=by_size)
                else:
                    _print_all(opened, model, glob, verbose=verbose, by_size=by_size, json=json)
            case _:
                from cli.commands.show_parts import print_part

                print_part(opened, model, mode, json=json)
                return
    if model.problems and mode in {"", "tensors", "tree", "html"}:
        raise typer.Exit(5)


def _one_of(modes: Mapping[str, bool]) -> str:
    """Return the one flag that says what is shown, or empty for none."""
    from store.errors import UsageError

    chosen = [mode for mode, is_wanted in modes.items() if is_wanted]
    if len(chosen) > 1:
        given = " and ".join(f"`--{mode}`" for mode in chosen)
        names = ", ".join(f"--{mode}" for mode in modes)
        raise UsageError(f"{given} are given, expected only one of {names}", code="E_USAGE")
    return chosen[0] if chosen else ""


def _check_order(mode: str, glob: str, sort: Sort | None, *, verbose: bool) -> None:
    """Refuse what would be ignored."""
    from store.errors import UsageError
    from store.text import printable

    if glob != "*" and mode not in {"tensors", "quality"}:
        raise UsageError(
            f"`{printable(glob)}` is a second argument, expected one model, or a GLOB behind "
            "`--tensors` or `--quality`",
            code="E_USAGE",
            hint="`ingot show NAME --tensors GLOB` lists tensors; `ingot diff A B` compares "
            "two models",
        )
    if verbose and mode:
        raise UsageError(f"`-v` cannot be combined with `--{mode}`", code="E_USAGE")
    if sort in {Sort.NAME, Sort.SIZE} and not (mode in {"tensors", "quality"} or verbose):
        message = f"`--sort {sort}` needs `--tensors`, `--quality` or `-v`"
        raise UsageError(message, code="E_USAGE")
    if sort not in {None, Sort.NAME, Sort.SIZE} and mode != "quality":
        raise UsageError(f"`--sort {sort}` needs `--quality`", code="E_USAGE")


def _print_all(
    store: "Store", model: "Description", glob: str, *, verbose: bool, by_size: bool, json: bool
) -> None:
    from cli.views.console import out, out_json
    from cli.views.description import document, lines

    if json:
        out_json("show", document(store, model, glob, by_size=by_size))
    else:
        out(lines(store, model, verbose=verbose, by_size=by_size))


def _print_tensors(model: "Description", glob: str, *, by_size: bool) -> None:
    from cli.views.console import out
    from cli.views.tensors import tensor_lines

    out(tensor_lines(model, glob, by_size=by_size))


def _check_match(model: "Description", glob: str) -> None:
    """Refuse a glob that matches nothing, as `--tensor` does: a script asks with it."""
    from fnmatch import fnmatchcase

    from cli.commands.show_tensor import no_tensor

    names = [tensor.name for tensor in model.tensors]
    if not any(fnmatchcase(name, glob) for name in names):
        raise no_tensor("tensors", f"of {model.name}", glob, names)


def _print_tree(model: "Description", *, json: bool) -> None:
    from cli.views.console import out, out_json
    from cli.views.tree import tree_document, tree_lines
    from importer.models.tree import tree_of

    root = tree_of(model)
    if json:
        out_json("show", {"name": str(model.name), "tree": tree_document(root)})
    else:
        out(tree_lines(root))


def _warn(store: "Store", model: "Description") -> None:
    from cli.commands.options import store_option
    from cli.views.console import talk, warn

    for problem in model.problems:
        warn(problem)
    if model.problems and model.name is not None:
        command = f"ingot verify {model.name} --repair{store_option(store)}"
        talk(f"`{command}` makes again what is damaged")
    if not model.manifest.is_supported:
        warn(f"the manifest of {model.name} has an unknown schema or media type")


def _print_quality(
    store: "Store", model: "Description", glob: str, sort: Sort | None, *, json: bool
) -> None:
    from fnmatch import fnmatchcase

    from cli.commands.show_tensor import no_tensor
    from cli.views.console import out, out_json
    from cli.views.quality import quality_document, quality_lines
    from cli.views.table import fitted
    from importer.models.quality import read_quality
    from importer.models.stored_configuration import read_configuration
    from store import MediaType, limits
    from store.errors import NotFoundError

    layer = next(model.layers(MediaType.QUALITY), None)
    if layer is None and not model.config:
        read_configuration(store, model.manifest.config)  # raises, if that is why
    if layer is None and not _may_have_lost(model):
        raise NotFoundError(
            f"model `{model.name}` has no report of its quality: nothing of it was quantized "
            "or rounded",
            code="E_NOT_ROUNDED",
        )
    if layer is None:
        raise NotFoundError(
            f"model `{model.name}` has no report of its quality", code="E_NO_REPORT"
        )
    found = read_quality(
        store.blobs.read(layer.ref, limits.QUALITY_BYTES), f"blob {layer.digest}"
    )
    names = [one.name for one in found]
    if glob != "*" and not any(fnmatchcase(name, glob) for name in names):
        raise no_tensor("quality", f"in the report of {model.name}", glob, names)
    order = sort or Sort.ERROR
    if json:
        rows = quality_document(found, glob, order)
        out_json("show", {"name": str(model.name), "quality": rows})
    else:
        out(fitted(quality_lines(found, glob, order)))


def _may_have_lost(model: "Description") -> bool:
    """Return whether values of a model were quantized or rounded, as its recipe tells."""
    recipe = model.record.recipe
    if recipe is None:
        return any(tensor.quant for tensor in model.tensors)
    rules = recipe.get("rule")
    types = [
        rule.get("type") if isinstance(rule, dict) else None
        for rule in (rules if isinstance(rules, list) else ())
    ]
    return any(kind not in {None, "keep", "repack", "f32"} for kind in types)
