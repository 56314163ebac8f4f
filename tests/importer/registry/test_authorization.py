"""What registries ask for, and what they are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.registry.authorization import Authorization, Challenge, challenges
from importer.registry.credentials import Credentials
from importer.registry.reference import Reference
from store.errors import AuthError, NetworkError

SCOPE = "repository:me/m:pull"
BEARER = 'Bearer realm="https://auth.example/token",service="s"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Basic", [("basic", {})]),
        ('Basic realm="a, b"', [("basic", {"realm": "a, b"})]),
        (
            'Bearer realm="https://x/token",service="s",scope="repository:a/b:pull,push"',
            [
                (
                    "bearer",
                    {
                        "realm": "https://x/token",
                        "service": "s",
                        "scope": "repository:a/b:pull,push",
                    },
                )
            ],
        ),
        (
            'bearer realm=x, BASIC realm="y"',
            [("bearer", {"realm": "x"}), ("basic", {"realm": "y"})],
        ),
        ('Basic realm="a\\"b"', [("basic", {"realm": 'a"b'})]),
        ("=,;", []),
    ],
)
def test_a_challenge_is_read(text, expected):
    assert list(challenges(text)) == [Challenge(*one) for one in expected]


@given(st.text(max_size=200))
def test_any_challenge_can_be_read(text):
    for one in challenges(text):
        assert one.scheme == one.scheme.lower()


def authorization(answer, credentials=None, host="host.example"):
    asked = []

    def fetch(request):
        asked.append(request)
        return answer

    found = Authorization(Reference(host, "me/m", "latest"), (SCOPE,), fetch)
    found.__dict__["credentials"] = credentials
    return found, asked


def test_a_token_is_asked_for_with_the_password():
    found, asked = authorization(b'{"token": "t"}', Credentials("anna", "p"))

    assert found.renew(None, BEARER, is_plain=False)

    assert found.header == "Bearer t"
    (request,) = asked
    assert request.realm == "https://auth.example/token"
    assert request.query == {"service": "s", "scope": [SCOPE], "account": "anna"}
    assert request.header == Credentials("anna", "p").basic


def test_a_thread_that_was_slower_takes_the_new_header():
    found, asked = authorization(b'{"access_token": "t"}')
    found.renew(None, BEARER, is_plain=False)

    assert found.renew(None, BEARER, is_plain=False)
    assert len(asked) == 1


def test_a_password_that_was_refused_is_not_tried_again():
    found, _ = authorization(b"", Credentials("anna", "p"))

    assert found.renew(None, "Basic", is_plain=False)
    assert not found.renew(found.header, "Basic", is_plain=False)


@pytest.mark.parametrize(
    "realm",
    ["http://auth.example/token", "file:///x", "", "https://u:p@auth.example/", "https://"],
)
def test_nobody_is_told_anything_over_a_connection_that_others_read(realm):
    found, asked = authorization(b'{"token": "t"}', Credentials("anna", "p"))

    with pytest.raises(NetworkError):
        found.renew(None, f'Bearer realm="{realm}"', is_plain=False)

    assert asked == []


@pytest.mark.parametrize(
    "answer",
    [b"", b"[]", b"{}", b'{"token": 1}', b'{"token": "a b"}', b'{"token": "a\\r\\nX: y"}'],
)
def test_an_answer_without_a_token_is_refused(answer):
    found, _ = authorization(answer)

    with pytest.raises(NetworkError):
        found.renew(None, BEARER, is_plain=False)


def test_ollamas_own_registry_knows_its_users_by_a_key(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    found, asked = authorization(b"", host="registry.ollama.ai")

    with pytest.raises(AuthError, match=r"knows its users by a key: cannot read .*id_ed25519"):
        found.renew(None, 'Bearer realm="https://ollama.com/token"', is_plain=False)

    assert asked == []
