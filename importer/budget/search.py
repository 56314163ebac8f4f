"""Plan a model within a size: measure, choose, make the plan, and look how large it is."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from importer.budget.curves import measure_curves
from importer.budget.footprint import model_nbytes, nbytes_for, weight_bits
from importer.budget.outlook import allocation_of
from importer.budget.rules import Choice, is_followed, resolved, target_of
from importer.budget.solver import Frontier, Options, frontier, improvements, solve
from importer.budget.units import Unit, units_of
from importer.engine.resources import affordable
from importer.events import Listener, silent
from importer.planning.importance import Weigher
from importer.planning.plan import Plan, TensorPlan
from importer.planning.planner import plan_as
from importer.recipes.budget import Budget
from importer.recipes.document import to_document
from importer.recipes.recipe import Recipe
from importer.request import ImportRequest
from importer.sources.classification import SourceKind
from importer.sources.imatrix import MatrixFile
from importer.sources.tensor import SourceTensor
from store import Store
from store.errors import InputError, UsageError
from store.json import dumps
from store.tensorfile import elements
from store.text import in_bytes, printable

_ROUNDS: Final = 12
"""Of plans that are made: headers and the recipe depend on what is chosen."""
_LITTLE: Final = 1e-3
"""Of a size: what may be left of it, and what is not worth plans more."""

_Curves = Callable[
    [Sequence[SourceTensor], Callable[[SourceTensor], Iterable[TensorPlan]]],
    Iterator[tuple[float, ...]],
]
"""Measures; see `measure_curves`, whose first arguments these are."""
_Picks = npt.NDArray[np.int64]


class Sought(NamedTuple):
    """A plan that is sought.

    Attributes:
        recipe: some of whose rules leave types open.
        make: makes a plan by a recipe, with an importance matrix or without.
        matrix: by which scales are searched for, or None.
        request: with the budget.
    """

    recipe: Recipe
    make: Callable[[Recipe, MatrixFile | None], Plan]
    matrix: MatrixFile | None
    request: ImportRequest

    @property
    def budget(self) -> Budget:
        """The size that was asked for."""
        assert self.request.budget is not None
        return self.request.budget


def plan_within(sought: Sought, store: Store, listen: Listener = silent) -> Plan:
    """Return a plan that is no larger than was asked for and loses least, as is expected.

    Args:
        sought: what was asked for.
        store: whose memo keeps what was measured.
        listen: told of what is measured.

    Raises:
        UsageError: no type is to be chosen, or the least model is larger.
        InputError: the source changed, or factors are those of another model.
    """
    budget, request, recipe = sought.budget, sought.request, sought.recipe
    base = sought.make(recipe, None)  # in which nothing has scales yet
    units, notes = units_of(base, budget.allow, budget.sensitivity)
    if not units:
        raise UsageError(
            f"recipe `{printable(recipe.name)}` leaves no type to be chosen for any tensor",
            code="E_BUDGET_RECIPE",
        )
    threads = affordable(request.threads, request.max_memory, quantizes=True)
    measure = functools.partial(
        measure_curves, store, threads=threads, listen=listen, trusts=not request.rehash
    )
    options = _options(units, sought, base, measure)
    hulls = frontier(options)
    search = _Search(sought, base, units)
    made = search.run(options, hulls)
    nbytes = model_nbytes(made.plan, request)
    allocation = allocation_of(
        made.plan,
        units,
        options,
        hulls,
        made.picks,
        limit=search.limit,
        used=made.used,
        nbytes=nbytes,
        bits=budget.bits,
        extra=made.extra,
        guesses=budget.sensitivity is None
        and base.classification.kind is not SourceKind.PIPELINE,
    )
    if allocation.more is None:
        notes.append(
            f"every tensor has the best type that is allowed, in {in_bytes(nbytes)}: more "
            "would change nothing"
        )
    warnings = (*made.plan.warnings, *notes)
    return made.plan._replace(warnings=warnings, allocation=allocation)


def _options(units: Sequence[Unit], sought: Sought, base: Plan, measure: _Curves) -> Options:
    """Return bytes of each target of each unit, and the share of the model that it damages."""
    owners = {one.tensor.name: (unit, one) for unit in units for one in unit.members}
    inventory, allow = base.inventory, sought.budget.allow
    weigher = None
    if sought.matrix is not None:
        weigher = Weigher(sought.matrix, inventory.tensors, base.classification.family)

    def plans_of(tensor: SourceTensor) -> Iterator[TensorPlan]:
        unit, member = owners[tensor.name]
        for target in unit.targets:
            plan = plan_as(tensor, target_of(member, target), inventory)
            if plan is not None:
                yield plan if weigher is None else weigher.weigh(plan)

    nbytes = np.full((len(units), len(allow)), -1, np.int64)
    damage = np.zeros(nbytes.shape)
    everything = sum(elements(one.tensor.shape) for _, one in owners.values())
    curves = iter(measure([one.tensor for _, one in owners.values()], plans_of))
    for row, unit in enumerate(units):
        columns = [allow.index(target) for target in unit.targets]
        nbytes[row, columns] = unit.nbytes
        for member in unit.members:
            damage[row, columns] += np.array(next(curves)) * (member.weight / everything)
    for _ in curves:
        pass  # so that it can save what it measured
    if weigher is not None:
        weigher.result()  # which is an error where it is a matrix of another model
    return Options(nbytes, damage)


class _Made(NamedTuple):
    """A choice, and the plan that it gives.

    Attributes:
        used: bytes that count against the limit.
        extra: of these, what is not data of the units.
    """

    picks: _Picks
    plan: Plan
    used: int
    extra: int


class _Search:
    """Choices for one source, and the plans that they give."""

    def __init__(self, sought: Sought, base: Plan, units: Sequence[Unit]) -> None:
        budget = sought.budget
        self._sought = sought
        self._units = units
        self._tensors = base.inventory.tensors
        self._counts_data = budget.bits is not None
        if budget.bits is not None:
            self.limit = nbytes_for(base, budget.bits)
        else:
            self.limit = budget.nbytes or 0

    def run(self, options: Options, hulls: Frontier) -> _Made:
        """Return the best choice that is within the limit.

        Raises:
            UsageError: even the smallest types are beyond it.
        """
        least = self._made(options, hulls.start)
        if least.used > self.limit:
            raise self._too_small(least)
        best, extra, tried = least, least.extra, {least.extra}
        for _ in range(_ROUNDS):
            room = max(self.limit - extra, int(hulls.nbytes[0]))
            made = self._made(options, solve(options, hulls, room))
            if made.used > self.limit:
                # Its headers are longer than was thought: leave more room, and ever more.
                over = made.used - self.limit
                extra = made.extra if made.extra > extra else extra + over
                continue
            if options.total(made.picks)[1] < options.total(best.picks)[1]:
                best = made
            if made.extra >= extra or made.extra in tried:
                break
            extra = made.extra
            tried.add(extra)
        if not self._counts_data:
            best = self._closer(options, best, least, hulls)
        return best

    def _closer(self, options: Options, best: _Made, least: _Made, hulls: Frontier) -> _Made:
        """Return a choice that has shorter headers and rules, and so fits and loses less.

        Of a small model these are a part of the size, and each choice has its own.
        """
        price = hulls.price(hulls.steps_within(self.limit - best.extra))
        plans = _ROUNDS
        while plans:
            room = self.limit - best.used + max(best.extra - least.extra, 0)
            if room <= self.limit * _LITTLE:
                break
            data, own = options.total(best.picks)[0], self._rules_nbytes(best.picks)
            for picks in improvements(options, best.picks, room, price):
                more = options.total(picks)[0] - data + self._rules_nbytes(picks) - own
                if best.used + more > self.limit:
                    continue
                made = self._made(options, picks)
                plans -= 1
                if made.used <= self.limit:
                    best = made
                    break
                if not plans:
                    break
            else:
                break
        return best

    def _rules_nbytes(self, picks: _Picks) -> int:
        """Return the bytes of the recipe that makes a choice, as the configuration has it."""
        rules = resolved(self._sought.recipe, self._choice(picks), self._tensors)
        return len(dumps(to_document(rules)))

    def _choice(self, picks: _Picks) -> Choice:
        return Choice(self._units, [self._sought.budget.allow[pick] for pick in picks.tolist()])

    def _made(self, options: Options, picks: _Picks) -> _Made:
        choice = self._choice(picks)
        recipe = self._sought.recipe
        plan = self._plan(resolved(recipe, choice, self._tensors))
        if not is_followed(plan, choice):
            plan = self._plan(resolved(recipe, choice, self._tensors, by_name=True))
        if self._counts_data:
            used = weight_bits(plan)[0] // 8
        else:
            used = model_nbytes(plan, self._sought.request)
        return _Made(picks, plan, used, used - options.total(picks)[0])

    def _plan(self, recipe: Recipe) -> Plan:
        try:
            return self._sought.make(recipe, self._sought.matrix)
        except InputError as error:
            if error.code != "E_IMATRIX_UNUSED":
                raise
        # What is quantized by this choice is none of what the matrix knows.
        return self._sought.make(replace(recipe, imatrix=""), None)

    def _too_small(self, least: _Made) -> UsageError:
        nbytes = model_nbytes(least.plan, self._sought.request)
        wanted = self._sought.budget.bits
        bits, weights = weight_bits(least.plan)
        least_bits = f"{bits / max(weights, 1):.3f} bits a weight"
        asked = f"{float(wanted):g}" if wanted is not None else in_bytes(self.limit)
        return UsageError(
            f"even the smallest of the allowed types make a model of {in_bytes(nbytes)}, "
            f"{least_bits}, which is more than the {asked} asked for",
            code="E_BUDGET_SIZE",
            facts={
                "least": nbytes,
                "bits": f"{math.ceil(1000 * bits / max(weights, 1)) / 1000:g}",
            },
        )
