"""Ollama's registry: its users' key, and its ways of uploading, over TLS and a proxy."""

from __future__ import annotations

import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from importer.registry import ollama_upload
from tests.cli.runner import run
from tests.registry.conftest import digest_in
from tests.registry.ollama import HOST, STORAGE, TOKEN, TOKENS, OllamaServer
from tests.registry.real import Proxy, make_certificate, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def private(key):
    encoding, kind = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    return key.private_bytes(encoding, kind, serialization.NoEncryption())


@pytest.fixture
def key(tmp_path, monkeypatch):
    """Where the user's key is."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = tmp_path / "home" / ".ollama" / "id_ed25519"
    path.parent.mkdir(parents=True)
    path.write_bytes(private(ed25519.Ed25519PrivateKey.generate()))
    return path


@pytest.fixture
def ollama(tmp_path, monkeypatch, key):
    """The server; the names of Ollama lead there, and nothing leaves this machine."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setattr("importer.http.ranges._FIRST_WAIT", 0.0)
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    public = (
        serialization.load_ssh_private_key(key.read_bytes(), None)
        .public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    )
    with (
        OllamaServer(certificate, public.decode()) as server,
        Proxy(("127.0.0.1", server.port)) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy.address)
        yield server


@pytest.mark.parametrize("way", ["direct", "parts", "redirect"])
def test_a_model_goes_and_comes_with_its_digest(ollama, store, tmp_path, monkeypatch, way):
    ollama.way = way
    monkeypatch.setattr(ollama_upload, "_SMALLEST", 1000)

    run("push", "m", f"{HOST}/me/m:x", store=store).succeeded()
    again = run("push", "m", "me/m:x", "--json", store=store)
    run("pull", "me/m:x", store=tmp_path / "other").succeeded()

    assert again.succeeded().document["moved"]["blobs"] == 0
    assert digest_in(tmp_path / "other", "me/m:x") == digest_in(store, "m")
    most = max(len(pieces) for _, pieces in ollama.uploads.values())
    assert (most > 1) == (way != "direct")
    assert all("Authorization" not in h for h in ollama.asked("PUT", STORAGE))
    assert bool(ollama.asked("PUT", STORAGE)) == (way != "parts")


@pytest.mark.parametrize(
    ("way", "failing"),
    [
        ("direct", ("PUT", STORAGE)),
        ("direct", ("PUT", HOST)),
        ("parts", ("PATCH", HOST)),
        ("redirect", ("PUT", STORAGE)),
        ("parts", ("POST", HOST)),
    ],
)
def test_what_fails_for_a_while_is_sent_again(ollama, store, way, failing):
    ollama.way, ollama.failures = way, {failing: 3}

    run("push", "m", f"{HOST}/me/m:x", store=store).succeeded()

    assert ollama.failures[failing] == 0


def test_a_name_with_a_user_goes_there_without_more_words(ollama, store):
    run("cp", "m", "me/m", store=store).succeeded()

    run("push", "me/m", store=store).succeeded()

    assert "latest" in ollama.manifests


def test_the_key_signs_for_ollamas_own_hosts_alone(ollama, store):
    ollama.realm = f"https://{STORAGE}/token"

    ended = run("push", "m", f"{HOST}/me/m:x", store=store)

    assert "it sends for a token to" in ended.failed(10)
    assert ollama.asked("GET", STORAGE) == []


@pytest.mark.parametrize("realm", ["http://ollama.com/token", "/token", "https://[", ""])
def test_no_signature_goes_where_others_can_read_it(ollama, store, realm):
    ollama.realm = realm

    assert "it sends for a token to" in run("push", "m", f"{HOST}/me/m:x", store=store).failed(
        10
    )
    assert ollama.asked("GET", TOKENS) == []


def test_a_key_that_the_registry_does_not_know_is_not_accepted(ollama, store, key):
    key.write_bytes(private(ed25519.Ed25519PrivateKey.generate()))

    ended = run("push", "m", f"{HOST}/me/m:x", store=store)

    assert "does not accept" in ended.failed(11)
    signature = ollama.asked("GET", TOKENS)[-1]["Authorization"]
    assert signature not in ended.stderr
    assert TOKEN not in ended.stderr


def _gone(key):
    key.unlink()


def _damaged(key):
    key.write_bytes(b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")


def _of_rsa(key):
    key.write_bytes(private(rsa.generate_private_key(65537, 2048)))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_gone, "No such file"),
        (_damaged, "is not a private key"),
        (_of_rsa, "is not a key of Ed25519"),
    ],
)
def test_a_key_that_cannot_be_used_is_named(ollama, store, key, change, expected):
    change(key)

    message = run("push", "m", f"{HOST}/me/m:x", store=store).failed(11)

    assert expected in message
    assert "id_ed25519" in message
    assert ollama.asked("GET", TOKENS) == []


@pytest.mark.usefixtures("ollama")
def test_without_the_package_it_is_said_what_to_install(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)

    message = run("push", "m", f"{HOST}/me/m:x", store=store).failed(2)

    assert "pip install '.[ollama]'" in message
