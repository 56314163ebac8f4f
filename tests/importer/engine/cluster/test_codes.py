"""What a cluster cannot do, as the command says it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from importer.engine.cluster import executor, fitness
from tests.cli.codes.judge import judged
from tests.importer.builders import MODELS


def _die(_):
    from distributed import KilledWorker

    raise KilledWorker("job", SimpleNamespace(address="tcp://last:1"), 3)


def _another_numpy():
    return {**fitness.versions(), "numpy": "1.0"}


def _sees_nothing(root, *_):
    return {"host": "there", "versions": fitness.versions(), "problem": f"no `{root}`"}


def _nobody_comes(*_, **__):
    raise TimeoutError


SCENES = {
    "E_CLUSTER_DIED": ("importer.engine.cluster.site.perform", _die),
    "E_CLUSTER_LOST": ("importer.engine.cluster.executor.Cluster._submit", None),
    "E_CLUSTER_PATH": ("importer.engine.cluster.executor.look", _sees_nothing),
    "E_CLUSTER_VERSION": ("importer.engine.cluster.executor.versions", _another_numpy),
    "E_CLUSTER_WORKERS": ("distributed.Client.wait_for_workers", _nobody_comes),
}
"""Code -> what is in the place of something else."""


@pytest.mark.parametrize("code", SCENES)
def test_a_cluster(code, address, tmp_path, monkeypatch):
    target, value = SCENES[code]
    if value is None:
        intact = executor.Cluster._submit

        def value(self, *words):
            self._client.close()
            return intact(self, *words)

    monkeypatch.setattr(target, value)
    monkeypatch.setattr(executor, "_LOOK", 0.1)
    words = ("create", "x", MODELS / "tiny-llama", "-q", "int8", "--scheduler", address)

    judged(code, *words, store=tmp_path / "store")
