"""`ingot verify`: compare what the store claims with its bytes, and repair it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.options import (
    JobsOpt,
    JsonOpt,
    ProgressOpt,
    StoreOpt,
    existing_store,
    threads,
)
from cli.views.progress_style import Style

if TYPE_CHECKING:
    from importer.sources.location import Source
    from importer.verification.comparison import Comparison
    from importer.verification.repair import Repair
    from store.findings import Finding, Report

_FOUND = 5
"""The exit code when there are findings."""
_MANY = 8
"""Differences that are one, of a source that is another model's."""
_REASONS = 3
"""Printed of each model; `--json` has all."""


def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Models to verify; by default the whole store."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Compare sizes and headers, and hash nothing.")
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="SOURCE",
            help="Compare with the original, too, which is a directory, a model in the store "
            "or one on the Hub; with --repair, repair from it.",
        ),
    ] = None,
    export: Annotated[
        str | None,
        typer.Option(
            "--export",
            metavar="DEST",
            help="Compare with what `ingot export` wrote into DEST, too.",
        ),
    ] = None,
    imatrix: Annotated[
        str | None,
        typer.Option(
            "--imatrix",
            metavar="FILE",
            help="With --export, the importance matrix that it was made with.",
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Make damaged blobs again from the sources of their models, or fetch them "
            "from the registry, and move those that cannot be repaired into quarantine.",
        ),
    ] = False,
    jobs: JobsOpt = None,
    progress: ProgressOpt = Style.AUTO,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Check every manifest and blob against its digest.

    Changes nothing without --repair. Ends with exit code 5 when there are findings, with
    --repair when some remain.

    Example: ingot verify --quick
    Example: ingot verify llama --source ./Llama-3.2-1B
    """
    from functools import partial

    from cli.commands.sources import find_model, get_model
    from cli.views.console import talk
    from cli.views.progress import listening
    from cli.views.progress_state import COMPARING, READING, VERIFYING, WRITING
    from importer.events import Verified
    from importer.sources.location import parse_source
    from store.errors import UsageError
    from store.verify import verify as verify_store

    _check_call(names or [], source, export, repair=repair)
    if imatrix is not None and export is None:
        hint = "ingot verify NAME --export DEST --imatrix FILE"
        raise UsageError("`--imatrix` goes with `--export`", code="E_USAGE", hint=hint)
    with existing_store(store) as opened:
        models = list(dict.fromkeys(get_model(opened, name) for name in names or ()))
        original = None
        if source is not None:
            original = parse_source(source, partial(find_model, opened))
        compares = original is not None or export is not None
        phases = (VERIFYING, COMPARING) if compares and not repair else (VERIFYING,)
        with listening(progress, phases) as listen:
            workers = threads(jobs)
            report = verify_store(
                opened,
                [model.manifest for model in models],
                quick=quick,
                threads=workers,
                progress=lambda *counted: listen(Verified(*counted)),
            )
            comparison = None
            if original is not None and not repair:
                from importer.verification.compare import compare
                from store.findings import unreadable

                comparison = compare(
                    opened,
                    models[0].manifest,
                    original,
                    damaged=unreadable(report.findings),
                    threads=workers,
                    listen=listen,
                )
            if export is not None:
                from pathlib import Path

                from importer.verification.exported import compare_export

                comparison = compare_export(
                    opened,
                    models[0],
                    Path(export),
                    threads=workers,
                    listen=listen,
                    imatrix=imatrix,
                )
        done = None
        if repair:
            from importer.verification import repair as repairing

            with listening(progress, (READING, WRITING)) as listen:
                done = repairing.repair(
                    opened,
                    report,
                    [model.name for model in models],
                    source=original,
                    threads=workers,
                    listen=listen,
                )
    findings = (*report.findings, *(comparison.findings if comparison else ()))
    if json:
        from cli.views.console import out_json
        from cli.views.verification import verification_document

        out_json("verify", verification_document(report, comparison, findings, done))
    else:
        shown = (*report.findings, *_of_source(comparison, original))
        _print(report, comparison, shown, done, quick=quick)
        if done is None and (advice := _advice(report.findings, names, source)):
            talk(advice)
    if done.remaining if done else findings:
        raise typer.Exit(_FOUND)


def _check_call(
    names: list[str], source: str | None, export: str | None, *, repair: bool
) -> None:
    """Raise UsageError where the options do not go together, or a name cannot be one."""
    from cli.commands.former import AT, check_text
    from store.errors import UsageError

    if source is not None and len(names) != 1:
        message = (
            f"`--source` needs exactly one NAME to {'repair' if repair else 'compare with'}"
        )
        raise UsageError(message, code="E_USAGE", hint="ingot verify NAME --source SOURCE")
    if export is not None and (len(names) != 1 or source is not None or repair):
        message = "`--export` needs exactly one NAME, and neither `--source` nor `--repair`"
        raise UsageError(message, code="E_USAGE", hint="ingot verify NAME --export DEST")
    for name in names:
        check_text(name)
        if repair and AT in name:
            message = f"`{name}` cannot be repaired: no name stands for it, expected a name"
            raise UsageError(
                message, code="E_USAGE", hint=f"ingot cp {name} NAME gives it a name first"
            )


def _print(
    report: Report,
    comparison: Comparison | None,
    findings: tuple[Finding, ...],
    done: Repair | None,
    *,
    quick: bool,
) -> None:
    from cli.views.console import out, talk
    from cli.views.table import fitted
    from store.text import count, printable, size

    for note in (*report.notes, *(comparison.notes if comparison else ())):
        talk(f"note: {note}")
    lines = []
    for finding in findings:
        others = [name for name in finding.models if name != finding.subject]
        models = f" [{', '.join(others)}]" if others else ""
        text = f"{finding.problem}: {finding.subject} {finding.message}{models}"
        lines.append(printable(text, 2000))
    verb = "looked at" if quick else "verified"
    hashed = "" if quick else f" ({size(report.nbytes)})"
    summary = f"{verb} {count(report.models, 'model')}, {count(report.blobs, 'blob')}{hashed}"
    if comparison is not None:
        tensors, files = count(comparison.tensors, "tensor"), count(comparison.files, "file")
        summary += f"; compared {tensors} and {files} with the {comparison.against}"
    summary += f": {count(len(findings), 'problem') if findings else 'no problems'}"
    if done is not None:
        lines += _repair_lines(done)
        summary += f", {len(done.repaired)} repaired" if done.repaired else ""
        summary += f", {len(done.quarantined)} quarantined" if done.quarantined else ""
    lines.append(summary)
    out(fitted(lines))


def _of_source(comparison: Comparison | None, source: Source | None) -> Sequence[Finding]:
    """Return what comparing found, or one finding in place of many where nothing is alike."""
    from store.findings import Finding, Problem

    if comparison is None:
        return ()
    if not comparison.is_of_another or len(comparison.findings) <= _MANY:
        return comparison.findings
    message = f"is of another model: {comparison.differing:,} tensors differ; --json lists them"
    return (Finding(Problem.SOURCE, f"`{source}`", message, comparison.findings[0].models),)


def _advice(findings: Sequence[Finding], names: list[str] | None, source: str | None) -> str:
    """Return what helps: a blob is made again from its source, a manifest by its command."""
    from store.findings import Problem

    if any(finding.subject.startswith("sha256:") for finding in findings):
        if source is not None:
            command = shlex.join(
                ["ingot", "verify", *(names or ()), "--repair", "--source", source]
            )
            return f"`{command}` rebuilds what is damaged from there"
        return "`ingot verify --repair` rebuilds what is damaged from its source"
    if any(finding.problem is Problem.MANIFEST for finding in findings):
        return "`ingot create`, `ingot pull` or `ingot load` brings a model back, by its name"
    return ""


def _repair_lines(done: Repair) -> Iterator[str]:
    from cli.views.remake import advice
    from store.text import printable

    for blob in done.repaired:
        yield printable(f"repaired: {blob.digest} (`{blob.what}`) from {blob.source}", 2000)
    for bad in done.quarantined:
        models = f" [{', '.join(bad.models)}]" if bad.models else ""
        yield printable(f"quarantined: {bad.digest}{models}", 2000)
    if done.hindrance:
        yield printable(f"not quarantined: {done.hindrance}", 2000)
    for model in done.unrepaired:
        for reason in model.reasons[:_REASONS]:
            yield printable(f"not repaired: {model.model}: {reason}", 2000)
        if len(model.reasons) > _REASONS:
            yield f"not repaired: {model.model}: {len(model.reasons) - _REASONS} more reasons"
        yield printable(f"damaged: {model.model}, {advice(model)}", 2000)
