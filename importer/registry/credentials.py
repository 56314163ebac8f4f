"""Who we are to a registry: Docker's configuration, its helpers, and a variable."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from store import limits
from store.errors import AuthError
from store.json import Json, JsonError, loads
from store.text import printable

VARIABLE: Final = "DOCKER_AUTH_CONFIG"
"""Holds what `config.json` would: Docker's own, and that of GitLab's runners."""
_HUB: Final = ("docker.io", "index.docker.io", "registry-1.docker.io")
_HUB_KEY: Final = "https://index.docker.io/v1/"
_HELPER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PATIENCE: Final = 60
"""Seconds for a helper, which may ask the user to unlock a key ring."""
_TOKEN_USER: Final = "<token>"  # noqa: S105 - the word by which helpers say that it is one
_ABSENT: Final = "credentials not found in native keychain"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What proves who we are; never part of a message.

    Attributes:
        user: and `password`; both are empty where there is a token.
        identity_token: that an authorization server takes in place of a password.
        registry_token: that the registry itself takes.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of the header `Authorization`."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    @property
    def secrets(self) -> Iterator[str]:
        """Everything that nobody may read."""
        basic = self.basic.partition(" ")[2] if self.password else ""
        for secret in (self.password, basic, self.identity_token, self.registry_token):
            if secret:
                yield secret


def credentials_for(
    host: str, environment: Mapping[str, str] = os.environ
) -> Credentials | None:
    """Return what Docker's configuration, or else the variable, has for a registry.

    Raises:
        AuthError: the configuration cannot be read, or a helper fails.
    """
    path = _path(environment)
    found = None
    if path is not None:
        found = _found(host, _read(path), f"`{path}`", environment)
    text = environment.get(VARIABLE, "")
    if found is None and text:
        # No helpers: they are of the machine, and the variable is of a job.
        entries = {"auths": _parsed(text.encode(), VARIABLE).get("auths")}
        found = _found(host, entries, VARIABLE, environment)
    return found


def _path(environment: Mapping[str, str]) -> Path | None:
    directory = environment.get("DOCKER_CONFIG")
    if directory:
        return Path(directory) / "config.json"
    home = environment.get("HOME")
    return Path(home) / ".docker" / "config.json" if home else None


def _read(path: Path) -> dict[str, Json]:
    try:
        with path.open("rb") as file:
            data = file.read(limits.CONFIG_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        message = f"cannot read `{path}`: {error.strerror}"
        raise _broken(message) from error
    return _parsed(data, f"`{path}`")


def _parsed(data: bytes, where: str) -> dict[str, Json]:
    # What is wrong with it is not quoted: it may be a password.
    try:
        found = loads(data) if len(data) <= limits.CONFIG_BYTES else None
    except JsonError:
        found = None
    if not isinstance(found, dict):
        raise _broken(f"{where} is not a JSON object")
    return found


def _found(
    host: str, config: Mapping[str, Json], where: str, environment: Mapping[str, str]
) -> Credentials | None:
    keys = (_HUB_KEY, *_HUB) if host in _HUB else (host,)
    helpers = config.get("credHelpers")
    for key in keys:
        helper = helpers.get(key) if isinstance(helpers, dict) else None
        if isinstance(helper, str) and helper:
            return _asked(helper, key, environment)
    common = config.get("credsStore")
    if isinstance(common, str) and common:
        for key in keys:
            if (found := _asked(common, key, environment)) is not None:
                return found
    entries = config.get("auths")
    if not isinstance(entries, dict):
        return None
    by_host = {_host_of(key): entry for key, entry in reversed(entries.items())}
    for key in keys:
        entry = entries.get(key, by_host.get(_host_of(key)))
        if isinstance(entry, dict) and (found := _of_entry(entry, where)) is not None:
            return found
    return None


def _host_of(key: str) -> str:
    """Return the host of a key, which may be an address: `https://host/v1/`."""
    return key.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _of_entry(entry: Mapping[str, Json], where: str) -> Credentials | None:
    def text(key: str) -> str:
        value = entry.get(key)
        return value if isinstance(value, str) else ""

    user, password = text("username"), text("password")
    if encoded := text("auth"):
        try:
            decoded = base64.b64decode(encoded, validate=True).decode()
        except ValueError as error:
            raise _broken(f"{where} has an `auth` that is not base64 of `user:password`") from (
                error
            )
        user, _, password = decoded.rstrip("\0").partition(":")
    found = Credentials(user, password, text("identitytoken"), text("registrytoken"))
    return found if any(found.secrets) else None


def _asked(helper: str, key: str, environment: Mapping[str, str]) -> Credentials | None:
    """Ask a credential helper, which is a program `docker-credential-<name>` on the path."""
    program = f"docker-credential-{helper}"
    if not _HELPER.fullmatch(helper):
        raise _broken(f"`{printable(helper)}` is not the name of a credential helper")
    try:
        done = subprocess.run(  # noqa: S603 - the user's own program, by a checked name
            [program, "get"],
            input=key.encode(),
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            env=dict(environment),
        )
    except FileNotFoundError as error:
        raise _broken(f"there is no program `{program}` on the path") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _broken(f"`{program}` does not answer: {type(error).__name__}") from error
    if done.returncode != 0:
        if _ABSENT in (done.stdout + done.stderr).decode(errors="replace"):
            return None
        raise _broken(f"`{program}` ends with exit code {done.returncode}")
    try:
        answer = json.loads(done.stdout)
        user, secret = answer["Username"], answer["Secret"]
    except (ValueError, KeyError, TypeError) as error:
        raise _broken(f"`{program}` does not answer as a credential helper does") from error
    if not isinstance(user, str) or not isinstance(secret, str) or not secret:
        raise _broken(f"`{program}` does not answer as a credential helper does")
    return (
        Credentials(identity_token=secret) if user == _TOKEN_USER else Credentials(user, secret)
    )


def _broken(what: str) -> AuthError:
    return AuthError(
        what,
        code="E_REGISTRY_CONFIG",
        hint="`docker login HOST` writes credentials; DOCKER_CONFIG names another directory",
    )
