"""Stores for the tests of the command."""

from __future__ import annotations

import shutil

import pytest

from tests.check_store import snapshot
from tests.cli.corpus import Judge
from tests.cli.runner import run
from tests.importer.builders import MODELS


@pytest.fixture
def store(tmp_path):
    """The path of a store that is not there yet."""
    return tmp_path / "store"


@pytest.fixture(scope="session")
def filled_store(tmp_path_factory):
    """A store with the models `kept` and `moe` that nobody may change."""
    store = tmp_path_factory.mktemp("filled") / "store"
    run("create", "kept", MODELS / "tiny-llama", store=store).succeeded()
    run("create", "moe:v1", MODELS / "tiny-moe", store=store).succeeded()
    before = snapshot(store)
    yield store
    assert snapshot(store) == before


@pytest.fixture
def filled(filled_store, tmp_path):
    """A store of one's own with the models `kept` and `moe`."""
    return shutil.copytree(filled_store, tmp_path / "filled")


@pytest.fixture
def judge(store, filled_store):
    """The judge of bad inputs."""
    return Judge(store, filled_store)
