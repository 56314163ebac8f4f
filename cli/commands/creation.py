"""What `create` does with a request: plan it, carry it out, and tell what became of it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importer.events import Listener
    from importer.planning.plan import Plan
    from importer.request import ImportRequest
    from store import Store

Notes = tuple[str, ...]
"""What is to be told of a Modelfile, beside the warnings of the plan."""


def show_plan(
    request: ImportRequest, store: Store, listen: Listener, notes: Notes, *, json: bool
) -> None:
    """Print what would be made; write nothing to the store."""
    from cli.views.console import out, out_json
    from cli.views.created import notes_of, outlook_document, outlook_lines
    from cli.views.derivation import said
    from cli.views.plan import plan_document, plan_lines
    from cli.views.table import fitted
    from importer.engine.growth import growth_of

    plan = _planned(request, store, listen, notes, only_headers=True)
    growth = growth_of(request, plan, store)
    name, says = request.name, list(said(request.use))
    if json:
        document = {**plan_document(plan, growth), **outlook_document(name, growth, store)}
        out_json("create", {"name": str(name), "dry_run": True, **document, "says": says})
        return
    told = (
        *plan_lines(str(name), plan, growth),
        *(f"{word} as the Modelfile says" for word in says),
        *notes_of(plan),
        *outlook_lines(name, growth, store),
    )
    out(fitted(told))


def make(
    request: ImportRequest, store: Store, listen: Listener, notes: Notes, *, json: bool
) -> None:
    """Import what is asked for, and print what became of it."""
    from cli.commands.options import store_option
    from cli.views.console import out, out_json, talk, warn
    from cli.views.created import result_document, result_lines, warnings_of
    from cli.views.table import fitted
    from importer.pipeline import import_model

    started = time.monotonic()
    _reach_cluster(request)
    plan = _planned(request, store, listen, notes)
    result = import_model(request, plan, store, listen)
    seconds = time.monotonic() - started
    if json:
        out_json("create", result_document(result, plan, seconds))
        return
    for warning in warnings_of(plan, result):
        warn(warning)
    told = result_lines(result, plan, seconds, store_option(store))
    for line in fitted(told, sys.stderr):
        talk(line)
    out([f"{result.name} {result.digest}"])


def _reach_cluster(request: ImportRequest) -> None:
    """Fail before hours of a download if there is no cluster that the import is to use."""
    from importer.sources.location import HubRepository

    if request.scheduler is not None and isinstance(request.source, HubRepository):
        from importer.engine.cluster.connection import reach

        reach(request.scheduler)


def derive(
    request: ImportRequest, store: Store, notes: Notes, *, dry_run: bool, json: bool
) -> None:
    """Make a model of a stored one's layers, of which no weight is read."""
    from cli.views.console import out, out_json, talk, warn
    from cli.views.derivation import (
        plan_document,
        plan_lines,
        result_document,
        result_lines,
    )
    from cli.views.table import fitted
    from importer.modelfile.derive import derive as derived
    from importer.sources.location import StoredModel

    assert isinstance(request.source, StoredModel), "others are imported"
    name, base = request.name, request.source
    request.check_name(store)
    if dry_run and json:
        out_json("create", plan_document(name, base, request.use))
        return
    for note in () if json else notes:
        warn(note)
    if dry_run:
        store.catalog.get(base.manifest)
        out(fitted(plan_lines(name, base, request.use)))
        return
    made = derived(store, name, base.manifest, request.use)
    if json:
        out_json("create", result_document(made, base, notes))
        return
    for line in fitted(result_lines(made, base), sys.stderr):
        talk(line)
    out([f"{made.name} {made.digest}"])


def _planned(
    request: ImportRequest,
    store: Store,
    listen: Listener,
    notes: Notes,
    *,
    only_headers: bool = False,
) -> Plan:
    from importer.pipeline import plan_import

    plan = plan_import(request, store, listen, only_headers=only_headers)
    return plan._replace(warnings=(*plan.warnings, *notes))
