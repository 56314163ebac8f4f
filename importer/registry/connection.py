"""The HTTP client of a registry: connections, proxies, and whose certificates it trusts."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Final

from importer.http.together import CONNECTIONS
from importer.registry.errors import is_nobody, untrusted
from store.errors import StorageError, UsageError
from store.text import printable

if TYPE_CHECKING:
    import httpx2

_HERE: Final = (
    "all://localhost",
    "all://*.localhost",
    "all://127.0.0.0/8",
    "all://[::1]",
)
"""As in Go's clients, no proxy leads to this machine: neither to a registry, nor to a storage
or an authorization server that it names."""
_NOT_HTTP: Final = 400
_BUNDLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def make_client(patience: float, *, insecure: bool) -> httpx2.Client:
    """Return a client that threads share; it follows no redirect by itself.

    Args:
        patience: seconds to wait for an answer, or for its next byte.
        insecure: whether any certificate will do.

    Raises:
        StorageError: the certificates that the environment names cannot be read.
        UsageError: it names a proxy of a kind that we do not speak.
    """
    import httpx2  # noqa: PLC0415 - 60 ms that other commands should not pay

    verify = _trust(insecure=insecure)
    try:
        return httpx2.Client(
            verify=verify,
            mounts=dict.fromkeys(_HERE),
            timeout=patience,
            limits=httpx2.Limits(
                max_connections=2 * CONNECTIONS, max_keepalive_connections=2 * CONNECTIONS
            ),
            # Compressed bytes could not be counted, nor resumed.
            headers={"User-Agent": "ingot", "Accept-Encoding": "identity"},
        )
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        # Its address is not repeated: there may be a password in it.
        raise UsageError(
            "the environment names a proxy that is not `http://` or `https://`",
            code="E_REGISTRY_PROXY",
        ) from error


def found_scheme(client: httpx2.Client, host: str) -> str:
    """Find out whether a registry speaks TLS, which on this machine it need not."""
    import httpx2  # noqa: PLC0415 - as above

    try:
        client.get(f"https://{host}/v2/")
    except httpx2.TransportError as error:
        if untrusted(error) is not None or is_nobody(error):
            raise
        # Whoever speaks TLS answers 400 to what is plain, or nothing at all. A connection
        # that was cut is not a sign of plain HTTP, over which a password would be read.
        if client.get(f"http://{host}/v2/").status_code == _NOT_HTTP:
            raise
        return "http"
    return "https"


def _trust(*, insecure: bool) -> ssl.SSLContext | bool:
    import httpx2  # noqa: PLC0415 - as above

    if insecure:
        return False
    # Beside the variables of OpenSSL, which httpx2 knows, those of other clients.
    named = [os.environ.get(name, "") for name in _BUNDLES]
    path = next(filter(None, named), None)
    try:
        if path is not None:
            is_directory = os.path.isdir(path)
            return ssl.create_default_context(
                cafile=None if is_directory else path, capath=path if is_directory else None
            )
        return httpx2.create_ssl_context()
    except OSError as error:
        raise StorageError(
            f"cannot read the certificates in `{printable(path or 'SSL_CERT_DIR')}`: "
            f"{error.strerror or error}",
            code="E_REGISTRY_TLS",
            hint="SSL_CERT_FILE names a file with the certificates to trust",
        ) from error
