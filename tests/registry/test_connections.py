"""Proxies, certificates and IPv6, with docker-registry itself."""

from __future__ import annotations

import socket

import pytest

from tests.cli.runner import run
from tests.registry.conftest import digest_in
from tests.registry.cutter import Cutter
from tests.registry.real import NAME, DockerRegistry, Proxy, log_in, make_certificate, why_not
from tests.registry.server import RegistryServer

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="there is no ::1")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """Nothing of the environment that the tests run in; a password for every name."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    for name in (*VARIABLES, *BUNDLES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr("importer.http.ranges._FIRST_WAIT", 0.0)
    return monkeypatch


@pytest.fixture
def secure(tmp_path):
    """A docker-registry with TLS and passwords, in whose certificate is also `NAME`."""
    with DockerRegistry(tmp_path, make_certificate(tmp_path)) as server:
        log_in(tmp_path / "docker", server.host, f"{NAME}:5000", f"localhost:{server.port}")
        yield server


def there_and_back(where, store, other, *more):
    run("push", "m", where, *more, store=store).succeeded()
    run("pull", where, "m", *more, store=other).succeeded()
    assert digest_in(other, "m") == digest_in(store, "m")


@pytest.mark.parametrize("bundle", BUNDLES)
def test_a_bundle_of_the_environment_is_trusted(secure, store, tmp_path, environment, bundle):
    environment.setenv(bundle, str(secure.certificate))

    there_and_back(f"{secure.host}/me/m:x", store, tmp_path / "other")


def test_a_directory_of_certificates_is_trusted(secure, store, tmp_path, environment):
    import subprocess

    directory = tmp_path / "certificates"
    directory.mkdir()
    words = ["openssl", "x509", "-hash", "-noout", "-in", str(secure.certificate)]
    name = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    (directory / f"{name}.0").write_bytes(secure.certificate.read_bytes())
    environment.setenv("REQUESTS_CA_BUNDLE", str(directory))

    there_and_back(f"{secure.host}/me/m:x", store, tmp_path / "other")


def test_without_it_nothing_is_said_to_who_is_not_trusted(secure, store):
    ended = run("push", "m", f"{secure.host}/me/m:x", store=store)

    assert ended.code == 10
    assert "certificate" in ended.stderr
    run("push", "m", f"{secure.host}/me/m:x", "--insecure", store=store).succeeded()


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_a_proxy_leads_to_a_registry_with_tls(secure, store, tmp_path, environment, variable):
    """Only the proxy knows where the registry is, and hears its name alone."""
    environment.setenv("SSL_CERT_FILE", str(secure.certificate))
    with Proxy(("127.0.0.1", secure.port), "paul:pr0xy") as proxy:
        environment.setenv(variable, proxy.address)

        there_and_back(f"{NAME}:5000/me/m:x", store, tmp_path / "other")

        assert set(proxy.asked) == {("CONNECT", f"{NAME}:5000")}


def test_a_proxy_leads_to_a_plain_registry(store, tmp_path, environment):
    with DockerRegistry(tmp_path) as server, Proxy(("127.0.0.1", server.port)) as proxy:
        environment.setenv("HTTP_PROXY", proxy.address)

        there_and_back(f"http://{NAME}:5000/me/m:x", store, tmp_path / "other", "--insecure")

        assert {method for method, _ in proxy.asked} >= {"HEAD", "POST", "PUT", "GET"}
        assert all(path.startswith(f"http://{NAME}:5000/v2/") for _, path in proxy.asked)


def test_a_proxy_that_wants_another_login_is_an_error_without_a_secret(store, environment):
    with Proxy(("127.0.0.1", 1), "paul:pr0xy") as proxy:
        environment.setenv("HTTPS_PROXY", proxy.address.replace("pr0xy", "wr0ng"))

        ended = run("push", "m", f"{NAME}/me/m:x", store=store)

    assert ended.code == 10
    assert "407" in ended.stderr
    assert "wr0ng" not in ended.stderr


@pytest.mark.parametrize("names", [NAME, f".test,{NAME}", "*", f"{NAME}:5000"])
def test_no_proxy_is_respected(store, environment, names):
    """Without the proxy nobody knows the name."""
    with Proxy(("127.0.0.1", 1)) as proxy:
        environment.setenv("HTTPS_PROXY", proxy.address)
        environment.setenv("NO_PROXY", names)

        ended = run("push", "m", f"{NAME}:5000/me/m:x", store=store)

    assert ended.code == 10
    assert proxy.asked == []


@pytest.mark.parametrize("auth", ["none", "bearer"])
def test_no_proxy_leads_to_this_machine_whatever_name_it_has(
    store, tmp_path, environment, auth
):
    """Nor to a storage and an authorization server of other names here."""
    server = RegistryServer()
    server.auth, server.redirects = auth, True
    port = server.host.partition(":")[2]
    log_in(tmp_path / "docker", f"localhost:{port}")
    with Proxy(("127.0.0.1", 1)) as proxy:
        environment.setenv("ALL_PROXY", proxy.address)

        there_and_back(f"localhost:{port}/me/m:x", store, tmp_path / "other")

    server.stop()
    assert proxy.asked == []


@needs_ipv6
@pytest.mark.parametrize("is_secure", [False, True])
def test_a_registry_with_an_address_of_ipv6(store, tmp_path, environment, is_secure):
    certificate = make_certificate(tmp_path) if is_secure else None
    with DockerRegistry(tmp_path, certificate, "::1") as server:
        log_in(tmp_path / "docker", server.host)
        environment.setenv("ALL_PROXY", "http://127.0.0.1:1")
        environment.setenv("SSL_CERT_FILE", str(certificate or ""))

        there_and_back(f"[::1]:{server.port}/me/m:x", store, tmp_path / "other")
        ended = run("pull", f"[::1]:{server.port}/me/m:x", store=store)

    assert ended.code == 2
    assert "does not say what to call" in ended.stderr


@pytest.mark.parametrize("gap", [1, 60, 400, 900, 1500, 2200])
def test_a_connection_that_is_cut_early_is_tried_again_with_tls(
    secure, store, tmp_path, environment, gap
):
    """In the handshake, or before the first answer: neither is a sign of plain HTTP."""
    environment.setenv("SSL_CERT_FILE", str(secure.certificate))
    with Cutter(secure.port, [gap]) as cutter:
        log_in(tmp_path / "docker", f"127.0.0.1:{cutter.port}")

        run("push", "m", f"127.0.0.1:{cutter.port}/me/m:x", store=store).succeeded()

    assert cutter.cuts == 1


def test_a_plain_registry_is_found_behind_a_cut(store, tmp_path):
    with DockerRegistry(tmp_path) as server, Cutter(server.port, [20, 40, 300]) as cutter:
        run("push", "m", f"127.0.0.1:{cutter.port}/me/m:x", store=store).succeeded()

    assert cutter.cuts == 3
