"""What names a model in a registry: host, repository, and a tag or a digest."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from store.digest import Digest
from store.errors import IntegrityError, UsageError
from store.names import DEFAULT_HOST, DEFAULT_NAMESPACE, DEFAULT_TAG, ModelName
from store.text import printable

_HOST: Final = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
)
_PART: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_LOOPBACK: Final = re.compile(r"localhost|.+\.localhost|127(?:\.[0-9]{1,3}){3}|::1")
_LONGEST: Final = 255
_OF_A_NAME: Final = 2
"""Parts of a repository whose models have a name of the store: namespace and model."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A model in a registry.

    Attributes:
        host: with its port, if that is not the usual one.
        repository: one or more parts with `/` between them.
        tag: or the digest of a manifest, as `sha256:…`.
        scheme: `http` or `https` where the user has said it, else empty.
    """

    host: str
    repository: str
    tag: str
    scheme: str = ""

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read `[host/]repository[:tag|@digest]`, a name of the store among others.

        `oci://` may go before it, as `address` has it.

        The first part is a host where it has a `.` or `:`, or is `localhost`, as Docker reads
        it, or where two parts follow, as Ollama does. What is left out is what a name of the
        store leaves out.

        Raises:
            UsageError: the text is none.
        """
        scheme, separator, rest = text.partition("://")
        if not separator:
            scheme, rest = "", text
        rest, at, digest = rest.partition("@")
        parts = rest.split("/")
        tag = DEFAULT_TAG
        if ":" in parts[-1] and (len(parts) > 1 or not _is_host(parts[0])):
            parts[-1], _, tag = parts[-1].partition(":")
        host = DEFAULT_HOST
        if len(parts) > 1 and (_is_host(parts[0]) or len(parts) > _OF_A_NAME):
            host = parts.pop(0)
        elif len(parts) == 1:
            parts.insert(0, DEFAULT_NAMESPACE)
        good = (
            scheme in {"", "http", "https", "oci"}
            and _is_good_host(host)
            and all(map(_PART.fullmatch, parts))
            and len("/".join(parts)) <= _LONGEST
            and _TAG.fullmatch(tag)
        )
        if not good:
            raise _invalid(text)
        if at:
            try:
                tag = str(Digest.parse(digest))
            except IntegrityError as error:
                raise _invalid(text) from error
        found = cls(host, "/".join(parts), tag, scheme.removeprefix("oci"))
        if host != DEFAULT_HOST and found.repository != found.repository.lower():
            raise UsageError(
                f"repository `{found.repository}` has capital letters, which registries "
                "do not allow",
                code="E_NAME",
                hint=f"Name it `{host}/{found.repository.lower()}`",
            )
        return found

    @classmethod
    def of(cls, name: ModelName) -> Reference:
        """Return the place that the name of a stored model says.

        Raises:
            UsageError: no registry admits it.
        """
        host, namespace, model, tag = name.parts
        return cls.parse(f"{host}/{namespace}/{model}:{tag}")

    @property
    def address(self) -> str:
        """The reference as an address, which Helm and others write so."""
        return f"oci://{self}"

    @property
    def digest(self) -> Digest | None:
        """The digest of the manifest, where that and not a tag was named."""
        return Digest.parse(self.tag) if ":" in self.tag else None

    @property
    def hostname(self) -> str:
        """The host without its port, and an IPv6 address without its brackets."""
        found = _HOST.fullmatch(self.host)
        assert found is not None, "checked when it was read"
        return found[1].strip("[]").lower()

    @property
    def is_loopback(self) -> bool:
        """Whether the registry is on this machine."""
        return _LOOPBACK.fullmatch(self.hostname) is not None

    @property
    def name(self) -> ModelName | None:
        """The name that the model has in a store, or None where none has these parts."""
        parts = self.repository.split("/")
        if len(parts) != _OF_A_NAME or self.digest is not None:
            return None
        try:
            return ModelName(self.host, parts[0], parts[1], self.tag)
        except UsageError:
            return None

    def __str__(self) -> str:
        mark = "@" if ":" in self.tag else ":"
        return f"{self.host}/{self.repository}{mark}{self.tag}"


def _is_good_host(host: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is not None and found[1].startswith("["):
        try:
            ipaddress.IPv6Address(found[1].strip("[]"))
        except ValueError:
            return False
    return found is not None


def _is_host(part: str) -> bool:
    return "." in part or ":" in part or part == "localhost"


def _invalid(text: str) -> UsageError:
    return UsageError(
        f"`{printable(text)}` does not name a model in a registry",
        code="E_NAME",
        hint="Write HOST/NAMESPACE/MODEL:TAG, such as `ghcr.io/me/llama:int4`",
    )
