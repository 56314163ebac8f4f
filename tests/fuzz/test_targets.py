"""A slice of the fuzzing for every run: hypothesis mutates the seeds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS

MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, 4095), st.sampled_from(["set", "cut", "add"]), st.binary(max_size=8)
    ),
    max_size=6,
)


def mutated(seed, mutations):
    data = bytearray(seed)
    for place, kind, piece in mutations:
        at = place % (len(data) + 1)
        if kind == "cut":
            del data[at : at + len(piece)]
        elif kind == "add":
            data[at:at] = piece
        else:
            data[at : at + len(piece)] = piece
    return bytes(data)


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_pass(target):
    for seed in SEEDS[target]:
        TARGETS[target](seed)


@pytest.mark.parametrize("target", TARGETS)
@given(mutations=MUTATIONS, which=st.integers(0, 9))
def test_mutated_seeds_raise_nothing_else(target, mutations, which):
    seeds = SEEDS[target]
    TARGETS[target](mutated(seeds[which % len(seeds)], mutations))


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.binary(max_size=200))
def test_any_bytes_raise_nothing_else(target, data):
    TARGETS[target](data)
