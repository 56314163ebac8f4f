"""Options that have nothing to do in a model, of which the user expected something."""

from __future__ import annotations

from collections.abc import Iterator

from importer.planning.layout import copies_of
from importer.planning.plan import Plan


def unused(plan: Plan, *, stacks: bool, unpacks: bool, reports: bool) -> Iterator[str]:
    """Yield a sentence for each thing that was asked for and has nothing to do in a model.

    Args:
        plan: that was made.
        stacks: whether the user asked for stacks of experts.
        unpacks: whether tensors of a file were asked for that could be kept whole.
        reports: whether a report was asked for.
    """
    if stacks and not copies_of(plan.inventory.tensors):
        yield "there are no experts to stack: none has tensors of its own"
    elif stacks and plan.classification.scheme is not None:
        yield "the experts are not stacked: they are quantized already"
    if unpacks and not plan.inventory.is_apart:
        yield "there is nothing to unpack: the source has tensors, and no GGUF file"
    if reports and not plan.rounds:
        yield "there is nothing to report: no tensor is quantized or rounded"
