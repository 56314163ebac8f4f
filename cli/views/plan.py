"""A plan in words, and as a document."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from cli.views.allocation import allocation_document, allocation_lines
from cli.views.collapse import collapse
from cli.views.ollama import document, runs_of_plan, words_of_plan
from cli.views.rules import rule_lines
from cli.views.table import table
from importer.engine.growth import Growth
from importer.planning.outcome import Outcome, outcomes_of
from importer.planning.plan import Plan
from importer.recipes.document import to_document
from importer.recipes.runtimes import STACKED_ONLY
from store import MediaType
from store.tensorfile import elements
from store.text import count, printable, size

_BEFORE: Final = attrgetter("source_nbytes")
_AFTER: Final = attrgetter("nbytes")
_ROUNDED: Final = 1000
"""Bytes from which on a number in KB or more says something else than the number itself."""


@dataclass(slots=True)
class _Total:
    tensors: int = 0
    blobs: int = 0
    nbytes: int = 0


def plan_lines(name: str, plan: Plan, growth: Growth) -> Iterator[str]:
    """Yield the lines that `create --dry-run` prints."""
    facts = plan.classification
    yield f"plan for {name}: {facts.kind}{_in_words(facts.architecture)}"
    yield ""
    is_whole = plan.inventory.whole is not None
    yield from _whole_lines(plan) if is_whole else _tensor_lines(plan, growth)
    if plan.allocation is not None:
        yield from allocation_lines(plan.allocation)
    yield _new_bytes(growth)
    yield from _file_lines(plan)
    for warning in plan.warnings:
        yield ""
        yield f"warning: {printable(warning, 1000)}"


def _tensor_lines(plan: Plan, growth: Growth) -> Iterator[str]:
    """Yield what becomes of the tensors, and where they run."""
    facts = plan.classification
    if not plan.recipe.is_plain or facts.is_packed:
        yield from _classes(plan)
        yield ""
    rows = [("COMPONENT", "TENSORS", "BLOBS", "BYTES")]
    totals = _totals(plan)
    for component, total in totals.items():
        rows.append((component or ("the model" if len(totals) == 1 else "."), *_cells(total)))
    if plan.files:
        files = _Total(0, len(plan.files), sum(file.nbytes for file in plan.files))
        rows.append((f"({count(files.blobs, 'file')})", "", *_cells(files)[1:]))
    made, bound = _documents(growth), ", at most" if growth.has_bound else ""
    rows.append((f"({count(made.blobs, 'document')}{bound})", "", *_cells(made)[1:]))
    rows.append((f"total{bound}", *_cells(_sum(plan, growth))))
    yield from table(rows, right=(1, 2, 3))
    yield ""
    if (scheme := plan.inventory.scheme) is not None:
        yield f"quantized already ({scheme}){_kept(plan)}"
    if (experts := _experts(plan)) is not None:
        yield experts
    if (weighed := plan.weighed) is not None:
        searched = count(weighed.tensors + len(weighed.without), "tensor")
        yield f"importance of columns: known for {weighed.tensors:,} of {searched}"
    if (runs := words_of_plan(plan)) is not None:
        yield f"runs in {runs}"


def _whole_lines(plan: Plan) -> Iterator[str]:
    """Yield the types of the tensors that are in files that are kept whole."""
    totals: dict[str, _Total] = {}
    for tensor in plan.inventory.tensors:
        total = totals.setdefault(tensor.stored_as or tensor.dtype, _Total())
        total.tensors += 1
        total.nbytes += tensor.nbytes
    rows = [("TYPE", "TENSORS", "BYTES")]
    rows += [
        (kind, f"{total.tensors:,}", f"{total.nbytes:,}")
        for kind, total in sorted(totals.items(), key=lambda item: -item[1].nbytes)
    ]
    yield from table(rows, right=(1, 2))
    yield ""


def _file_lines(plan: Plan) -> Iterator[str]:
    whole, kept = _files(plan)
    if whole:
        yield ""
        yield f"kept whole, as {_whole_word(plan)}:"
        yield from table(whole, indent=2, right=(2,))
    if kept:
        yield ""
        yield "files kept:"
        yield from table(kept, indent=2, right=(1,))
    if plan.left_out:
        yield ""
        yield "left out:"
        rows = ((left.path, left.reason) for left in plan.left_out)
        yield from table(rows, indent=2, cut=(1, 0))


def _whole_word(plan: Plan) -> str:
    """Return what the files are that a plan keeps whole, such as `a GGUF model`."""
    whole = plan.inventory.whole
    return f"a {whole.format.upper()} model" if whole is not None else "files"


def _files(plan: Plan) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return rows of the files that are models themselves, and of the others."""
    whole: list[tuple[str, ...]] = []
    kept: list[tuple[str, ...]] = []
    for file in plan.files:
        if file.layer_name or file.media_type == MediaType.IMATRIX:
            kept.append((file.file.path, size(file.nbytes)))
        else:
            kind = file.media_type.rpartition(".")[2]
            whole.append((file.file.path, kind, size(file.nbytes)))
    return whole, kept


