from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.digest import Digest
from store.errors import IntegrityError
from store.text import is_printable
from tests.strategies import texts

HEX = "a" * 64


def test_a_digest_is_the_sha256_of_its_bytes():
    assert Digest.of(b"ore").hex == hashlib.sha256(b"ore").hexdigest()


@given(st.binary(max_size=64))
def test_a_digest_parses_back_from_its_text(data):
    assert Digest.parse(str(Digest.of(data))) == Digest.of(data)


@given(st.binary(max_size=64))
def test_a_digest_is_known_by_its_file_name(data):
    assert Digest.from_file_name(Digest.of(data).file_name) == Digest.of(data)


def test_json_and_file_name_differ_in_one_character():
    digest = Digest(HEX)

    assert (str(digest), digest.file_name) == (f"sha256:{HEX}", f"sha256-{HEX}")


def test_the_short_form_is_what_people_quote():
    assert Digest("0123456789abcdef" * 4).short == "0123456789ab"


@pytest.mark.parametrize(
    "text",
    [
        f"sha256-{HEX}",
        f"sha256:{HEX.upper()}",
        f"SHA256:{HEX}",
        f"sha256:{HEX[1:]}",
        f"sha256:{HEX}a",
        f"sha256:{HEX}\n",
        f"sha512:{HEX}",
        "sha256:" + "\u0660" * 64,
        "sha256:../../../../etc/passwd",
        "sha256:",
        HEX,
        "",
    ],
)
def test_any_other_spelling_is_refused(text):
    with pytest.raises(IntegrityError) as caught:
        Digest.parse(text)

    assert caught.value.code == "E_DIGEST"


@pytest.mark.parametrize(
    "name",
    [
        f"sha256:{HEX}",
        f"sha256-{HEX}-partial",
        f"sha256-{HEX.upper()}",
        "sha256-1",
        ".DS_Store",
    ],
)
def test_any_other_file_name_is_no_digest(name):
    assert Digest.from_file_name(name) is None


@given(texts)
def test_a_refusal_can_be_printed(text):
    with pytest.raises(IntegrityError) as caught:
        Digest.parse(f"sha256:{text}")

    assert is_printable(str(caught.value))
