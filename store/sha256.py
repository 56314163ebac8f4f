"""SHA-256 of documents, for which OpenSSL is not worth loading."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any, Final

_WORTH_LOADING: Final = 1 << 20
"""Bytes from which on OpenSSL, at .5 ns a byte instead of 2.7, makes good the 2.4 ms that
it takes to load. It takes 3.8 MiB, too, of the 21 that listing models had at its peak."""
_BUILT_IN: Final = ("_sha2", "_sha256")
"""What python has built in for where there is no OpenSSL, from 3.12 on and before."""


def sha256(data: bytes) -> bytes:
    """Return the 32 bytes of the SHA-256 of `data` (FIPS 180-4).

    What streams, as a blob does, is for `hashlib`.
    """
    hasher = _built_in if _built_in is not None and len(data) < _WORTH_LOADING else _openssl
    digest: bytes = hasher(data).digest()
    return digest


def _openssl(data: bytes) -> Any:  # noqa: ANN401 - the two modules share no class
    import hashlib  # noqa: PLC0415 - see above

    return hashlib.sha256(data)


def _find_built_in() -> Callable[[bytes], Any] | None:
    for name in _BUILT_IN:
        with contextlib.suppress(ImportError, AttributeError):
            found: Callable[[bytes], Any] = importlib.import_module(name).sha256
            return found
    return None


_built_in: Final = _find_built_in()
