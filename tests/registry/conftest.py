"""A registry on loopback, a store with a model, and credentials of its own."""

from __future__ import annotations

import json

import pytest

from store import Store
from tests.cli.runner import run
from tests.importer.builders import MODELS
from tests.registry.server import BASIC, RegistryServer


@pytest.fixture
def registry(monkeypatch, tmp_path):
    """The server; clients find no credentials but those that a test gives."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.delenv("DOCKER_AUTH_CONFIG", raising=False)
    server = RegistryServer()
    yield server
    server.stop()


@pytest.fixture
def logged_in(registry, tmp_path):
    """Docker's configuration, with the password of the registry."""

    def write(**entry):
        entry = entry or {"auth": BASIC.partition(" ")[2]}
        path = tmp_path / "docker" / "config.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"auths": {registry.host: entry}}))

    return write


@pytest.fixture
def store(tmp_path):
    """A store with the model `m`."""
    path = tmp_path / "store"
    run("create", "m", MODELS / "tiny-llama", "-q", "int4", store=path).succeeded()
    return path


def digest_in(store, name):
    """The digest of a model."""
    from store import ModelName

    with Store(store) as opened:
        return str(opened.catalog.get(ModelName.parse(name)).digest)
