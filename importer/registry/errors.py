"""What registries and the network answer, as errors in the user's terms."""

from __future__ import annotations

import contextlib
import email.utils
import re
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.http.ranges import UnreachableError
from store.errors import AuthError, IngotError, NetworkError, NotFoundError
from store.json import JsonError, loads
from store.text import printable

if TYPE_CHECKING:
    import httpx2

ERROR_BYTES: Final = 64 << 10
"""Of the body of an answer that says what is wrong; the rest is not read."""
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = frozenset({408, 425, 500, 502, 503, 504})
_LONGEST_WAIT: Final = 300.0
"""Seconds that we wait where a registry asks for it; for longer, the user may come back."""
_LATER: Final = "Run the command again: what has arrived is kept"
_LOG_IN: Final = (
    "Run `docker login {host}`, or set DOCKER_AUTH_CONFIG to what it writes into config.json"
)


def log_in(host: str) -> str:
    """Return the hint that says how to give credentials."""
    return _LOG_IN.format(host=host)


@contextlib.contextmanager
def translated(host: str, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Turn what the HTTP client raises into errors for the user.

    Args:
        host: the registry.
        secrets: that no message may have in it.

    Raises:
        IngotError: whatever failed.
    """
    import httpx2  # noqa: PLC0415 - 60 ms that other commands should not pay

    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        if (why := untrusted(error)) is not None:
            raise NetworkError(
                f"cannot trust the certificate of `{printable(host)}`: {printable(why)}",
                code="E_REGISTRY_TLS",
                hint="SSL_CERT_FILE names a file with the certificates to trust",
            ) from error
        said = re.sub(r"^\[Errno -?\d+\] ", "", without(secrets, str(error)))
        what = said or type(error).__name__
        raise unreachable(host, printable(what, 300)) from error


def untrusted(error: BaseException | None) -> str | None:
    """Return why a certificate was not trusted, or None where that is not what failed."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return None


def is_nobody(error: BaseException | None) -> bool:
    """Return whether nobody has that name, or listens there: not a connection that broke."""
    import httpx2  # noqa: PLC0415 - see above

    nobody = (socket.gaierror, ConnectionRefusedError, httpx2.ConnectTimeout)
    while error is not None:
        if isinstance(error, nobody):
            return True
        error = error.__cause__ or error.__context__
    return False


def without(secrets: Iterable[str], text: str) -> str:
    """Return a text without some secrets: a client may quote what it did not like."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def unreachable(host: str, why: str, wait: float | None = None) -> UnreachableError:
    """Return an error that says why there was no answer, or not all of one."""
    return UnreachableError(
        f"cannot reach the registry `{printable(host)}`: {why}",
        code="E_REGISTRY_UNREACHABLE",
        hint=_LATER,
        wait=wait,
    )


def odd_answer(host: str, what: str) -> NetworkError:
    """Return an error for an answer that a registry would not give."""
    return NetworkError(
        f"the answer of `{printable(host)}` is not a registry's: {printable(what, 300)}",
        code="E_REGISTRY_ANSWER",
        hint="Is the host a registry, and does no proxy want a login?",
    )


class Question(NamedTuple):
    """What a registry was asked for.

    Attributes:
        host: the registry.
        what: such as "blob sha256:…".
    """

    host: str
    what: str


def refused(
    response: httpx2.Response, body: bytes, question: Question, secrets: Iterable[str]
) -> IngotError:
    """Return an error that says what an answer with a status of 400 or more means.

    Args:
        response: the answer.
        body: of it, as far as it was read.
        question: that it answers.
        secrets: that no message may have in it.
    """
    status, (host, what) = response.status_code, question
    said = without(secrets, _message(body))
    why = f"status {status}{f' ({said})' if said else ''}"
    if status in _UNAVAILABLE or status == _TOO_MANY:
        wait = _seconds(response.headers)
        if wait is not None and wait > _LONGEST_WAIT:
            return NetworkError(
                f"the registry `{host}` wants to be left alone for {wait:.0f} seconds",
                code="E_REGISTRY_LIMIT",
                hint="Run the command again then: what has arrived is kept",
            )
        return unreachable(host, why, wait)
    if status == 401:  # noqa: PLR2004 - unauthorized
        other = "other " if "authorization" in response.request.headers else ""
        return AuthError(
            f"the registry `{host}` wants {other}credentials for {what}: {why}",
            code="E_REGISTRY_LOGIN",
            hint=log_in(host),
        )
    if status == 403:  # noqa: PLR2004 - forbidden
        return AuthError(
            f"the registry `{host}` forbids {what}: {why}",
            code="E_REGISTRY_FORBIDDEN",
            hint=f"Choose a repository that is yours, or another user. {log_in(host)}",
        )
    if status == 404:  # noqa: PLR2004 - not found
        return NotFoundError(
            f"the registry `{host}` has no {what}: {why}",
            code="E_REGISTRY_NOT_FOUND",
            hint="Check host, namespace, model and tag; a private repository needs a login",
        )
    return NetworkError(
        f"the registry `{host}` refuses {what}: {why}",
        code="E_REGISTRY_STATUS",
        hint="The registry's documentation says what it admits",
    )


def beginning(response: httpx2.Response, limit: int = ERROR_BYTES) -> bytes:
    """Read the body of an answer, up to a limit and at most a chunk more."""
    data = bytearray()
    for chunk in response.iter_bytes():
        data += chunk
        if len(data) > limit:
            break
    return bytes(data)


def _message(body: bytes) -> str:
    try:
        document = loads(body)
    except JsonError:
        return ""
    errors = document.get("errors") if isinstance(document, dict) else None
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict):
            words = [error.get("code"), error.get("message")]
            return printable(" ".join(word for word in words if isinstance(word, str)), 200)
    return ""


def _seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `Retry-After` asks for, a number or a date (RFC 9110, 10.2.3)."""
    said = headers.get("Retry-After", "").strip()
    if said.isascii() and said.isdigit():
        return float(said[:9])
    try:
        return max(email.utils.parsedate_to_datetime(said).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