def _experts(plan: Plan) -> str | None:
    """Say how experts are stored and why, or None where there are none that share a blob."""
    facts = plan.classification
    if not plan.recipe.stacked:
        packed = any(blob.is_group for blob in plan.blobs)
        return "experts are packed: each keeps tensors of its own" if packed else None
    if not any(len(tensor.sources) > 1 for tensor in plan.tensors):
        return None
    architecture = facts.architecture or facts.family
    if architecture in STACKED_ONLY:
        return f"experts are stacked: Ollama reads nothing else of {printable(architecture)}"
    return "experts are stacked, as Ollama's import does it"


def _kept(plan: Plan) -> str:
    if plan.classification.scheme is not None:
        return "; imported as it is"
    packed = (tensor for tensor in plan.tensors if not tensor.sources[0].is_plain)
    kept = sum(tensor.transcoder.is_lossless for tensor in packed)
    if not kept:
        return ""
    verb = "keeps its" if kept == 1 else "keep their"
    return f"; {count(kept, 'tensor')} {verb} codes and scales"


def _classes(plan: Plan) -> Iterator[str]:
    rows = [("TENSORS", "", "TYPE", "BEFORE", "AFTER", "BITS", "RULE", "WHY")]
    tensors = outcomes_of(plan.blobs)
    for row in collapse(tensors, _facts):
        one = row.first
        rows.append(
            (
                row.pattern,
                f"x{row.repeats}" if row.repeats > 1 else "",
                one.type_name,
                f"{one.source_nbytes * row.repeats:,}",
                f"{one.nbytes * row.repeats:,}",
                _bits(one.nbytes, elements(one.shape)),
                str(one.decision.rule.index + 1),
                one.decision.reason,
            )
        )
    before, after = (sum(map(nbytes, tensors)) for nbytes in (_BEFORE, _AFTER))
    total = sum(elements(tensor.shape) for tensor in tensors)
    rows.append(("total", "", "", f"{before:,}", f"{after:,}", _bits(after, total), "", ""))
    lines = table(rows, right=(1, 3, 4, 5, 6), spare=(3, 5, 6), cut=(7, 0))
    yield from lines
    if not plan.recipe.is_plain:
        yield ""
        yield from rule_lines(plan.recipe, tensors, is_numbered=" RULE " in lines[0])


def _facts(tensor: Outcome) -> Hashable:
    decision = tensor.decision
    return (tensor.type_name, tensor.shape, tensor.nbytes, decision.rule.index, decision.reason)


