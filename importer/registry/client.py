"""One registry over HTTP: requests with credentials, redirects and retries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit, urlunsplit

from importer.http.ranges import TRIES, Patience, UnreachableError
from importer.registry.authorization import Authorization, TokenRequest, rejected
from importer.registry.connection import found_scheme, make_client
from importer.registry.errors import (
    Question,
    beginning,
    is_nobody,
    odd_answer,
    refused,
    translated,
)
from importer.registry.reference import Reference
from store.errors import NetworkError, UsageError

if TYPE_CHECKING:
    import httpx2

_HOPS: Final = 10
_CUTS: Final = 4
"""Times as many cuts in a row as other failures, before a transfer is given up."""
_AFTER_CUT: Final = 1.0
"""Seconds to wait after one, at most."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_UNAUTHORIZED: Final = 401
_API: Final = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}
"""Hosts that people name, and where their registry is."""

Body = Callable[[], Iterator[bytes]]
"""Gives the bytes of a request, anew each time that it has to be sent."""
_Result = TypeVar("_Result")


class Manner(NamedTuple):
    """How to deal with a registry.

    Attributes:
        insecure: whether a connection will do that others can read or pretend.
        seconds: to wait for an answer, or for its next byte.
        tries: in a row that bring nothing, before a transfer is given up.
    """

    insecure: bool = False
    seconds: float = 30.0
    tries: int = TRIES


class Call(NamedTuple):
    """A request.

    Attributes:
        method: of HTTP.
        address: below `/v2/<repository>/`, or a whole one that the registry gave.
        what: is asked for, in messages.
        headers: beside those that every request has.
        body: of the request.
        admits: statuses of 400 or more that are an answer.
        seconds: that the answer may take longer than usual.
        follows: whether a redirect is followed; else it is the answer.
    """

    method: str
    address: str
    what: str
    headers: Mapping[str, str] = MappingProxyType({})
    body: Body | None = None
    admits: frozenset[int] = frozenset()
    seconds: float = 0.0
    follows: bool = True


