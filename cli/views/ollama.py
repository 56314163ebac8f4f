"""Which Ollama runs a model, in words, and the flags that help where none does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from importer.recipes.runtimes import STACKED_ONLY, TYPES, Obstacle, RunsIn, runs_in
from store.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from importer.models.description import Description
    from importer.planning.plan import Plan


def runs_of_plan(plan: Plan) -> RunsIn | None:
    """Tell which Ollama runs what a plan makes, or None where that is not made of tensors."""
    if plan.inventory.whole is not None:
        return None
    facts = plan.classification
    architecture = facts.architecture or facts.family
    return runs_in(
        architecture,
        str(facts.kind),
        [
            tensor.quant.name if tensor.quant is not None else tensor.blocks
            for tensor in plan.tensors
            if tensor.quant is not None or tensor.blocks
        ],
        prequantized=facts.scheme,
        has_packed_experts=_are_wrong(architecture, (tensor.key for tensor in plan.tensors)),
    )


def runs_of_model(model: Description) -> RunsIn | None:
    """Tell which Ollama runs a stored model, or None for one that is not made of tensors."""
    if not model.tensors or model.is_whole:
        return None
    return runs_in(
        model.architecture,
        model.record.kind,
        [tensor.quant for tensor in model.tensors if tensor.quant is not None],
        prequantized=model.prequantized,
        has_packed_experts=_are_wrong(
            model.architecture, (tensor.name for tensor in model.tensors)
        ),
    )


def words(found: RunsIn) -> str:
    """Say it in one line, without a flag."""
    if found.version:
        return f"Ollama {found.version} and later"
    by_kind: dict[Obstacle, list[str]] = {}
    for kind, what in found.obstacles:
        by_kind.setdefault(kind, []).append(printable(what))
    return f"no Ollama: {'; '.join(_why(kind, what) for kind, what in by_kind.items())}"


def words_of_plan(plan: Plan) -> str | None:
    """Say what `words` says, and what helps; None for a plan that is not of tensors."""
    if (found := runs_of_plan(plan)) is None:
        return None
    kinds = {kind for kind, _ in found.obstacles}
    if Obstacle.ARCHITECTURE in kinds:  # nothing helps then
        return words(found)
    helps = _HELP | ({Obstacle.TYPE: _CHOICE} if plan.allocation is not None else {})
    listed = [help_ for kind, help_ in helps.items() if kind in kinds]
    return words(found) + (f" ({'; '.join(listed)})" if listed else "")


def note(plan: Plan) -> str | None:
    """Say that no Ollama runs what a plan makes, why, and what helps; None where one does."""
    found = runs_of_plan(plan)
    return f"note: runs in {words_of_plan(plan)}" if found and found.obstacles else None


def document(found: RunsIn | None) -> dict[str, object] | None:
    """Return what `--json` says of it."""
    if found is None:
        return None
    obstacles = [{"kind": str(kind), "what": what} for kind, what in found.obstacles]
    return {"ollama": found.version or None, "obstacles": obstacles}


def _why(obstacle: Obstacle, about: Sequence[str]) -> str:
    what = _listed(about)
    match obstacle:
        case Obstacle.TYPE:
            return f"its runner does not support {what}"
        case Obstacle.PACKED:
            return f"its loader of {what} wants experts stacked"
        case Obstacle.PREQUANTIZED:
            return f"it does not read arrays of {what} as they came"
        case Obstacle.PIPELINE:
            return f"{what} was the last version that made images"
    if not what:
        return "nothing says what architecture this is"
    return f"it cannot run {what} from tensors, though it may from a GGUF file"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


_HELP = {
    Obstacle.TYPE: f"it has {_listed(TYPES)}",
    Obstacle.PACKED: "`--experts stacked` helps",
    Obstacle.PREQUANTIZED: "`-q repack` or `-q int4` helps",
}

_CHOICE = "`--allow int4/64,int8/64` helps"


def _are_wrong(architecture: str, names: Iterable[str]) -> bool:
    """Whether there are packed experts, of an architecture that wants them stacked."""
    if architecture not in STACKED_ONLY:  # of nearly all others, nobody has to look
        return False
    from importer.planning.groups import stack_of

    return any(stack_of(name) is not None for name in names)