def plan_document(plan: Plan, growth: Growth) -> dict[str, object]:
    """Return the document that `create --dry-run --json` prints."""
    total, made = _sum(plan, growth), _documents(growth)
    return {
        "kind": str(plan.classification.kind),
        "architecture": plan.classification.architecture,
        "prequantized": plan.inventory.scheme,
        "experts": "stacked" if plan.recipe.stacked else "packed",
        "runs_in": document(runs_of_plan(plan)),
        "parameters": plan.parameters,
        "recipe": to_document(plan.recipe),
        "importance": _importance(plan),
        "budget": allocation_document(plan.allocation),
        "total": _document(total),
        "documents": {"blobs": made.blobs, "bytes": made.nbytes},
        "new_bytes_at_most": sum(growth.sizes),
        "components": [
            {"name": component, **_document(part)} for component, part in _totals(plan).items()
        ],
        "tensors": [
            {
                "name": tensor.name,
                "dtype": tensor.dtype,
                "shape": list(tensor.shape),
                "packed": tensor.packed or None,
                "type": None if tensor.decision.target is None else tensor.decision.target.name,
                "group_size": tensor.group_size,
                "rule": list(tensor.decision.rule.match),
                "reason": tensor.decision.reason,
                "fits": tensor.decision.fits,
                "layer": tensor.layers[0],
                "layers": list(tensor.layers),
                "source_bytes": tensor.source_nbytes,
                "bytes": tensor.nbytes,
            }
            for tensor in outcomes_of(plan.blobs)
        ],
        "files": [
            {"path": file.file.path, "media_type": file.media_type, "bytes": file.nbytes}
            for file in plan.files
        ],
        "left_out": [{"path": left.path, "reason": left.reason} for left in plan.left_out],
        "warnings": list(plan.warnings),
    }


def _importance(plan: Plan) -> dict[str, object] | None:
    weighed = plan.weighed
    if weighed is None:
        return None
    return {
        "digest": str(weighed.digest),
        "tensors": weighed.tensors,
        "without": list(weighed.without),
        "unused_matrices": weighed.unused,
    }


def _new_bytes(growth: Growth) -> str:
    # Exact where the store has seen every source of the plan; otherwise some of what is
    # written may turn out to be there already, and a report is shorter than its bound.
    sizes = growth.sizes
    if not sizes:
        return "writes no new blob: all are in the store"
    known = growth.blobs - len(sizes)
    verb = "is" if known == 1 else "are"
    have = f"; {known:,} of {count(growth.blobs, 'blob')} {verb} in the store"
    there = have if len(sizes) < growth.blobs else ""
    nbytes = sum(sizes)
    rounded = f" ({size(nbytes)})" if nbytes >= _ROUNDED else ""
    return f"writes at most {count(nbytes, 'new byte')}{rounded}{there}"


def _totals(plan: Plan) -> dict[str, _Total]:
    totals = {component: _Total() for component in plan.inventory.components}
    for blob in plan.blobs:
        # A blob never spans components: a group's name begins with its component's.
        total = totals[blob.tensors[0].sources[0].component]
        total.tensors += len(blob.tensors)
        total.blobs += 1
        total.nbytes += blob.nbytes
    return totals


def _documents(growth: Growth) -> _Total:
    """Count what is made of the plan itself: configuration, report, words of a Modelfile."""
    return _Total(0, len(growth.documents), sum(one.nbytes for one in growth.documents))


def _sum(plan: Plan, growth: Growth) -> _Total:
    nbytes = plan.nbytes + _documents(growth).nbytes
    return _Total(len(plan.inventory.tensors), growth.blobs, nbytes)


def _cells(total: _Total) -> tuple[str, str, str]:
    return (f"{total.tensors:,}", f"{total.blobs:,}", f"{total.nbytes:,}")


def _document(total: _Total) -> dict[str, int]:
    return {"tensors": total.tensors, "blobs": total.blobs, "bytes": total.nbytes}


def _in_words(architecture: str) -> str:
    return f" ({printable(architecture)})" if architecture else ""


def _bits(nbytes: int, count: int) -> str:
    return f"{8 * nbytes / count:.2f}" if count else ""
