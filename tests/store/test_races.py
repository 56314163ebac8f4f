"""Two processes at once: whatever comes in between, nothing is lost and nothing dangles."""

from __future__ import annotations

import pytest

from tests.store import races
from tests.store.races import Race, meetings
from tests.store.scenarios import create_again, damage, nothing, two_models

RACES = [
    Race(two_models, races.REUSE, races.COLLECT),
    Race(create_again, races.REUSE, races.REMOVE_AND_COLLECT),
    Race(create_again, races.REUSE, races.REPLACE_AND_COLLECT),
    Race(create_again, races.RECALL, races.REMOVE_AND_COLLECT),
    Race(two_models, races.COLLECT, races.RECALL),
    Race(races.remove_m, races.COLLECT, races.RECALL),
    Race(nothing, races.CREATE, races.CREATE),
    Race(nothing, races.CREATE, races.REUSE),
    Race(create_again, races.REPLACE, races.REMOVE_AND_COLLECT),
    Race(create_again, races.REPLACE, races.COPY),
    Race(create_again, races.COPY, races.REMOVE_AND_COLLECT),
    Race(create_again, races.COPY, races.REPLACE_AND_COLLECT),
    Race(create_again, races.REMOVE, races.CREATE_OTHER),
    Race(two_models, races.REMOVE, races.COLLECT),
    Race(two_models, races.COLLECT, races.REUSE),
    Race(races.remove_m, races.COLLECT, races.CREATE),
    Race(races.remove_m, races.CREATE, races.COLLECT),
    Race(two_models, races.COLLECT, races.REMOVE_AND_COLLECT),
    Race(create_again, races.COLLECT, races.COPY),
    Race(two_models, races.COLLECT, races.COLLECT),
    Race(create_again, races.CHECK, races.CREATE_OTHER),
    Race(two_models, races.CHECK, races.COLLECT),
    Race(two_models, races.CHECK, races.REMOVE_AND_COLLECT),
    Race(two_models, races.CHECK, races.REPLACE_AND_COLLECT),
    Race(damage(b"bad"), races.CREATE, races.COLLECT),
    Race(damage(b"bad"), races.CREATE, races.CREATE),
    Race(damage(b"bad"), races.CREATE, races.REMOVE_AND_COLLECT),
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Nobody waits for a lock: the one who holds it would wait for us."""
    monkeypatch.setattr("store.lock._SHARED_WAIT", 0)


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
def test_a_command_that_comes_in_between_breaks_nothing(race):
    met = list(meetings(race))

    assert [problem for problems in met for problem in problems] == []
    assert len(met) >= 20
