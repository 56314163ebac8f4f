"""The HTTP client of a registry: connections, proxies, and whose certificates it trusts."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Final

from importer.http.together import CONNECTIONS
from importer.registry.reference import Reference
from store.errors import StorageError
from store.text import printable

if TYPE_CHECKING:
    import httpx2

_BUNDLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def make_client(reference: Reference, patience: float, *, insecure: bool) -> httpx2.Client:
    """Return a client that threads share; it follows no redirect by itself.

    Args:
        reference: in the registry.
        patience: seconds to wait for an answer, or for its next byte.
        insecure: whether any certificate will do.

    Raises:
        StorageError: the certificates that the environment names cannot be read.
    """
    import httpx2  # noqa: PLC0415 - 60 ms that other commands should not pay

    name = reference.host.partition(":")[0]
    return httpx2.Client(
        verify=_trust(insecure=insecure),
        # As in Go's clients, no proxy leads to this machine.
        mounts={f"all://{name}": None} if reference.is_loopback else None,
        timeout=patience,
        limits=httpx2.Limits(
            max_connections=2 * CONNECTIONS, max_keepalive_connections=2 * CONNECTIONS
        ),
        # Compressed bytes could not be counted, nor resumed.
        headers={"User-Agent": "ingot", "Accept-Encoding": "identity"},
    )


def _trust(*, insecure: bool) -> ssl.SSLContext | bool:
    import httpx2  # noqa: PLC0415 - as above

    if insecure:
        return False
    # Beside the variables of OpenSSL, which httpx2 knows, those of other clients.
    named = [os.environ.get(name, "") for name in _BUNDLES]
    path = next(filter(None, named), None)
    try:
        if path is not None:
            return ssl.create_default_context(cafile=path)
        return httpx2.create_ssl_context()
    except OSError as error:
        raise StorageError(
            f"cannot read the certificates in `{printable(path or 'SSL_CERT_DIR')}`: "
            f"{error.strerror or error}",
            code="E_REGISTRY_TLS",
            hint="SSL_CERT_FILE names a file with the certificates to trust",
        ) from error
