"""Registries that refuse, redirect, lie or say nothing."""

from __future__ import annotations

import json
import socket
import time

import pytest

from tests.cli.runner import run
from tests.registry.conftest import digest_in
from tests.registry.server import BASIC, PASSWORD, USER, Fault
from tests.registry.test_transfer import pulled, pushed

SECRETS = (PASSWORD, BASIC.partition(" ")[2])


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_credentials_are_shown_when_the_registry_asks(
    registry, store, tmp_path, logged_in, auth
):
    registry.auth = auth
    logged_in()

    pushed(registry, store).succeeded()
    pulled(registry, tmp_path / "other").succeeded()

    assert "Authorization" not in registry.requests[0].headers
    assert digest_in(tmp_path / "other", "p") == digest_in(store, "m")


def test_an_identity_token_is_exchanged(registry, store, logged_in):
    registry.auth = "bearer"
    logged_in(identitytoken="identity")

    pushed(registry, store).succeeded()

    assert all("refresh_token" in asked for asked in registry.tokens.values())


def test_a_token_asks_for_what_is_done(registry, store, logged_in):
    registry.auth = "bearer"
    logged_in()
    pushed(registry, store).succeeded()

    (asked,) = registry.tokens.values()
    assert "scope=repository%3Ame%2Fm%3Apull%2Cpush" in asked
    assert "service=tests" in asked


def test_a_token_that_ran_out_is_renewed(registry, store, logged_in):
    registry.auth = "bearer"
    logged_in()
    challenge = f'Bearer realm="http://{registry.token_host}/token",service="tests"'
    fault = Fault("POST", "", status=401, headers={"WWW-Authenticate": challenge}, spares=3)
    registry.faults.append(fault)

    pushed(registry, store).succeeded()

    assert len(registry.tokens) == 2


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_a_wrong_password_is_said_and_not_shown(registry, store, logged_in, auth):
    registry.auth = auth
    logged_in(username=USER, password="hunter2")

    outcome = pushed(registry, store)

    assert "docker login" in outcome.failed(11)
    assert "hunter2" not in outcome.stderr


def test_no_credentials_is_said(registry, store):
    registry.auth = "basic"

    assert "wants credentials" in pushed(registry, store).failed(11)


def test_no_secret_reaches_another_host(registry, store, tmp_path, logged_in):
    registry.auth, registry.redirects = "basic", True
    logged_in()
    pushed(registry, store).succeeded()

    pulled(registry, tmp_path / "other").succeeded()

    (from_storage,) = [registry.asked("GET", "signature=x")]
    assert len(from_storage) > 10
    for seen in from_storage:
        assert not any(secret in str(seen.headers) for secret in SECRETS)


def test_a_message_of_the_registry_does_not_repeat_a_secret(registry, store, logged_in):
    registry.auth = "basic"
    logged_in()
    body = json.dumps({"errors": [{"code": "X", "message": f"no {PASSWORD} {BASIC}"}]})
    registry.faults.append(Fault("POST", "", status=403, body=body.encode(), times=None))

    outcome = pushed(registry, store)

    outcome.failed(11)
    for secret in SECRETS:
        assert secret not in outcome.stderr


def test_a_registry_that_is_too_busy_is_left_alone_for_as_long_as_it_says(registry, store):
    registry.faults.append(Fault("HEAD", "blobs", status=429, headers={"Retry-After": "1"}))

    before = time.monotonic()
    pushed(registry, store).succeeded()

    assert time.monotonic() - before >= 1


def test_a_registry_that_wants_an_hour_gets_it_from_the_user(registry, store):
    headers = {"Retry-After": "3600"}
    registry.faults.append(Fault("HEAD", "", status=429, headers=headers, times=None))

    assert "3600 seconds" in pushed(registry, store).failed(10)


