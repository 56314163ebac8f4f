"""What names a model in a registry, as Docker and Ollama read it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.registry.reference import Reference
from store import ModelName
from store.errors import UsageError

ZEROS = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "host", "repository", "tag"),
    [
        ("llama", "registry.ollama.ai", "library/llama", "latest"),
        ("me/llama:7b", "registry.ollama.ai", "me/llama", "7b"),
        ("host.example/me/llama", "host.example", "me/llama", "latest"),
        ("localhost:5000/llama", "localhost:5000", "llama", "latest"),
        ("localhost/llama:a", "localhost", "llama", "a"),
        ("127.0.0.1:5000/a/b/c/d:e", "127.0.0.1:5000", "a/b/c/d", "e"),
        ("https://host.example/me/llama", "host.example", "me/llama", "latest"),
        (f"host.example/me/llama@{ZEROS}", "host.example", "me/llama", ZEROS),
        (f"host.example/me/llama:x@{ZEROS}", "host.example", "me/llama", ZEROS),
        ("gpu/me/llama", "gpu", "me/llama", "latest"),
        ("[::1]:5000/me/llama:x", "[::1]:5000", "me/llama", "x"),
        ("https://[2001:db8::7]/llama", "[2001:db8::7]", "llama", "latest"),
    ],
)
def test_a_reference_is_read(text, host, repository, tag):
    found = Reference.parse(text)

    assert (found.host, found.repository, found.tag) == (host, repository, tag)
    assert Reference.parse(str(found)) == Reference(host, repository, tag)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "host.example/",
        "host.example//m",
        "host.example/../m",
        "host.example/me/m:",
        "host.example/me/m@",
        "host.example/me/m@sha256:00",
        "host.example/me/m@md5:" + "0" * 32,
        "ftp://host.example/me/m",
        "host.example:x/me/m",
        "user:pw@host.example/me/m",
        "host.example/me/m?x=y",
        "host.example/me/\x1b[2J",
        "host.example/Me/m",
        "-x.example/me/m",
        "host.example/" + "a" * 300,
        "[::1/me/m",
        "[::1::2]:5000/me/m",
        "[fe80::1%eth0]/me/m",
        "[localhost]:5000/me/m",
        "::1/me/m",
    ],
)
def test_what_is_no_reference_is_refused(text):
    with pytest.raises(UsageError) as refused:
        Reference.parse(text)

    assert "\x1b" not in str(refused.value)


@given(st.text(alphabet="aA0._-:/@", max_size=30))
def test_a_reference_never_leaves_its_host(text):
    try:
        found = Reference.parse(text)
    except UsageError:
        return
    parts = found.repository.split("/")
    assert not {"", ".", ".."}.intersection(parts)
    assert "/" not in found.host
    assert "@" not in found.host


def test_a_name_of_the_store_is_a_reference():
    name = ModelName.parse("host.example/me/llama:int4")

    assert Reference.of(name).name == name
    assert Reference.parse("host.example/llama").name is None
    assert Reference.parse("host.example/a/b/c").name is None
    assert Reference.parse(f"host.example/a/b@{ZEROS}").name is None


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("localhost", True),
        ("localhost:5000", True),
        ("registry.localhost", True),
        ("127.0.0.1:5000", True),
        ("127.8.9.1", True),
        ("127.example.com", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("10.0.0.1", False),
    ],
)
def test_this_machine_is_known(host, is_loopback):
    assert Reference.parse(f"{host}/me/m").is_loopback == is_loopback
