"""No crash and no failure at any operation loses anything or leaves what must be repaired."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.exploration import Explorer
from tests.store.scenarios import SCENARIOS
from tests.store.sim_disk import DATA_AFTER_CRASH

# Distinct states after crashes, and failures that were tried: a little less than there are
# today, so that an exploration which explores nothing is not taken for a good one.
LEAST = {
    "first use": (400, 600),
    "create": (260, 450),
    "replace": (440, 830),
    "replace again": (260, 780),
    "restore": (50, 420),
    "reuse": (190, 440),
    "reuse unknown": (200, 450),
    "recall": (75, 300),
    "heal short": (210, 460),
    "heal rot": (180, 450),
    "heal directory": (210, 460),
    "repair short": (110, 280),
    "repair rot": (110, 280),
    "repair directory": (115, 280),
    "quarantine": (7, 150),
    "cp": (65, 280),
    "cp over": (130, 470),
    "rm": (24, 210),
    "rm of two": (45, 320),
    "gc": (390, 620),
    "gc after a killed rm": (36, 350),
    "gc beside a writer": (55, 350),
    "gc beside a first writer": (80, 220),
}
# The same operations as `heal rot`, but for one look.
LONG = {"reuse unknown"}
each_scenario = pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.name in LONG else [])
        for one in SCENARIOS
    ],
)


def last(explorations):
    *_, found = explorations
    return found


@each_scenario
def test_a_crash_or_failure_of_any_operation_leaves_the_store_whole(scenario):
    explorer = Explorer(scenario)

    crashed = last(explorer.crashes()).distinct
    found = last(explorer.failures())

    assert found.violations == []
    least_crashed, least_failed = LEAST[scenario.name]
    assert crashed >= least_crashed
    assert found.faults >= least_failed


@each_scenario
def test_an_interruption_of_any_operation_leaves_no_litter(scenario, monkeypatch):
    monkeypatch.setattr("store.lock._SHARED_WAIT", 0)

    found = last(Explorer(scenario).interruptions())

    assert found.violations == []
    assert found.states == found.operations


@given(
    st.sampled_from([scenario for scenario in SCENARIOS if scenario.beside is None]),
    st.integers(0, 150),
    st.sets(st.integers(0, 50)),
    st.sampled_from(sorted(DATA_AFTER_CRASH)),
)
def test_any_subset_of_what_was_not_synced_is_a_whole_store(scenario, point, kept, data):
    found = Explorer(scenario).crash_keeping(point, kept, data)

    assert found.violations == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [scenario for scenario in SCENARIOS if scenario.beside is None],
    ids=lambda one: one.name,
)
def test_a_crash_after_a_crash_leaves_the_store_whole(scenario):
    worlds = itertools.islice(Explorer(scenario).worlds_after_crashes(), 0, None, 8)
    # An `rm` of two finds one of them gone
    retried = dataclasses.replace(scenario, act=scenario.again or scenario.act)

    explorations = [
        last(Explorer(retried, world).crashes(every_state=False)) for world in worlds
    ]

    assert [line for found in explorations for line in found.violations] == []
