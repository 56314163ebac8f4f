"""docker-registry and skopeo themselves, where they are installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.cli.runner import run
from tests.registry.conftest import digest_in
from tests.registry.real import DockerRegistry

needs_registry = pytest.mark.skipif(
    shutil.which("docker-registry") is None, reason="docker-registry is not installed"
)
needs_skopeo = pytest.mark.skipif(
    shutil.which("skopeo") is None, reason="skopeo is not installed"
)


@pytest.fixture
def real(tmp_path, monkeypatch):
    """The address of a docker-registry."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    with DockerRegistry(tmp_path) as server:
        yield server.host


@pytest.fixture
def skopeo(tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text('{"default":[{"type":"insecureAcceptAnything"}]}')

    def copy(source, target):
        words = ["--src-tls-verify=false", "--dest-tls-verify=false", source, target]
        call = ["skopeo", "--policy", str(policy), "copy", "--quiet", *words]
        subprocess.run(call, check=True, capture_output=True)

    return copy


@needs_registry
def test_a_model_goes_to_docker_registry_and_comes_back(real, store, tmp_path):
    where, other = f"{real}/me/m:x", tmp_path / "other"

    run("push", "m", where, store=store).succeeded()
    assert run("push", "m", where, "--json", store=store).document["moved"]["blobs"] == 0
    run("pull", where, "m", store=other).succeeded()

    assert digest_in(other, "m") == digest_in(store, "m")


@needs_registry
@needs_skopeo
@pytest.mark.parametrize("kind", ["oci:{}", "oci-archive:{}.tar"])
def test_skopeo_copies_what_we_save_both_ways(real, store, skopeo, tmp_path, kind):
    mine, theirs = (kind.format(tmp_path / name) for name in ("mine", "theirs"))
    path = mine.partition(":")[2]
    run("save", "m", path, store=store).succeeded()

    skopeo(f"{mine}:m:latest", f"docker://{real}/me/m")
    skopeo(f"docker://{real}/me/m", f"{theirs}:m:latest")

    for number, source in enumerate((theirs.partition(":")[2], path)):
        other = tmp_path / f"store{number}"
        run("load", source, store=other).succeeded()
        assert digest_in(other, "m") == digest_in(store, "m")
    run("pull", f"{real}/me/m", "m", store=tmp_path / "pulled").succeeded()
    assert digest_in(tmp_path / "pulled", "m") == digest_in(store, "m")