class Registry:
    """One repository of a registry; threads share one.

    Attributes:
        reference: in it.
        stop: ends transfers between two chunks when it is set.
    """

    def __init__(
        self, reference: Reference, scopes: tuple[str, ...], manner: Manner | None = None
    ) -> None:
        """Connect to nothing yet.

        Args:
            reference: in the registry.
            scopes: that we need there, such as `repository:me/llama:pull`.
            manner: how to deal with it, where that is not as usual.

        Raises:
            UsageError: plain HTTP was asked for where it is not safe.
        """
        self.reference: Final = reference
        self.stop: Final = threading.Event()
        manner = manner or Manner()
        self._is_lax = manner.insecure or reference.is_loopback
        if reference.scheme == "http" and not self._is_lax:
            raise UsageError(
                f"`http://{reference.host}` can be read and changed on the way",
                code="E_REGISTRY_PLAIN",
            )
        self._manner = manner
        self._scheme = reference.scheme
        self._has_answered = False
        self._mutex = threading.Lock()
        self._authorization = Authorization(reference, scopes, self._fetch_token)
        self._client = make_client(manner.seconds, insecure=manner.insecure)

    def close(self) -> None:
        """Close every connection, and end what goes on."""
        self.stop.set()
        self._client.close()

    @contextmanager
    def ask(self, call: Call) -> Iterator[httpx2.Response]:
        """Send a request; yield the answer, whose body is not read yet.

        Raises:
            IngotError: there is no such answer.
        """
        host = self.reference.host
        with self._first_or_again(), translated(host, self._authorization.secrets):
            url, may_renew = self.resolved(call.address), True
            for _ in range(_HOPS):
                used = self._authorization.header if self._is_own(url) else None
                response = self._send(call, url, used)
                self._has_answered = True
                try:
                    status = response.status_code
                    is_elsewhere = status in _REDIRECTS and "Location" in response.headers
                    if is_elsewhere and call.follows:
                        url = self.resolved(_joined(url, response.headers["Location"]))
                        continue
                    if status >= 400 and status not in call.admits:  # noqa: PLR2004 - an error
                        body = beginning(response)
                        if status == _UNAUTHORIZED and may_renew and self._is_own(url):
                            may_renew = False
                            if self._renew(used, response):
                                continue
                        secrets = self._authorization.secrets
                        raise refused(response, body, Question(host, call.what), secrets)
                    yield response
                    return
                finally:
                    response.close()
            raise odd_answer(host, "it redirects without an end")

    @contextmanager
    def _first_or_again(self) -> Iterator[None]:
        """Let nobody wait for a host where nobody is: its name may be wrong."""
        try:
            yield
        except UnreachableError as error:
            if self._has_answered or not is_nobody(error):
                raise
            hint = "Check the name of the host, and the network"
            raise NetworkError(str(error), code=error.code, hint=hint) from error

    def retried(self, work: Callable[[], _Result]) -> _Result:
        """Do something until it does not fail for a reason that may pass.

        Raises:
            UnreachableError: it failed too often.
            StoppedError: something else ended the work.
        """
        patience = self.patience()
        while True:
            try:
                return work()
            except UnreachableError as error:
                patience.wait(error)

    def patience(self) -> Patience:
        """Return what decides how often something is tried."""
        return Patience(self._manner.tries, self.stop)

    def patience_with_cuts(self) -> Patience:
        """Return what decides so of connections that break while bytes go through.

        They are cut by whom no waiting helps, as too much to do for a registry is not.
        """
        return Patience(_CUTS * self._manner.tries, self.stop, _AFTER_CUT)

    def resolved(self, address: str) -> str:
        """Return a whole address, which is safe to ask.

        Raises:
            NetworkError: the registry sends us where nobody may go.
        """
        try:
            return self._resolved(address)
        except ValueError as error:  # of what cannot be an address
            what = f"it redirects to `{address}`: {error}"
            raise odd_answer(self.reference.host, what) from error

    def _resolved(self, address: str) -> str:
        if not address.startswith("/") and not urlsplit(address).scheme:
            address = f"/v2/{self.reference.repository}/{address}"
        own = urlsplit(self._origin())
        parts = urlsplit(urljoin(self._origin(), address))
        if parts.scheme == "http" and own.scheme == "https":
            # Of a registry that does not know of the proxy in front of it.
            if parts.hostname == own.hostname:
                parts = parts._replace(scheme="https", netloc=own.netloc)
            elif not self._is_lax:
                raise odd_answer(self.reference.host, f"it redirects to `{address}`")
        _port(parts.scheme, parts.port)
        if parts.scheme not in {"http", "https"} or "@" in parts.netloc or not parts.hostname:
            raise odd_answer(self.reference.host, f"it redirects to `{address}`")
        return urlunsplit(parts)

    def _send(self, call: Call, url: str, authorization: str | None) -> httpx2.Response:
        import httpx2  # noqa: PLC0415 - see errors.translated

        sent, seconds = dict(call.headers), self._manner.seconds
        if authorization is not None:
            sent["Authorization"] = authorization
        request = self._client.build_request(
            call.method,
            url,
            headers=sent,
            content=call.body() if call.body is not None else None,
            timeout=httpx2.Timeout(seconds, read=seconds + call.seconds),
        )
        try:
            return self._client.send(request, stream=True)
        except ValueError as error:  # the client looks at redirects, even if it follows none
            raise odd_answer(self.reference.host, f"it redirects: {error}") from error

    def _renew(self, used: str | None, response: httpx2.Response) -> bool:
        said = response.headers.get("WWW-Authenticate", "")
        is_plain = response.request.url.scheme == "http"
        return self._authorization.renew(used, said, is_plain=is_plain)

    def _is_own(self, url: str) -> bool:
        """Whether an address is the registry's, so that it may hear who we are."""
        own, other = urlsplit(self._origin()), urlsplit(url)
        return (own.scheme, own.hostname, _port(own.scheme, own.port)) == (
            other.scheme,
            other.hostname,
            _port(other.scheme, other.port),
        )

    def _origin(self) -> str:
        host = _API.get(self.reference.host, self.reference.host)
        with self._mutex:
            if not self._scheme:
                # Only a registry of ours may speak without TLS.
                self._scheme = found_scheme(self._client, host) if self._is_lax else "https"
        return f"{self._scheme}://{host}"

    def _fetch_token(self, request: TokenRequest) -> bytes:
        import httpx2  # noqa: PLC0415 - see errors.translated

        host = self.reference.host
        headers = {"Authorization": request.header} if request.header is not None else {}
        asked = self._client.build_request(
            "GET" if request.form is None else "POST",
            request.realm,
            params=httpx2.QueryParams(request.query) if request.query else None,
            data=request.form,
            headers=headers,
        )
        response = self._client.send(asked, stream=True)
        try:
            if response.status_code in {400, 401, 403} and (request.header or request.form):
                raise rejected(host)
            if response.status_code != 200:  # noqa: PLR2004 - a token
                question = Question(host, f"a token for `{self.reference.repository}`")
                secrets = self._authorization.secrets
                raise refused(response, beginning(response), question, secrets)
            return beginning(response, 1 << 20)
        finally:
            response.close()


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return location  # which is refused then


def _port(scheme: str, port: int | None) -> int:
    return port or {"https": 443}.get(scheme, 80)
