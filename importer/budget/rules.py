"""The recipe that gives each unit the type that was chosen: rules that any model may have."""

from __future__ import annotations

import glob
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from importer.budget.units import Member, Unit
from importer.codecs.spec import DECODE, Target
from importer.planning.groups import prefix_of
from importer.planning.plan import Plan
from importer.recipes.depths import layer_number, spelled_ranges
from importer.recipes.recipe import Recipe
from importer.recipes.rule import Origin, Rule
from importer.sources.tensor import SourceTensor

_CHOSEN: Final = "chosen within the size"
_UNFIT: Final = "no type that is allowed fits it"
_NUMBER: Final = re.compile(r"(?<=[./])[0-9]+(?=[./])")


class _Place(NamedTuple):
    """What a glob says of a name, and what `layers` of a rule does."""

    pattern: str
    layer: int | None


class Choice(NamedTuple):
    """What each unit is to become."""

    units: Sequence[Unit]
    targets: Sequence[Target]

    @property
    def tensors(self) -> Iterator[tuple[Member, Target]]:
        """Every tensor with what it becomes, and with how its scales are found."""
        for unit, target in zip(self.units, self.targets, strict=True):
            for member in unit.members:
                yield member, target_of(member, target)


def target_of(member: Member, target: Target) -> Target:
    """Return what a rule has to say so that a tensor becomes `target`."""
    if target is None:
        return None if member.tensor.is_plain else DECODE
    return member.rule.calibrate.apply(target)


def resolved(
    recipe: Recipe, choice: Choice, tensors: Iterable[SourceTensor], *, by_name: bool = False
) -> Recipe:
    """Return a recipe whose rules name every type.

    One rule takes the tensors of one spelling in some layers, so that it is as short for 100
    layers as for two.

    Args:
        recipe: with rules that leave types open.
        choice: for the tensors that these rules take.
        tensors: of the model.
        by_name: name every tensor, as must be where globs would take others, too.
    """
    places = {tensor.name: _place(tensor, by_name=by_name) for tensor in tensors}
    first = next(index for index, rule in enumerate(recipe.rules) if rule.is_requested)
    after = (
        replace(rule, reason=_UNFIT, optional=True) if rule.is_requested else rule
        for rule in recipe.rules[first:]
    )
    rules = (*recipe.rules[:first], *_rules(choice, places), *after)
    return replace(recipe, rules=rules)


def is_followed(plan: Plan, choice: Choice) -> bool:
    """Return whether every tensor of a plan becomes what was chosen."""
    wanted = {member.tensor.name: target for member, target in choice.tensors}
    for tensor in plan.tensors:
        rule = tensor.decision.rule
        for source in tensor.sources if tensor.part_of is None else (tensor.part_of,):
            is_chosen = rule.reason.endswith(_CHOSEN)
            if is_chosen != (source.name in wanted):
                return False
            if is_chosen and rule.target != wanted[source.name]:
                return False
    return True


def _rules(choice: Choice, places: Mapping[str, _Place]) -> Iterator[Rule]:
    """Yield a rule for each type, reason and set of layers, in the order of the units."""
    layers: dict[tuple[str, Target, str], list[int | None]] = {}
    chosen: dict[str, set[Hashable]] = {}
    for member, target in choice.tensors:
        place = places[member.tensor.name]
        reason = member.rule.reason
        layers.setdefault((place.pattern, target, reason), []).append(place.layer)
        chosen.setdefault(place.pattern, set()).add(target)
    counts: dict[str, int] = {}
    for place in places.values():
        counts[place.pattern] = counts.get(place.pattern, 0) + 1
    taken: dict[str, int] = {}
    for (pattern, _, _), numbers in layers.items():
        taken[pattern] = taken.get(pattern, 0) + len(numbers)
    rules: dict[tuple[Target, str, str], list[str]] = {}
    for (pattern, target, reason), numbers in layers.items():
        # All that are spelled so become the same: it need not be said in which layers.
        is_all = len(chosen[pattern]) == 1 and taken[pattern] == counts[pattern]
        known = [number for number in numbers if number is not None]
        where = "" if is_all else spelled_ranges(known)
        rules.setdefault((target, where, reason), []).append(pattern)
    for (target, where, reason), patterns in rules.items():
        why = f"{reason}; {_CHOSEN}"
        yield Rule(
            tuple(patterns), target, why, layers=where, optional=True, origin=Origin.PRESET
        )


def _place(tensor: SourceTensor, *, by_name: bool) -> _Place:
    name = tensor.name
    number = layer_number(name)
    if by_name or number is None:
        return _Place(glob.escape(name), None)
    layer = int(name[number.start : number.stop])
    before, after = name[: number.start], name[number.stop :]
    prefix = prefix_of(tensor.own_name)
    start = len(name) - len(tensor.own_name) + len(prefix or "") - number.stop
    if prefix is None or start < 0:
        return _Place(f"{glob.escape(before)}*{glob.escape(after)}", layer)
    # All experts of a projection get one type.
    experts = _NUMBER.sub("*", glob.escape(after[start:]))
    return _Place(f"{glob.escape(before)}*{glob.escape(after[:start])}{experts}", layer)
