"""A hub on loopback, and `ingot` as a program that talks to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from huggingface_hub import close_session, constants

from importer.pipeline import import_model, plan_import
from importer.request import ImportRequest
from store import ModelName, Store
from tests.hub.server import HubServer

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "fixtures" / "models"


@dataclass(frozen=True)
class Run:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def error(self):
        """The error document of a run with `--json`."""
        return json.loads(self.err)


class Ingot:
    """The program, with a cache and a store of its own, and no way to any other hub."""

    def __init__(self, directory, url):
        self.store = directory / "store"
        self.home = directory / "hf"
        self.cache = self.home / "hub"
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
        self.environment = kept | {
            "HOME": str(directory),
            "HF_ENDPOINT": url,
            "HF_HOME": str(self.home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DOWNLOAD_TIMEOUT": "10",
            "INGOT_STORE": str(self.store),
            "PYTHONPATH": str(ROOT),
        }

    def start(self, *words, **environment):
        return subprocess.Popen(
            [sys.executable, "-m", "cli", *words],
            env=self.environment | environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words, **environment):
        with self.start(*words, **environment) as process:
            out, err = process.communicate(timeout=60)
        return Run(process.returncode, out, err)

    def create(self, *words, **environment):
        """Import, and give the manifest's digest."""
        run = self("create", *words, **environment)
        assert run.code == 0, run.err
        return run.out.split()[1]


class InProcess:
    """The import in this process, with huggingface_hub configured as `Ingot` would."""

    def __init__(self, directory):
        self.cache = directory / "hf" / "hub"
        self.store = Store(directory / "in-process")
        self.events = []

    def create(self, source, variant=None):
        """Import; give the layers, and what the configuration says under our key."""
        request = ImportRequest(ModelName.parse("model"), source, variant=variant)
        plan = plan_import(request, self.store, self.events.append)
        import_model(request, plan, self.store, self.events.append)
        return read_model(self.store, "model")


def read_model(store, name):
    """The layers of a model, and what its configuration says under our key."""
    manifest = store.catalog.get(ModelName.parse(name)).parse()
    config = store.blobs.read(manifest.config.ref, 1 << 20)
    return manifest.layers, json.loads(config)["ingot"]


def read_files(directory):
    """Every file below a directory, by its path."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def hub():
    server = HubServer()
    yield server
    server.stop()


@pytest.fixture
def ingot(tmp_path, hub):
    return Ingot(tmp_path, hub.url)


@pytest.fixture
def in_process(monkeypatch, tmp_path, hub):
    home = tmp_path / "hf"
    for name, value in {
        "ENDPOINT": hub.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_TOKEN_PATH": str(home / "token"),
        "AGENT_HARNESSES_PATH": str(home / "agents.json"),
        "HF_HUB_DISABLE_XET": True,
        "HF_HUB_OFFLINE": False,
    }.items():
        monkeypatch.setattr(constants, name, value)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield InProcess(tmp_path)
    close_session()


@pytest.fixture
def llama():
    """A repository with three shards, and with much that no import wants."""
    return read_files(MODELS / "tiny-llama") | {
        "onnx/model.onnx": b"x" * 1000,
        "model.fp16.safetensors": b"not even read",
        ".gitattributes": b"*.safetensors filter=lfs\n",
    }
