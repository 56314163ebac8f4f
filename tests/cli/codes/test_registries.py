"""What registries answer, and what is wrong with layouts and archives, as errors."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import tarfile

import pytest

from tests.cli.codes.judge import judged
from tests.cli.runner import run
from tests.importer.builders import MODELS, write
from tests.registry.server import Fault, RegistryServer


class Bench:
    """A registry with the model `me/m`, a store that has it as `m`, and one that has nothing.

    Attributes:
        here: a directory of this test's own.
        monkeypatch: what changes the environment.
    """

    def __init__(self, registry, store, here, monkeypatch):
        self.registry, self.store, self.here = registry, store, here
        self.monkeypatch = monkeypatch

    def push(self, host=None):
        return "push", "m", f"{host or self.registry.host}/me/m"

    def pull(self):
        run(*self.push(), store=self.store).succeeded()
        self.store = self.here / "other"
        return "pull", f"{self.registry.host}/me/m", "p", "--init"

    def meets(self, method, part, **how):
        self.registry.faults.append(Fault(method, part, times=None, **how))
        return self

    def blob(self):
        """The digest of the largest blob of the registry."""
        run(*self.push(), store=self.store).succeeded()
        (_, digest), _ = max(self.registry.blobs.items(), key=lambda pair: len(pair[1]))
        return digest

    def layout(self, *names):
        """A layout of the models, as a directory."""
        run("save", *(names or "m"), self.here / "layout", store=self.store).succeeded()
        return self.here / "layout"


def _unreachable(bench):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return bench.push(f"127.0.0.1:{taken.getsockname()[1]}")


def _no_helper(bench):
    auths = {"credHelpers": {bench.registry.host: "nowhere"}}
    write(bench.here / "docker", {"config.json": auths})
    bench.registry.auth = "basic"
    return bench.push()


def _bundle(bench):
    bench.monkeypatch.setenv("SSL_CERT_FILE", str(bench.here / "nowhere.pem"))
    bench.monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bench.here / "nowhere.pem"))
    return bench.push()


def _socks(bench):
    bench.monkeypatch.setenv("ALL_PROXY", "socks5://anna:s3cret@127.0.0.1:1")
    return bench.push()


def _ollamas(bench):
    """Ollama's own registry answers where the one on loopback does."""
    bench.monkeypatch.setattr(
        "importer.registry.authorization.DEFAULT_HOST", bench.registry.host
    )
    bench.monkeypatch.setenv("HOME", str(bench.here))  # without a key
    challenge = {"WWW-Authenticate": 'Bearer realm="https://ollama.com/t",service="x"'}
    bench.meets("POST", "", status=401, headers=challenge)
    return bench.meets("HEAD", "", status=401, headers=challenge).push()


def _gives(bench, document):
    bench.registry.manifests["me/m", "latest"] = (
        "application/json",
        json.dumps(document).encode(),
    )
    return "pull", f"{bench.registry.host}/me/m", "p"


def _image(bench):
    layer = {
        "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "digest": "sha256:" + "0" * 64,
        "size": 3,
    }
    config = {**layer, "mediaType": "application/vnd.docker.container.image.v1+json"}
    return _gives(bench, {"schemaVersion": 2, "config": config, "layers": [layer]})


def _cut_blob(bench):
    # An answer of no bytes that ends its connection, and says so: without that word, a client
    # asks again on a connection that is about to be closed, and is told so or is not.
    headers = {"Content-Length": "0", "Connection": "close"}
    return bench.meets("GET", bench.blob(), cut=0, headers=headers).pull()


def _flipped_blob(bench):
    digest = bench.blob()
    return bench.meets("GET", digest, flip=9).pull()


def _no_mark(bench):
    layout = bench.layout()
    (layout / "oci-layout").unlink()
    return "load", layout, "p"


