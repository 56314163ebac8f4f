"""What `verify` found, as a JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importer.verification.comparison import Comparison
    from importer.verification.repair import Repair
    from store.findings import Finding, Report


def verification_document(
    report: Report,
    comparison: Comparison | None,
    findings: tuple[Finding, ...],
    done: Repair | None,
) -> dict[str, object]:
    """Return what `verify --json` prints: what was compared, found, and repaired."""
    document: dict[str, object] = {
        "ok": not (done.remaining if done else findings),
        "models": report.models,
        "blobs": report.blobs,
        "bytes": report.nbytes,
        "findings": [_finding(finding) for finding in findings],
        "notes": [*report.notes, *(comparison.notes if comparison else ())],
    }
    if comparison is not None:
        document[comparison.against] = {
            "tensors": comparison.tensors,
            "files": comparison.files,
            "bytes": comparison.nbytes,
        }
    if done is not None:
        from cli.views.remake import helping_command

        document |= {
            "repaired": [
                {"digest": str(blob.digest), "bytes": blob.size, "source": str(blob.source)}
                for blob in done.repaired
            ],
            "quarantined": [
                {"digest": str(bad.digest), "models": list(bad.models)}
                for bad in done.quarantined
            ],
            "not_quarantined": done.hindrance or None,
            "remaining": [_finding(finding) for finding in done.remaining],
            "damaged": [
                {
                    "model": model.model,
                    "command": helping_command(model),
                    "reasons": list(model.reasons),
                }
                for model in done.unrepaired
            ],
        }
    return document


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "problem": finding.problem,
        "subject": finding.subject,
        "message": finding.message,
        "models": list(finding.models),
    }
