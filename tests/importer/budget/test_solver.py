"""The solver: never beyond the room, near the best, the same whatever the order of a hash."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.budget.solver import Options, frontier, solve


@st.composite
def problems(draw, units=4, options=4):
    """A few units with a few options each, some of which they do not have, and a room."""
    count = draw(st.integers(1, units))
    rows = []
    for _ in range(count):
        there = draw(st.integers(1, options))
        row = [(draw(st.integers(0, 60)), draw(st.integers(0, 1000)) / 7) for _ in range(there)]
        rows.append(row + [(-1, 0.0)] * (options - there))
    made = np.array(rows)
    return Options(made[:, :, 0].astype(np.int64), made[:, :, 1].copy())


def choices(options):
    """Every choice that there is."""
    there = [np.flatnonzero(row >= 0).tolist() for row in options.nbytes]
    return (np.array(picks) for picks in itertools.product(*there))


def exact(options, room):
    """The least damage of the choices that fit."""
    totals = map(options.total, choices(options))
    return min(damage for nbytes, damage in totals if nbytes <= room)


@given(problems(), st.integers(0, 60))
def test_a_choice_fits_and_is_between_the_bound_and_the_smallest(options, more):
    hulls = frontier(options)
    least, worst = options.total(hulls.start)
    room = least + more

    nbytes, damage = options.total(solve(options, hulls, room))

    assert nbytes <= room
    best = exact(options, room)
    assert hulls.bound(room) <= best + 1e-9
    assert best - 1e-9 <= damage <= worst + 1e-9


@given(problems())
def test_the_frontier_begins_with_the_smallest_and_ends_with_the_best(options):
    hulls = frontier(options)

    totals = list(map(options.total, choices(options)))
    assert options.total(hulls.start)[0] == min(nbytes for nbytes, _ in totals)
    best = options.total(hulls.choice(len(hulls.units)))
    assert best[1] == pytest.approx(min(damage for _, damage in totals), abs=1e-9)
    assert (np.diff(hulls.nbytes) > 0).all()
    assert (np.diff(hulls.damage) <= 0).all()


@settings(max_examples=50)
@given(problems(), st.integers(0, 60), st.randoms())
def test_the_order_of_equal_units_does_not_matter_to_what_is_lost(options, more, random):
    order = list(range(len(options.nbytes)))
    random.shuffle(order)
    turned = Options(options.nbytes[order], options.damage[order])
    room = options.total(frontier(options).start)[0] + more

    first = options.total(solve(options, frontier(options), room))[1]
    bounds = frontier(options).bound(room), frontier(turned).bound(room)

    assert bounds[0] == pytest.approx(bounds[1], abs=1e-9)
    assert first >= bounds[1] - 1e-9


def layers(count, seed=1):
    """Matrices of a llama in 15 types, each mattering more or less than the next."""
    random = np.random.default_rng(seed)
    sizes = (4096 * 4096, 1024 * 4096, 14336 * 4096)
    decibels = {3: 14.2, 4: 20.6, 5: 26.8, 6: 32.9, 8: 42.9}
    types = list(itertools.product(decibels, ((32, 1.1), (64, 0.0), (128, -0.8))))
    elements = random.choice(sizes, count)
    factors = np.exp(random.normal(size=count))
    nbytes = np.array([[n * b // 8 + n // g * 4 for b, (g, _) in types] for n in elements])
    lost = np.array([[10 ** (-(decibels[b] + more) / 10) for b, (_, more) in types]])
    return Options(nbytes, elements[:, None] * factors[:, None] * lost)


def by_dynamic_programming(options, room):
    """The least damage of all choices that fit, of options whose bytes have a large divisor."""
    unit = int(np.gcd.reduce(options.nbytes.ravel()))
    best = np.zeros(room // unit + 1)
    for sizes, damages in zip(options.nbytes // unit, options.damage, strict=True):
        before, best = best, np.full(len(best), np.inf)
        for size, damage in zip(sizes.tolist(), damages.tolist(), strict=True):
            if size < len(best):
                np.minimum(best[size:], before[: len(best) - size] + damage, out=best[size:])
    return best[-1]


@pytest.mark.parametrize("seed", [2, 3, 7])
def test_few_units_have_the_best_choice(seed):
    options = layers(36, seed)
    hulls = frontier(options)
    room = int(hulls.nbytes[0] + 0.4 * (hulls.nbytes[-1] - hulls.nbytes[0]))

    _, damage = options.total(solve(options, hulls, room))

    assert damage == pytest.approx(by_dynamic_programming(options, room), rel=1e-9)


@pytest.mark.parametrize(("count", "above"), [(200, 1e-3), (1000, 1e-4)])
def test_many_units_are_near_the_bound_and_leave_nothing(count, above):
    options = layers(count)
    hulls = frontier(options)
    for share in (0.2, 0.4, 0.6):
        room = int(hulls.nbytes[0] + share * (hulls.nbytes[-1] - hulls.nbytes[0]))

        nbytes, damage = options.total(solve(options, hulls, room))

        assert damage <= hulls.bound(room) * (1 + above)
        assert 0 <= room - nbytes <= 1e-3 * room


def test_an_exchange_takes_what_a_single_move_cannot():
    # The first unit's step is the best for a byte, and leaves 40 bytes that nobody can use.
    options = Options(
        np.array([[0, 60], [0, 50], [0, 50]]), np.array([[70.0, 0.0], [50.0, 0.0], [50.0, 0.0]])
    )
    hulls = frontier(options)

    assert hulls.choice(hulls.steps_within(100)).tolist() == [1, 0, 0]
    assert solve(options, hulls, 100).tolist() == [0, 1, 1]


def test_of_equal_options_the_first_is_taken():
    options = Options(np.array([[8, 8, 4, 4]]), np.array([[1.0, 1.0, 3.0, 3.0]]))

    assert frontier(options).start.tolist() == [2]
    assert solve(options, frontier(options), 8).tolist() == [0]


def test_one_option_is_no_choice():
    options = Options(np.array([[5, -1], [-1, 7]]), np.array([[2.0, 0.0], [0.0, 3.0]]))

    assert solve(options, frontier(options), 12).tolist() == [0, 1]
    assert frontier(options).bound(12) == 5.0
