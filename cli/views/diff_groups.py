"""The tensors of two models in groups: by role, by layer, by type, and how far each moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from importer.codecs.metrics import Deviation
from importer.models.places import Role
from importer.verification.diff import Difference, Form, Kind, TensorDifference

MOVED: Final = (Kind.CHANGED, Kind.RETYPED)
_COMMON: Final = (Kind.SAME, Kind.RESHAPED, *MOVED)

Groups = list[tuple[str, list[TensorDifference]]]
Side = Callable[[TensorDifference], Form | None]


class Group(NamedTuple):
    """Tensors of one role or layer, those that can be compared, and how far they moved."""

    tensors: int
    changed: int
    far: float | None


def moved(members: Sequence[TensorDifference]) -> Group:
    """Return how many tensors changed, and how far these are apart together."""
    both = [one for one in members if one.kind in _COMMON]
    changed = [one for one in both if one.kind in MOVED and not one.has_same_values]
    known = [one.deviation for one in changed if one.deviation is not None]
    far = Deviation.total(known).rmse if known else None
    return Group(len(both), len(changed), far)


def of_a(one: TensorDifference) -> Form | None:
    """Return what a tensor is on the first side."""
    return one.a


def of_b(one: TensorDifference) -> Form | None:
    """Return what a tensor is on the second side."""
    return one.b


def by_role(found: Difference) -> Groups:
    """Return the tensors of each role that has some."""
    groups: dict[str, list[TensorDifference]] = {str(role): [] for role in Role}
    for one in found.tensors:
        groups[str(one.role)].append(one)
    return [pair for pair in groups.items() if pair[1]]


def by_layer(found: Difference) -> Groups:
    """Return the tensors of each layer, in the order of the layers."""
    groups: dict[str, list[TensorDifference]] = {}
    for one in found.tensors:
        if one.layer:
            groups.setdefault(one.layer, []).append(one)
    return sorted(groups.items(), key=lambda pair: _natural(pair[0]))


def sums(tensors: Iterable[TensorDifference], side: Side) -> tuple[int, int]:
    """Return how many tensors one side has, and their bytes."""
    forms = [form for one in tensors if (form := side(one)) is not None]
    return len(forms), sum(form.nbytes for form in forms)


def by_type(members: Iterable[TensorDifference], side: Side) -> list[tuple[str, int]]:
    """Return the types that tensors have on one side with their bytes, the largest first."""
    found: dict[str, int] = {}
    for one in members:
        if (form := side(one)) is not None:
            found[form.type] = found.get(form.type, 0) + form.nbytes
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))


def _natural(layer: str) -> tuple[str, int]:
    stem, _, number = layer.replace("/", ".").rpartition(".")
    return stem, int(number[:18])