def _other_blob(bench):
    layout = bench.layout()
    sizes = {path: path.stat().st_size for path in (layout / "blobs" / "sha256").iterdir()}
    path = max(sizes, key=sizes.get)
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    bench.store = bench.here / "other"
    return "load", layout, "p", "--init"


def _untagged(bench):
    layout = bench.layout()
    index = json.loads((layout / "index.json").read_bytes())
    index["manifests"][0]["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    return "load", write(layout, {"index.json": index})


def _two(bench):
    run("cp", "m", "n", store=bench.store).succeeded()
    return "load", bench.layout("m", "n"), "p"


def _compressed(bench):
    (bench.here / "x.tar.gz").write_bytes(gzip.compress(b"x" * 4096))
    return "load", bench.here / "x.tar.gz"


def _cut_archive(bench):
    layout, place = bench.layout(), bench.here / "x.tar"
    with tarfile.open(place, "w") as archive:
        archive.add(layout, ".")
    with place.open("r+b") as file:
        file.truncate(700)
    return "load", place


SCENES = {
    "E_REGISTRY_ANSWER": lambda at: at.meets("POST", "", status=202).push(),
    "E_REGISTRY_CONFIG": _no_helper,
    "E_REGISTRY_CUT": _cut_blob,
    "E_REGISTRY_DAMAGED": _flipped_blob,
    "E_REGISTRY_FORBIDDEN": lambda at: at.meets("POST", "", status=403).push(),
    "E_REGISTRY_KEY": _ollamas,
    "E_REGISTRY_KIND": _image,
    "E_REGISTRY_LIMIT": lambda at: at.meets(
        "HEAD", "", status=429, headers={"Retry-After": "3600"}
    ).push(),
    "E_REGISTRY_LOGIN": lambda at: at.meets("HEAD", "", status=401).push(),
    "E_REGISTRY_MANIFEST": lambda at: _gives(at, []),
    "E_REGISTRY_NAME": lambda at: ("pull", f"{at.registry.host}/me/m@sha256:{'0' * 64}"),
    "E_REGISTRY_NOT_FOUND": lambda at: ("pull", f"{at.registry.host}/me/m", "p"),
    "E_REGISTRY_PLACE": lambda _: ("push", "m"),
    "E_REGISTRY_PLAIN": lambda _: ("push", "m", "http://registry.example/me/m"),
    "E_REGISTRY_PROXY": _socks,
    "E_REGISTRY_STATUS": lambda at: at.meets("POST", "", status=418).push(),
    "E_REGISTRY_TLS": _bundle,
    "E_REGISTRY_UNREACHABLE": _unreachable,
    "E_REGISTRY_UPLOAD": lambda at: at.meets("PUT", "uploads", status=404).push(),
    "E_ARCHIVE": _compressed,
    "E_LAYOUT": _no_mark,
    "E_LAYOUT_BLOB": _other_blob,
    "E_LAYOUT_MISSING": lambda at: ("load", at.here / "nowhere"),
    "E_LAYOUT_NAME": _untagged,
    "E_LAYOUT_NAMES": _two,
}
"""Code -> the command that it ends, after what was made to go wrong."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    store = tmp_path_factory.mktemp("stored") / "store"
    run("create", "m", MODELS / "tiny-llama", store=store).succeeded()
    return store


@pytest.fixture
def bench(stored, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.delenv("DOCKER_AUTH_CONFIG", raising=False)
    monkeypatch.setattr("importer.http.ranges._FIRST_WAIT", 0.0)  # seconds, which grow
    server = RegistryServer()
    yield Bench(server, shutil.copytree(stored, tmp_path / "store"), tmp_path, monkeypatch)
    server.stop()


@pytest.mark.parametrize("code", SCENES)
def test_a_registry_or_a_layout(code, bench):
    words = SCENES[code](bench)

    judged(code, *words, store=bench.store)


def test_an_archive_that_ends_early_is_not_an_archive(bench):
    judged("E_ARCHIVE", *_cut_archive(bench), store=bench.store)
