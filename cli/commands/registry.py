"""`ingot push` and `ingot pull`: models in registries."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from cli.commands.options import (
    InitOpt,
    JsonOpt,
    ModelArg,
    NoClobberOpt,
    ProgressOpt,
    StoreOpt,
    existing_store,
    store_to_fill,
)
from cli.views.progress_style import Style

InsecureOpt = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Allow plain HTTP and certificates that are not trusted; a registry on "
        "this machine may speak HTTP anyway.",
    ),
]
DryRunOpt = Annotated[
    bool, typer.Option("--dry-run", help="Print what would move, and move nothing.")
]


_HUB: Final = r"(?:https?://|oci://)?(?:hf:(?://)?|(?:hf\.co|huggingface\.co)/)([\w.-]+/.+)"


@contextlib.contextmanager
def _perhaps_on_the_hub(reference: str) -> Iterator[None]:
    """Have errors about what is on the Hugging Face Hub name the command that imports it."""
    from store.errors import IngotError

    try:
        yield
    except IngotError as error:
        if found := re.fullmatch(_HUB, reference, re.ASCII):
            command = shlex.join(["ingot", "create", "NAME", f"hf:{found[1]}"])
            error.hint = f"`{command}` imports a repository of the Hugging Face Hub"
        raise


def push(
    name: ModelArg,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="[REFERENCE]",
            help="Where to: HOST/NAMESPACE/MODEL[:TAG]; by default what the name says.",
        ),
    ] = "",
    mount: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMESPACE/MODEL",
            help="Have the registry take what it can from this repository of its own.",
        ),
    ] = None,
    insecure: InsecureOpt = False,
    dry_run: DryRunOpt = False,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Push a model to a registry; blobs that it already has are skipped.

    Credentials are those of `docker login`.

    Example: ingot push llama ghcr.io/me/llama:int4
    Example: ingot push llama localhost:5000/me/llama --dry-run
    """
    from cli.commands.former import check_text
    from cli.commands.sources import get_model
    from cli.views.console import out, out_json, talk
    from cli.views.progress import listening
    from cli.views.progress_state import PUSHING
    from cli.views.registry import push_document, push_lines, push_summary
    from importer.registry.client import Manner
    from importer.registry.push import PushRequest
    from importer.registry.push import push as pushed
    from importer.registry.reference import Reference
    from store.errors import UsageError
    from store.names import DEFAULT_HOST, DEFAULT_NAMESPACE

    place = Reference.parse(reference) if reference else None
    check_text(name)
    opened = existing_store(store)
    model = get_model(opened, name)
    place = place or Reference.of(model.name)
    is_default = (place.host, model.name.namespace) == (DEFAULT_HOST, DEFAULT_NAMESPACE)
    if not reference and is_default:
        message = f"the name `{model.name}` does not say to which registry"
        hint = f"`ingot push {name} HOST/NAMESPACE/MODEL:TAG`, or USER/MODEL of Ollama's own"
        raise UsageError(message, code="E_REGISTRY_PLACE", hint=hint)
    if place.digest is not None:
        message = f"`{place}` has a digest, expected a tag"
        raise UsageError(message, code="E_NAME", hint="The digest of a model is its own")
    stored = model.former or opened.catalog.get(model.name)
    request = PushRequest(stored, place, tuple(mount or ()), dry_run)
    # A dry run pushes nothing, so nothing of it is shown.
    style = Style.NONE if dry_run else progress
    with opened, listening(style, (PUSHING,)) as listen:
        done = pushed(request, opened, Manner(insecure=insecure), listen)
    if json:
        out_json("push", push_document(done, dry_run=dry_run))
    elif dry_run:
        out(push_lines(done))
    else:
        for line in push_summary(done):
            talk(line)
        out([f"{done.reference} {done.digest}"])


def pull(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE", help="A model: HOST/NAMESPACE/MODEL[:TAG], or with @DIGEST."
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]", help="What to call it; by default what the reference says."
        ),
    ] = "",
    insecure: InsecureOpt = False,
    no_clobber: NoClobberOpt = False,
    dry_run: DryRunOpt = False,
    init: InitOpt = False,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Pull a model from a registry; blobs that the store already has are skipped.

    Credentials are those of `docker login`.

    Example: ingot pull ghcr.io/me/llama:int4
    Example: ingot pull ghcr.io/me/llama:int4 llama
    """
    from cli.views.console import out, out_json, talk
    from cli.views.progress import listening
    from cli.views.progress_state import PULLING
    from cli.views.registry import pull_document, pull_lines, pull_summary
    from importer.registry.client import Manner
    from importer.registry.pull import plan_pull
    from importer.registry.pull import pull as pulled
    from importer.registry.reference import Reference
    from store.errors import UsageError
    from store.names import ModelName

    with _perhaps_on_the_hub(reference):
        place = Reference.parse(reference)
    target = ModelName.parse(name) if name else place.name
    if target is None:
        message = f"`{place}` does not say what to call the model"
        hint = f"`ingot pull {place} NAME`"
        raise UsageError(message, code="E_REGISTRY_NAME", hint=hint)
    manner = Manner(insecure=insecure)
    with store_to_fill(store, may_init=init) as opened, _perhaps_on_the_hub(reference):
        if no_clobber:
            opened.catalog.check_free(target)
        if dry_run:
            planned = plan_pull(place, target, opened, manner)
        else:
            with listening(progress, (PULLING,)) as listen:
                planned = pulled(place, target, opened, listen, manner, clobber=not no_clobber)
    if json:
        out_json("pull", pull_document(planned, dry_run=dry_run))
    elif dry_run:
        out(pull_lines(planned))
    else:
        for line in pull_summary(planned):
            talk(line)
        out([f"{planned.name} {planned.digest}"])
