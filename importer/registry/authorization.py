"""How a registry is told who we are: its challenge, and the token that answers it."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from importer.registry.credentials import Credentials, credentials_for
from importer.registry.errors import log_in, odd_answer
from importer.registry.reference import Reference
from store.errors import AuthError
from store.json import JsonError, loads
from store.names import DEFAULT_HOST

_SCHEME: Final = re.compile(r"[\s,]*([A-Za-z][A-Za-z0-9-]*)(?=\s|,|$)")
_PARAMETER: Final = re.compile(
    r'[\s,]*([A-Za-z][A-Za-z0-9_-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))'
)
_CLIENT: Final = "ingot"


class Challenge(NamedTuple):
    """What a registry wants (RFC 9110, section 11.6.1).

    Attributes:
        scheme: in lower case.
    """

    scheme: str
    parameters: Mapping[str, str]


def challenges(text: str) -> Iterator[Challenge]:
    """Read the value of `WWW-Authenticate`, as far as it can be read."""
    at = 0
    while (scheme := _SCHEME.match(text, at)) is not None:
        at = scheme.end()
        parameters = {}
        while (found := _PARAMETER.match(text, at)) is not None:
            at = found.end()
            quoted = re.sub(r"\\(.)", r"\1", found[2] or "")
            parameters[found[1].lower()] = quoted or found[3] or ""
        yield Challenge(scheme[1].lower(), parameters)


class TokenRequest(NamedTuple):
    """What is asked of an authorization server.

    Attributes:
        realm: its address.
        query: of a GET; or, where there is a `form`, nothing.
        form: of a POST, or None.
        header: `Authorization`, or None.
    """

    realm: str
    query: Mapping[str, str | list[str]]
    form: Mapping[str, str] | None
    header: str | None


Fetch = Callable[[TokenRequest], bytes]


class Authorization:
    """The header by which a registry knows us; threads share one.

    Nothing is said before the registry asks, and then only to it, or to the authorization
    server that it names over a connection that nobody can read.

    Attributes:
        header: what the next request to the registry says, or None.
    """

    def __init__(self, reference: Reference, scopes: tuple[str, ...], fetch: Fetch) -> None:
        """Know nothing yet.

        Args:
            reference: in the registry.
            scopes: that a token is to have, such as `repository:me/llama:pull`.
            fetch: asks an authorization server.
        """
        self.header: str | None = None
        self._reference, self._scopes, self._fetch = reference, scopes, fetch
        self._mutex = threading.Lock()

    @functools.cached_property
    def credentials(self) -> Credentials | None:
        """Who we are to this registry."""
        return credentials_for(self._reference.host)

    @property
    def secrets(self) -> Iterator[str]:
        """Everything that no message may have in it."""
        if "credentials" in self.__dict__ and self.credentials is not None:
            yield from self.credentials.secrets
        if self.header is not None:
            yield self.header.partition(" ")[2]

    def renew(self, used: str | None, said: str, *, is_plain: bool) -> bool:
        """Answer a challenge; return whether there is a new header to try.

        Args:
            used: the header that was not enough.
            said: `WWW-Authenticate` of the answer.
            is_plain: whether the registry is reached without TLS.

        Raises:
            AuthError: we cannot.
        """
        with self._mutex:
            if self.header != used:
                return True  # another thread was faster
            wanted = {one.scheme: one.parameters for one in challenges(said)}
            if "bearer" in wanted:
                header = self._token(wanted["bearer"], is_plain=is_plain)
            elif "basic" in wanted and self.credentials is not None:
                header = self.credentials.basic
            else:
                return False
            is_new, self.header = header != used, header
            return is_new

    def _token(self, parameters: Mapping[str, str], *, is_plain: bool) -> str:
        found = self.credentials
        if found is not None and found.registry_token:
            return f"Bearer {found.registry_token}"
        answer = self._fetch(self._request(parameters, found, is_plain=is_plain))
        try:
            document = loads(answer)
        except JsonError:
            document = None
        if isinstance(document, dict):
            for key in ("token", "access_token"):
                token = document.get(key)
                if isinstance(token, str) and re.fullmatch(r"[\x21-\x7e]+", token):
                    return f"Bearer {token}"
        raise odd_answer(self._reference.host, "there is no token in it")

    def _request(
        self, parameters: Mapping[str, str], found: Credentials | None, *, is_plain: bool
    ) -> TokenRequest:
        realm, host = parameters.get("realm", ""), self._reference.host
        try:
            parts = urlsplit(realm)
        except ValueError as error:
            raise odd_answer(host, f"it sends for a token to `{realm}`") from error
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_plain)
        if not is_safe or not parts.hostname or "@" in parts.netloc:
            raise odd_answer(host, f"it sends for a token to `{realm}`")
        if host == DEFAULT_HOST and found is None:
            return self._signed(realm, parameters)
        scopes = list(dict.fromkeys((*self._scopes, *parameters.get("scope", "").split())))
        common = {"service": parameters["service"]} if parameters.get("service") else {}
        if found is not None and found.identity_token:
            form = {
                "grant_type": "refresh_token",
                "refresh_token": found.identity_token,
                "client_id": _CLIENT,
                "scope": " ".join(scopes),
            }
            return TokenRequest(realm, {}, common | form, None)
        query: dict[str, str | list[str]] = {**common, "scope": scopes}
        if found is None:
            return TokenRequest(realm, query, None, None)
        return TokenRequest(realm, query | {"account": found.user}, None, found.basic)

    def _signed(self, realm: str, parameters: Mapping[str, str]) -> TokenRequest:
        """Return what Ollama's registry is asked: it knows its users by a key."""
        from importer.registry.ollama_key import HOSTS, Signed  # noqa: PLC0415 - seldom

        if urlsplit(realm).hostname not in HOSTS:
            raise odd_answer(self._reference.host, f"it sends for a token to `{realm}`")
        scopes = parameters.get("scope", "").split() or self._scopes
        signed = Signed(realm, parameters.get("service", ""), scopes)
        return TokenRequest(signed.address, {}, None, signed.header)


def rejected(host: str) -> AuthError:
    """Return the error that says that an authorization server does not know us."""
    return AuthError(
        f"the registry `{host}` does not accept these credentials",
        code="E_REGISTRY_LOGIN",
        hint=log_in(host),
    )
