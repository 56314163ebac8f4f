"""What an import did, or would do to the name and the disk: one summary, and as a document."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from cli.views.ollama import document, note, runs_of_plan
from importer.planning.outcome import Outcome, outcomes_of
from importer.sources.document import CONFIG
from store import CommitOutcome
from store.errors import NoSpaceError
from store.tensorfile import elements
from store.text import count, printable, size

if TYPE_CHECKING:
    from importer.engine.growth import Growth
    from importer.pipeline import ImportResult
    from importer.planning.plan import Plan
    from store import ModelName, Store

_VERBS: Final = {"new": "wrote"}
_MATRIX: Final = 2
_WIDE: Final = "F32"
_AFFINE: Final = frozenset({"int2", "int3", "int4", "int5", "int6", "int8"})
_SAVED: Final = 4
"""Bytes that a scale and a bias of 16 bits take less than those of 32."""
_NOTABLE: Final = 20
"""The part of a model, one of so many, that is worth a line."""
_EXPECTED: Final = frozenset({"shard index", "hidden directory"})
"""Why files are left out of which alone nobody needs to be told at every import."""


def result_document(result: ImportResult, plan: Plan, seconds: float) -> dict[str, object]:
    """Return the document that `create --json` prints."""
    tallies = {outcome: result.tally(outcome) for outcome in CommitOutcome}
    return {
        "name": str(result.name),
        "digest": str(result.digest),
        "replaced": str(result.replaced) if result.replaced else None,
        "tensors": len(plan.inventory.tensors),
        "blobs": {
            outcome: {"count": blobs, "bytes": nbytes}
            for outcome, (blobs, nbytes) in tallies.items()
        },
        "left_out": [{"path": left.path, "reason": left.reason} for left in plan.left_out],
        "runs_in": document(runs_of_plan(plan)),
        "warnings": list(warnings_of(plan, result)),
        "milliseconds": round(seconds * 1000),
    }


def result_lines(
    result: ImportResult, plan: Plan, seconds: float, option: str = ""
) -> Iterator[str]:
    """Yield what is told of an import: what was left out, sizes, quality, the next command.

    Args:
        option: that the next command needs to find the store.
    """
    yield from _of_source(plan, "--dry-run")
    if result.replaced == result.digest:
        yield f"{result.name} is unchanged"
    elif result.replaced is not None:
        yield f"replaced {result.name} (was {result.replaced.short})"
    yield f"{', '.join(_tallied(result))} in {seconds:.1f} s"
    if plan.allocation is not None:
        from cli.views.allocation import size_lines

        yield from size_lines(plan.allocation)
    if plan.quantizes:
        sizes = _sizes(outcomes_of(plan.blobs))
        worst = min(result.quality, key=_decibels, default=None)
        if worst is not None and worst.deviation is not None:
            sizes += f", worst tensor {worst.deviation.sqnr:.1f} dB `{printable(worst.name)}`"
        yield sizes
    yield from _of_sizes(plan)
    flag = " --quality" if _suspicious(result) else ""
    yield f"next: ingot show {shlex.quote(str(result.name))}{flag}{option}"


def warnings_of(plan: Plan, result: ImportResult | None = None) -> tuple[str, ...]:
    """Return what a plan warns of, and what came out of it."""
    if result is None or not (suspicious := _suspicious(result)):
        return plan.warnings
    verb, tensors = "is" if suspicious == 1 else "are", count(len(result.quality), "tensor")
    return (*plan.warnings, f"{suspicious:,} of {tensors} {verb} suspicious")


def remarks(plan: Plan, lister: str) -> Iterator[str]:
    """Yield what is told of an import beside its warnings and its sizes.

    Args:
        plan: of the import.
        lister: what lists the files that are left out, such as `--dry-run`.
    """
    yield from _of_source(plan, lister)
    yield from _of_sizes(plan)


def _of_source(plan: Plan, lister: str) -> Iterator[str]:
    yield from _left_out([left.reason for left in plan.left_out], lister)
    yield from notes_of(plan)
    if (runs := note(plan)) is not None:
        yield runs


def _of_sizes(plan: Plan) -> Iterator[str]:
    if plan.quantizes:
        outcomes = outcomes_of(plan.blobs)
        yield from _larger(outcomes)
        yield from _scales(outcomes)
        yield from _largest(outcomes)


def _suspicious(result: ImportResult) -> int:
    """Return how many tensors lost more than is usual, of those that were measured."""
    if not result.quality:
        return 0
    from importer.models.suspicion import suspicion_of

    return sum(suspicion_of(one) is not None for one in result.quality)


def notes_of(plan: Plan) -> Iterator[str]:
    """Yield what a source lacks that nothing else tells of."""
    inventory = plan.inventory
    if inventory.configs or inventory.whole is not None or inventory.model is not None:
        return
    if inventory.file(CONFIG) is None and (inventory.root / CONFIG).is_file():
        directory = printable(shlex.quote(str(inventory.root)), 4096)
        yield (
            "note: the config.json beside this file is not part of the model; to include it, "
            f"name the directory: {directory}"
        )
    else:
        yield "note: there is no config.json, so programs cannot know the architecture"


def outlook_document(name: ModelName, growth: Growth, store: Store) -> dict[str, object]:
    """Return what a plan says beside its own decisions: the name's fate, and the space."""
    there = store.catalog.find(name)
    return {
        "digest": str(growth.manifest) if growth.manifest is not None else None,
        "replaces": str(there.digest) if there is not None else None,
        "fits": _why_no_room(growth, store) is None,
    }


