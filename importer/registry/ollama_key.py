"""The key by which Ollama's registry knows its users, once `ollama` has made one."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from store.errors import AuthError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HOSTS: Final = frozenset({"registry.ollama.ai", "ollama.com"})
"""That may be shown a signature: the registry, and where its tokens come from."""
_NOTHING: Final = base64.b64encode(hashlib.sha256(b"").hexdigest().encode()).decode()
"""Of the body of a GET, as it is signed."""


class Signed:
    """A request for a token, signed: nobody can make another one of it.

    Attributes:
        address: with the query.
        header: `Authorization`.
    """

    def __init__(self, realm: str, service: str, scopes: Sequence[str]) -> None:
        """Sign with the user's key.

        Raises:
            AuthError: there is none that can be read.
            UsageError: what signs is not installed.
        """
        key = _key()
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - as below

        nonce = secrets.token_urlsafe(16)
        query = {"nonce": nonce, "scope": scopes, "service": service, "ts": int(time.time())}
        parts = urlsplit(realm)._replace(query=urlencode(query, doseq=True), fragment="")
        self.address: Final = urlunsplit(parts)
        signature = key.sign(f"GET,{self.address},{_NOTHING}".encode())
        public = key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        words = public.decode().split()[1], base64.b64encode(signature).decode()
        self.header: Final = ":".join(words)


def _key() -> Ed25519PrivateKey:
    path = Path.home() / ".ollama" / "id_ed25519"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unknown(f"cannot read `{path}`: {error.strerror}") from error
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - it, too
    except ImportError as error:
        raise UsageError(
            "the key of `ollama` needs the package `cryptography`, which is not installed",
            code="E_REGISTRY_KEY",
            hint="`pip install '.[ollama]'` in a clone of ingot",
        ) from error
    try:
        found = serialization.load_ssh_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise _unknown(f"`{path}` is not a private key without a password") from error
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise _unknown(f"`{path}` is not a key of Ed25519")
    return found


def _unknown(why: str) -> AuthError:
    return AuthError(
        f"the registry of Ollama knows its users by a key: {why}",
        code="E_REGISTRY_KEY",
        hint="`ollama serve` makes one when it starts; ollama.com/settings/keys makes it known",
    )
