"""Where a command fails: a store with a model of its own, and a machine that can be broken."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.cli.runner import run
from tests.importer.builders import MODELS

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Scene:
    """Where a command fails.

    Attributes:
        here: a directory of the scene's own.
        store: a store of its own with the model `kept`, tiny-llama.
        monkeypatch: what breaks the machine.
        after: what is let go when the command has ended.
    """

    here: Path
    store: Path
    monkeypatch: pytest.MonkeyPatch
    after: contextlib.ExitStack

    def patch(self, target, value):
        self.monkeypatch.setattr(target, value)

    def run(self, *words):
        return run(*words, store=self.store).succeeded()


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    store = tmp_path_factory.mktemp("filled") / "store"
    run("create", "kept", MODELS / "tiny-llama", store=store).succeeded()
    return store


@pytest.fixture
def scene(filled, tmp_path, monkeypatch):
    store = shutil.copytree(filled, tmp_path / "store")
    with contextlib.ExitStack() as after:
        yield Scene(tmp_path, store, monkeypatch, after)
