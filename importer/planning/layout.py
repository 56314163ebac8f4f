"""Which tensors share a blob, and which become one tensor: experts, packed or stacked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from importer.planning.groups import Stack, joins, prefix_of, stack_of
from importer.planning.plan import TensorPlan
from importer.sources.tensor import SourceTensor


class Shared(NamedTuple):
    """A blob before its header is made.

    Attributes:
        name: of the layer.
        tensors: sorted.
        is_group: whether it is named after what the tensors have in common.
        is_stacked: whether they are stacks of experts, all of one type.
    """

    name: str
    tensors: tuple[TensorPlan, ...]
    is_group: bool = False
    is_stacked: bool = False


class Layout(NamedTuple):
    """The blobs of a model: those of one tensor, then groups, each sorted bytewise by name.

    Attributes:
        notes: what the user should know.
    """

    blobs: tuple[Shared, ...]
    notes: tuple[str, ...] = ()


def packed(tensors: Sequence[TensorPlan], *, prequantized: bool) -> Layout:
    """Let the experts of a layer share a blob, each with tensors of its own.

    Args:
        tensors: of the model, sorted.
        prequantized: whether they are the arrays of quantized weights.
    """
    singles: list[Shared] = []
    groups: dict[str, list[TensorPlan]] = {}
    for plan in tensors:
        prefix = _prefix(plan)
        if prefix is None or not joins(plan.name, plan.shape, prequantized=prequantized):
            singles.append(_alone(plan))
        else:
            groups.setdefault(prefix, []).append(plan)
    # A single tensor is not a group.
    singles += [_alone(members[0]) for members in groups.values() if len(members) == 1]
    shared = [
        Shared(name, tuple(members), is_group=True)
        for name, members in groups.items()
        if len(members) > 1
    ]
    return Layout((*_sorted(singles), *_sorted(shared)))


def copies_of(tensors: Iterable[SourceTensor]) -> Counter[str]:
    """Count the experts of each projection that can be stacked, by the name of the stack."""
    stacks = (_stack(tensor.own_name, tensor.name) for tensor in tensors)
    return Counter(name for name, stack in stacks if stack is not None)


def stack_name(tensor: SourceTensor) -> str:
    """Return the name of the stack that a tensor would be in, or its own."""
    return _stack(tensor.own_name, tensor.name)[0]


def stacked(tensors: Sequence[TensorPlan]) -> Layout:
    """Make one tensor of each projection of all experts, as Ollama's import does.

    The projections of a layer share a blob if they are of one type. Whatever Ollama does not
    stack has a blob of its own.

    Args:
        tensors: of the model, sorted.
    """
    names = {plan.name for plan in tensors}
    singles: list[Shared] = []
    notes: list[str] = []
    stacks: dict[str, list[tuple[Stack, TensorPlan]]] = {}
    for plan in tensors:
        name, stack = _stack(plan.key, plan.name)
        if stack is None:
            singles.append(_alone(plan))
        else:
            stacks.setdefault(name, []).append((stack, plan))
    groups: dict[str, list[TensorPlan]] = {}
    for name, experts in stacks.items():
        experts.sort(key=lambda one: one[0].expert)
        if why := _why_not(name, experts, names):
            notes.append(f"the experts of `{name}` are not stacked: {why}")
            singles += [_alone(plan) for _, plan in experts]
            continue
        stack, first = experts[0]
        sources = tuple(source for _, plan in experts for source in plan.sources)
        made = TensorPlan.of(name, (len(experts), *first.shape), sources, first.decision)
        group = name.removesuffix(stack.key) + stack.group
        groups.setdefault(group, []).append(made)
    shared = []
    for name, members in groups.items():
        if len({member.quant for member in members}) == 1:
            members.sort(key=lambda one: one.name.removesuffix(".weight").encode())
            shared.append(Shared(name, tuple(members), is_group=True, is_stacked=True))
        else:
            singles += map(_alone, members)
    return Layout((*_sorted(singles), *_sorted(shared)), tuple(notes))


def _why_not(
    name: str, experts: Sequence[tuple[Stack, TensorPlan]], names: set[str]
) -> str | None:
    """Return why experts, in numeric order, do not make a stack, or None."""
    if [stack.expert for stack, _ in experts] != list(range(len(experts))):
        return "numbers are missing"
    if len({(one.sources[0].decoder, one.shape, one.target) for _, one in experts}) > 1:
        return "they are not all alike"
    return "there is such a tensor" if name in names else None


def _stack(key: str, name: str) -> tuple[str, Stack | None]:
    """Return the stack of a tensor with its name, or the tensor's own and None."""
    stack = stack_of(key)
    return (name, None) if stack is None else (name.removesuffix(key) + stack.key, stack)


def _prefix(plan: TensorPlan) -> str | None:
    # Of the key: a component called `layers.0` is not a block.
    prefix = prefix_of(plan.key)
    return None if prefix is None else plan.name.removesuffix(plan.key) + prefix


def _alone(plan: TensorPlan) -> Shared:
    return Shared(plan.name, (plan,))


def _sorted(blobs: Iterable[Shared]) -> list[Shared]:
    return sorted(blobs, key=lambda blob: blob.name.encode())
