from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import sha256 as sha256_module
from store.sha256 import sha256


@given(st.binary(max_size=200))
def test_it_is_the_sha256_that_everybody_has(data):
    assert sha256(data) == hashlib.sha256(data).digest()


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_it_is_the_same_around_the_size_from_which_openssl_is_used(size):
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert sha256(data) == hashlib.sha256(data).digest()


def test_a_python_without_a_sha256_of_its_own_uses_openssl(monkeypatch):
    monkeypatch.setattr(sha256_module, "_BUILT_IN", ("_not_there", "math"))
    assert sha256_module._find_built_in() is None
    monkeypatch.setattr(sha256_module, "_built_in", None)
    assert sha256(b"ore") == hashlib.sha256(b"ore").digest()


def test_a_document_is_hashed_without_loading_openssl():
    script = (
        "import sys; from store.digest import Digest; Digest.of(b'ore' * 1000); "
        "print('hashlib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
