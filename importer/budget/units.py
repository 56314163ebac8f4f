"""What gets one type: a tensor, the experts of a projection, tensors that are tied."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from importer.codecs.spec import Target
from importer.planning.groups import prefix_of
from importer.planning.plan import Plan
from importer.planning.planner import plan_as
from importer.recipes.rule import Rule
from importer.recipes.sensitivity import Sensitivity
from importer.sources.inventory import Inventory
from importer.sources.tensor import SourceTensor
from store.tensorfile import elements

# A number between dots: an expert's, where experts are tensors of their own.
_NUMBER: Final = re.compile(r"(?<=\.)[0-9]+(?=\.)")
_TIED: Final = re.compile(r"(?:.*[./])?(?:lm_head|embed_tokens|wte|embed_out|embed_in)\.weight")


class Member(NamedTuple):
    """A tensor whose type is chosen.

    Attributes:
        rule: that leaves its type open.
        factor: how much its error matters.
    """

    tensor: SourceTensor
    rule: Rule
    factor: float

    @property
    def weight(self) -> float:
        """What a relative error of 1 counts."""
        return self.factor * elements(self.tensor.shape)


class Unit(NamedTuple):
    """Tensors that get one type.

    Attributes:
        name: of its first tensor, numbers of experts replaced by `*`.
        targets: that each of its tensors can become, without how scales are found.
        nbytes: of the data of all its tensors, for each target.
    """

    name: str
    members: tuple[Member, ...]
    targets: tuple[Target, ...]
    nbytes: tuple[int, ...]


def units_of(
    plan: Plan, allow: Sequence[Target], sensitivity: Sensitivity | None
) -> tuple[list[Unit], list[str]]:
    """Return what is to be chosen of a plan whose rules leave types open, and notes.

    Args:
        plan: made with those rules.
        allow: what a tensor may become.
        sensitivity: factors in place of the rules', or None.

    Raises:
        InputError: the factors are those of another model.
    """
    members = list(_members(plan))
    notes: list[str] = []
    if sensitivity is not None:
        members, notes = _weighed(members, sensitivity)
    groups: dict[str, list[Member]] = {}
    places: dict[Hashable, str] = {}
    for member in members:
        # Two names of the same bytes, as torch saves tied weights, are one group, too.
        place = tuple(array.extent for array in member.tensor.arrays)
        group = places.setdefault(place, _group(member.tensor, plan.inventory))
        groups.setdefault(group, []).append(member)
    sizes = functools.cache(functools.partial(_nbytes, plan.inventory))
    units = []
    for name, own in groups.items():
        found = {}
        for target in allow:
            parts = [sizes(*_form(member), target) for member in own]
            if all(nbytes is not None for nbytes in parts):
                found[target] = sum(filter(None, parts))
        if len(found) > 1 or (found and None not in found):
            units.append(Unit(name, tuple(own), tuple(found), tuple(found.values())))
    return units, notes


def _members(plan: Plan) -> Iterator[Member]:
    seen = set()
    for tensor in plan.tensors:
        rule = tensor.decision.rule
        for source in tensor.sources if tensor.part_of is None else (tensor.part_of,):
            if rule.is_requested and source.name not in seen:
                seen.add(source.name)
                yield Member(source, rule, rule.factor)


def _weighed(
    members: Sequence[Member], sensitivity: Sensitivity
) -> tuple[list[Member], list[str]]:
    """Return tensors with the factors of a file, those it does not name with their own."""
    found: Mapping[str, float] = sensitivity.of([member.tensor.name for member in members])
    if sensitivity.is_relative:
        # So that they compare with the rules' own: both mean the same on the whole.
        told = [member for member in members if member.tensor.name in found]
        usual = sum(member.weight for member in told)
        theirs = sum(one._replace(factor=found[one.tensor.name]).weight for one in told)
        found = {name: factor * usual / theirs for name, factor in found.items()}
    made = [one._replace(factor=found.get(one.tensor.name, one.factor)) for one in members]
    left = [one.tensor.name for one in members if one.tensor.name not in found]
    if not left:
        return made, []
    note = (
        f"{len(left)} of {len(members)} tensors are not in the sensitivities and have their "
        f"rules' factors; the first is `{left[0]}`"
    )
    return made, [note]


def _group(tensor: SourceTensor, inventory: Inventory) -> str:
    """Return what is equal for tensors that get one type."""
    own = tensor.own_name
    before = tensor.name.removesuffix(own)
    if _TIED.fullmatch(own) and inventory.config_of(tensor).get("tie_word_embeddings") is True:
        return f"{before}(tied embeddings)"
    prefix = prefix_of(own)
    if prefix is None:
        return tensor.name
    return before + prefix + _NUMBER.sub("*", own.removeprefix(prefix))


def _form(member: Member) -> tuple[SourceTensor]:
    """Return a tensor of which all with the same parts are one, for a cache of sizes."""
    tensor = member.tensor
    return (tensor._replace(name=f"{tensor.component}/" * bool(tensor.component), arrays=()),)


def _nbytes(inventory: Inventory, tensor: SourceTensor, target: Target) -> int | None:
    plan = plan_as(tensor, target, inventory)
    if plan is None or (target is not None and plan.target is None):
        return None  # it does not fit, or is kept because it is of that type already
    return plan.nbytes
