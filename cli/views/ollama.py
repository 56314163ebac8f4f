"""Which Ollama runs a model, in words, and the flags that help where none does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from importer.recipes.runtimes import STACKED_ONLY, TYPES, Obstacle, RunsIn, runs_in
from store.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    return f"no Ollama: {'; '.join(_why(*obstacle) for obstacle in found.obstacles)}"


def warning(found: RunsIn | None, *, has_choice: bool = False) -> str | None:
    """Say what keeps Ollama from running a model, and which flag helps; None for nothing.

    Args:
        found: what keeps it.
        has_choice: whether the types were chosen among several for a size.

    Where Ollama does not have the architecture nothing would help: the plan and `show` tell it.
    """
    kinds = [what for what, _ in found.obstacles] if found is not None else []
    if found is None or not kinds or Obstacle.ARCHITECTURE in kinds:
        return None
    helps = _HELP | ({Obstacle.TYPE: _CHOICE} if has_choice else {})
    unique = list(dict.fromkeys(helps[what] for what in kinds if helps[what]))
    why = "; ".join(_why(*obstacle) for obstacle in found.obstacles)
    return f"Ollama cannot run this: {why}" + (f" ({'; '.join(unique)})" if unique else "")


def document(found: RunsIn | None) -> dict[str, object] | None:
    """Return what `--json` says of it."""
    if found is None:
        return None
    obstacles = [{"kind": str(kind), "what": what} for kind, what in found.obstacles]
    return {"ollama": found.version or None, "obstacles": obstacles}


def _why(obstacle: Obstacle, what: str) -> str:
    what = printable(what)
    match obstacle:
        case Obstacle.TYPE:
            return f"its runner does not support {what}"
        case Obstacle.PACKED:
            return f"its loader of {what} wants experts stacked"
        case Obstacle.PREQUANTIZED:
            return f"it does not read arrays of {what} as they came"
        case Obstacle.PIPELINE:
            return f"it makes no images since the version after {what}"
    return f"it has no {what}" if what else "nothing tells the architecture"


_HELP = {
    Obstacle.TYPE: f"it has {', '.join(TYPES[:-1])} and {TYPES[-1]}",
    Obstacle.PACKED: "`--experts stacked` helps",
    Obstacle.PREQUANTIZED: "`-q repack` or `-q int4` helps",
    Obstacle.PIPELINE: "",
}

_CHOICE = "`--allow int4/64,int8/64` helps"


def _are_wrong(architecture: str, names: Iterable[str]) -> bool:
    """Whether there are packed experts, of an architecture that wants them stacked."""
    if architecture not in STACKED_ONLY:  # of nearly all others, nobody has to look
        return False
    from importer.planning.groups import stack_of

    return any(stack_of(name) is not None for name in names)