def outlook_lines(name: ModelName, growth: Growth, store: Store) -> Iterator[str]:
    """Yield the same in words, where there is something to say."""
    there = store.catalog.find(name)
    if there is not None:
        if growth.manifest is None:
            yield f"replaces {name} ({there.digest.short}), unless it is the same"
        elif growth.manifest == there.digest:
            yield f"leaves {name} as it is ({there.digest.short})"
        else:
            yield f"replaces {name} ({there.digest.short}) by {growth.manifest.short}"
    if (why := _why_no_room(growth, store)) is not None:
        yield f"warning: {printable(why, 1000)}"


def _why_no_room(growth: Growth, store: Store) -> str | None:
    from importer.engine.space import check_space

    try:
        check_space(store, growth.sizes)
    except NoSpaceError as error:
        return str(error).partition(";")[0]
    return None


def _left_out(reasons: Sequence[str], lister: str) -> Iterator[str]:
    """Yield how many files are left out, all that a plan lists, and why those that matter."""
    named = {reason for reason in reasons if reason not in _EXPECTED}
    if named:
        others = sum(reason in _EXPECTED for reason in reasons)
        why = ", ".join([*sorted(named), *([f"{others} more"] if others else [])])
        yield f"left out {count(len(reasons), 'file')} ({why}): see {lister}"


def _tallied(result: ImportResult) -> Iterator[str]:
    """Yield what became of blobs, as many as the plan had, and of documents."""
    everything = (*result.written, *result.documents)
    if not any(done.installed is CommitOutcome.NEW for done in everything):
        yield "wrote nothing new"
    for outcome in CommitOutcome:
        parts = []
        for what, some in (("blob", result.written), ("document", result.documents)):
            if sizes := [done.ref.size for done in some if done.installed is outcome]:
                parts.append(f"{count(len(sizes), what)} ({size(sum(sizes))})")
        if parts:
            yield f"{_VERBS.get(outcome, outcome)} {' and '.join(parts)}"


def _sizes(tensors: Sequence[Outcome]) -> str:
    """Return what quantizing won."""
    before = sum(one.source_nbytes for one in tensors)
    after = sum(one.nbytes for one in tensors)
    weights = sum(elements(one.shape) for one in tensors)
    bits = f", {8 * after / weights:.2f} bits per weight" if weights else ""
    ratio = f" ({before / after:.1f}x)" if after else ""
    return f"{size(before)} -> {size(after)}{ratio}{bits}"


def _larger(tensors: Sequence[Outcome]) -> Iterator[str]:
    """Yield that a model takes more than its source, whose types were smaller."""
    before = sum(one.source_nbytes for one in tensors)
    after = sum(one.nbytes for one in tensors)
    if after > before and any(one.packed for one in tensors):
        yield (
            f"note: the result is {size(after - before)} larger than the source, which was "
            "quantized already"
        )


def _largest(tensors: Sequence[Outcome]) -> Iterator[str]:
    """Yield what to do about a matrix that stays as it is, and is most of the model."""
    total = sum(one.nbytes for one in tensors)
    kept = [one for one in tensors if one.group_size is None and len(one.shape) == _MATRIX]
    largest = max(kept, key=lambda one: one.nbytes, default=None)
    if largest is None or largest.packed or 2 * largest.nbytes < total:
        return
    from cli.views.text import rule

    name, share = printable(largest.name), f"{100 * largest.nbytes / total:.0f}%"
    yield (
        f"note: `{name}` stays {largest.type_name} and is {share} of that; "
        f"--rule {rule(largest.name, 'int8')} makes it smaller"
    )


def _scales(tensors: Sequence[Outcome]) -> Iterator[str]:
    """Yield how much smaller a model would be whose scales were not as wide as its source."""
    wide = [
        one
        for one in tensors
        if one.dtype == _WIDE and one.type_name in _AFFINE and not one.packed
    ]
    pairs = sum(elements(one.shape) // one.group_size for one in wide if one.group_size)
    total = sum(one.nbytes for one in tensors)
    if wide and _NOTABLE * pairs * _SAVED > total:
        ((usual, _),) = Counter(one.type_name for one in wide).most_common(1)
        yield (
            "note: scales and biases are F32, as the source; quantizing a BF16 copy "
            f"(`-q bf16`, then `-q {usual}` of that) would save "
            f"{size(pairs * _SAVED)}"
        )


def _decibels(found: object) -> float:
    deviation = getattr(found, "deviation", None)
    return float("-inf") if deviation is None else float(deviation.sqnr)
