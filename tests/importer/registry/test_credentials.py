"""Credentials as Docker's own tools write and find them."""

from __future__ import annotations

import base64
import json

import pytest

from importer.registry.credentials import Credentials, credentials_for
from store.errors import AuthError

HOST = "host.example:5000"


def encoded(text):
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def docker(tmp_path):
    """Writes Docker's configuration and helpers; gives the environment of it."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    environment = {"DOCKER_CONFIG": str(tmp_path), "PATH": f"{binaries}:/usr/bin:/bin"}

    def write(config, **helpers):
        (tmp_path / "config.json").write_text(
            config if isinstance(config, str) else json.dumps(config)
        )
        for name, script in helpers.items():
            program = binaries / f"docker-credential-{name}"
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        return environment

    return write


def test_nothing_is_found_where_there_is_nothing(tmp_path):
    assert credentials_for(HOST, {"DOCKER_CONFIG": str(tmp_path)}) is None
    assert credentials_for(HOST, {"HOME": str(tmp_path)}) is None
    assert credentials_for(HOST, {}) is None


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"auth": encoded("anna:pass:word")}, Credentials("anna", "pass:word")),
        ({"username": "anna", "password": "p"}, Credentials("anna", "p")),
        ({"identitytoken": "t"}, Credentials(identity_token="t")),
        ({"registrytoken": "t"}, Credentials(registry_token="t")),
        ({"auth": encoded("anna:p"), "identitytoken": "t"}, Credentials("anna", "p", "t")),
        ({}, None),
    ],
)
@pytest.mark.parametrize("key", [HOST, f"https://{HOST}", f"https://{HOST}/v1/"])
def test_an_entry_of_the_configuration_is_found(docker, entry, expected, key):
    environment = docker({"auths": {key: entry, "other.example": {"auth": encoded("x:y")}}})

    assert credentials_for(HOST, environment) == expected
    assert credentials_for("host.example", environment) is None


def test_the_hub_of_docker_has_a_key_of_its_own(docker):
    config = {"auths": {"https://index.docker.io/v1/": {"auth": encoded("anna:p")}}}

    assert credentials_for("docker.io", docker(config)) == Credentials("anna", "p")


def test_a_helper_is_asked_for_the_host(docker):
    script = """read host; echo "{\\"Username\\":\\"of $host\\",\\"Secret\\":\\"p\\"}" """
    environment = docker({"credHelpers": {HOST: "x"}}, x=script)

    assert credentials_for(HOST, environment) == Credentials(f"of {HOST}", "p")
    assert credentials_for("other.example", environment) is None


def test_a_helper_may_have_a_token(docker):
    script = """echo '{"Username":"<token>","Secret":"t"}'"""

    found = credentials_for(HOST, docker({"credsStore": "x"}, x=script))

    assert found == Credentials(identity_token="t")


def test_what_the_common_helper_lacks_may_be_in_the_file(docker):
    script = "echo 'credentials not found in native keychain'; exit 1"
    entry = {"auth": encoded("anna:p")}
    environment = docker({"credsStore": "x", "auths": {HOST: entry}}, x=script)

    assert credentials_for(HOST, environment) == Credentials("anna", "p")


def test_the_variable_is_asked_last(docker):
    config = {"auths": {HOST: {"auth": encoded("bert:q")}}, "credsStore": "absent"}
    variable = {"DOCKER_AUTH_CONFIG": json.dumps(config)}

    assert credentials_for(HOST, variable) == Credentials("bert", "q")
    assert credentials_for("other.example", variable) is None
    first = docker({"auths": {HOST: {"auth": encoded("anna:p")}}})
    assert credentials_for(HOST, first | variable) == Credentials("anna", "p")


@pytest.mark.parametrize(
    "config",
    [
        "{",
        "[]",
        '{"auths": {"host.example:5000": {"auth": "s3cret"}}}',
        '{"auths": {"host.example:5000": {"auth": "s3cret\u00e9"}}}',
        '{"credsStore": "../x"}',
        '{"credsStore": "absent"}',
        '{"credsStore": "fails"}',
        '{"credsStore": "babbles"}',
        '{"credHelpers": {"host.example:5000": "list"}}',
    ],
)
def test_what_cannot_be_read_is_said_and_not_shown(docker, config):
    environment = docker(
        config,
        fails="echo s3cret >&2; exit 3",
        babbles="echo s3cret",
        list="echo '[\"s3cret\"]'",
    )

    with pytest.raises(AuthError) as refused:
        credentials_for(HOST, environment)

    assert "s3cret" not in str(refused.value)
    assert refused.value.hint


def test_no_representation_has_a_secret():
    found = Credentials("anna", "s3cret", "identity", "registry")

    assert repr(found) == "Credentials(user='anna')"