def test_a_registry_that_fails_for_a_moment_is_asked_again(registry, store, tmp_path):
    for method, part in (("HEAD", "blobs"), ("POST", "uploads"), ("PUT", "manifests")):
        registry.faults.append(Fault(method, part, status=503))
    pushed(registry, store).succeeded()
    for part in ("manifests", "blobs"):
        registry.faults.append(Fault("GET", part, status=500))

    pulled(registry, tmp_path / "other").succeeded()


@pytest.mark.parametrize(
    "said", ["bytes 0-9/10", "bytes 901-4000/4001", "nonsense", "bytes 900-1000/7"]
)
def test_a_range_that_is_not_the_one_asked_for_is_refused(registry, store, tmp_path, said):
    pushed(registry, store).succeeded()
    (_, digest), _ = max(registry.blobs.items(), key=lambda pair: len(pair[1]))
    registry.faults.append(Fault("GET", digest, cut=900))
    registry.faults.append(Fault("GET", digest, headers={"Content-Range": said}))

    assert "range" in pulled(registry, tmp_path / "other").failed(10)


def test_a_digest_that_is_not_the_manifests_is_refused(registry, store, tmp_path):
    pushed(registry, store).succeeded()
    said = {"Docker-Content-Digest": "sha256:" + "0" * 64}
    registry.faults.append(Fault("GET", "manifests", headers=said))

    assert "hashes to" in pulled(registry, tmp_path / "other").failed(10)


def test_a_reference_with_a_digest_gives_that_manifest_alone(registry, store, tmp_path):
    pushed(registry, store).succeeded()
    digest, other = digest_in(store, "m"), tmp_path / "other"
    registry.manifests["me/m", "sha256:" + "0" * 64] = registry.manifests["me/m", "latest"]

    run("pull", f"{registry.host}/me/m@{digest}", "p", store=other).succeeded()
    run("pull", f"{registry.host}/me/m@sha256:{'0' * 64}", "q", store=other).failed(10)


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (b"", 3),
        (b"[]", 3),
        (b"{}", 3),
        (b'{"schemaVersion":2,"manifests":[]}', 4),
        (b'{"schemaVersion":1,"fsLayers":[]}', 4),
        (b"<html>", 3),
    ],
)
def test_a_manifest_that_is_no_models_is_refused(registry, tmp_path, document, code):
    registry.manifests["me/m", "latest"] = "application/json", document

    pulled(registry, tmp_path / "other").failed(code)


def test_a_container_image_is_refused(registry, tmp_path):
    layer = {
        "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "digest": "sha256:" + "0" * 64,
        "size": 3,
    }
    document = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {**layer, "mediaType": "application/vnd.docker.container.image.v1+json"},
        "layers": [layer],
    }
    registry.manifests["me/m", "latest"] = "x", json.dumps(document).encode()

    assert "is not a model" in pulled(registry, tmp_path / "other").failed(4)


def test_a_registry_that_lacks_the_model_is_exit_9(registry, tmp_path):
    pulled(registry, tmp_path / "other").failed(9)


def test_a_registry_that_is_not_there_is_exit_10(store):

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
    run("push", "m", f"{host}/me/m", store=store).failed(10)


def test_redirects_without_an_end_are_refused(registry, store, tmp_path):
    pushed(registry, store).succeeded()
    place = f"http://{registry.host}/v2/me/m/manifests/latest"
    fault = Fault("GET", "manifests", status=302, headers={"Location": place}, times=None)
    registry.faults.append(fault)

    assert "without an end" in pulled(registry, tmp_path / "other").failed(10)


@pytest.mark.parametrize(
    "place",
    ["file:///etc/passwd", "http://u:p@127.0.0.1:1/x", "ftp://x/", "http://["],
)
def test_a_redirect_to_what_is_no_web_address_is_refused(registry, tmp_path, place):
    registry.faults.append(Fault("GET", "manifests", status=302, headers={"Location": place}))

    assert "redirects to" in pulled(registry, tmp_path / "other").failed(10)


def test_plain_http_is_for_this_machine_alone(store):
    message = run("push", "m", "http://registry.example/me/m", store=store).failed(2)

    assert "--insecure" in message
