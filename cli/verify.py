"""`ingot verify`: compare everything that the store claims with its bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import JobsOpt, JsonOpt, StoreOpt, open_store, threads

if TYPE_CHECKING:
    from importer.compare import Comparison
    from store.findings import Finding, Report

_FOUND = 5
"""The exit code when there are findings."""


def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Models; the whole store by default."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Compare sizes and headers; hash nothing.")
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="DIR", help="Compare with the original, too."),
    ] = None,
    jobs: JobsOpt = None,
    store: StoreOpt = None,
    json: JsonOpt = False,
) -> None:
    """Compare everything that the store claims with its bytes; changes nothing.

    Exit code 5 when there are findings. Example: ingot verify --quick
    """
    from cli.progress import counting
    from store import ModelName
    from store.errors import UsageError
    from store.verify import verify as verify_store

    parsed = [ModelName.parse(name) for name in names or ()]
    if source is not None and len(parsed) != 1:
        message = "`--source` needs exactly one NAME to compare with"
        raise UsageError(message, code="E_USAGE", hint="ingot verify NAME --source DIR")
    with open_store(store) as opened:
        for name in parsed:
            opened.catalog.check_exists(name)
        with counting("verifying") as progress:
            workers = threads(jobs)
            report = verify_store(opened, parsed, quick=quick, jobs=workers, progress=progress)
            comparison = None
            if source is not None:
                from importer.compare import compare

                comparison = compare(opened, parsed[0], source, jobs=workers, progress=progress)
    findings = (*report.findings, *(comparison.findings if comparison else ()))
    if json:
        _print_json(report, comparison, findings)
    else:
        _print(report, comparison, findings, quick=quick)
    if findings:
        raise typer.Exit(_FOUND)


def _print(
    report: Report,
    comparison: Comparison | None,
    findings: tuple[Finding, ...],
    *,
    quick: bool,
) -> None:
    from cli.console import out, talk
    from cli.text import count, size
    from store.text import printable

    for note in (*report.notes, *(comparison.notes if comparison else ())):
        talk(f"note: {note}")
    lines = []
    for finding in findings:
        models = f" [{', '.join(finding.models)}]" if finding.models else ""
        text = f"{finding.problem}: {finding.subject} {finding.message}{models}"
        lines.append(printable(text, 2000))
    verb = "looked at" if quick else "verified"
    hashed = "" if quick else f" ({size(report.nbytes)})"
    summary = f"{verb} {count(report.models, 'model')}, {count(report.blobs, 'blob')}{hashed}"
    if comparison is not None:
        tensors, files = count(comparison.tensors, "tensor"), count(comparison.files, "file")
        summary += f"; compared {tensors} and {files} with the source"
    lines.append(f"{summary}: {count(len(findings), 'problem') if findings else 'no problems'}")
    out(lines)


def _print_json(
    report: Report, comparison: Comparison | None, findings: tuple[Finding, ...]
) -> None:
    from cli.console import out_json

    document: dict[str, object] = {
        "ok": not findings,
        "models": report.models,
        "blobs": report.blobs,
        "bytes": report.nbytes,
        "findings": [
            {
                "problem": finding.problem,
                "subject": finding.subject,
                "message": finding.message,
                "models": list(finding.models),
            }
            for finding in findings
        ],
        "notes": [*report.notes, *(comparison.notes if comparison else ())],
    }
    if comparison is not None:
        document["source"] = {
            "tensors": comparison.tensors,
            "files": comparison.files,
            "bytes": comparison.nbytes,
        }
    out_json("verify", document)
