"""Model names: `[host/][namespace/]model[:tag]`."""

from __future__ import annotations

from typing import Final

from store.errors import UsageError
from store.paths import is_reserved
from store.text import printable

DEFAULT_HOST: Final = "registry.ollama.ai"
DEFAULT_NAMESPACE: Final = "library"
DEFAULT_TAG: Final = "latest"

# Ollama's grammar (types/model/name.go). Its hosts may be 350 bytes long, but each part
# becomes a file name, and file names end at 255 bytes.
_FIRST: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_NAMESPACE: Final = _FIRST | {"-"}
_PART: Final = _NAMESPACE | {"."}
_HOST: Final = _PART | {":"}
_LONGEST: Final = 80
_LONGEST_HOST: Final = 255
_SCHEMES: Final = ("https://", "http://")
_ALL: Final = 3
"""Parts of a name before its tag: host, namespace and model."""


class ModelName:
    """A fully qualified model name; its four parts are also its path in the store.

    A value, not a dataclass, which takes 0.5 ms to define.
    """

    __slots__ = ("host", "model", "namespace", "tag")

    def __init__(self, host: str, namespace: str, model: str, tag: str) -> None:
        grammar = (
            ("host", host, _HOST, _LONGEST_HOST),
            ("namespace", namespace, _NAMESPACE, _LONGEST),
            ("model", model, _PART, _LONGEST),
            ("tag", tag, _PART, _LONGEST),
        )
        for what, part, allowed, longest in grammar:
            if why := _why_not(part, allowed, longest):
                raise _invalid(f"{what} {_quoted(part)} is not valid: {why}")
            # `con`, `nul.x` and `a.` are not file names on Windows, and a store travels.
            if is_reserved(part):
                message = f"{what} {_quoted(part)} is a reserved file name on Windows"
                raise _invalid(message, _RESERVED)
        self.host: Final = host
        self.namespace: Final = namespace
        self.model: Final = model
        self.tag: Final = tag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelName) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return f"ModelName{self.parts}"

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Read a name as `ollama` does: the tag last, the host first, defaults between.

        Raises:
            UsageError: the text is not a name.
        """
        scheme = next((one for one in _SCHEMES if text.startswith(one)), "")
        rest = text.removeprefix(scheme)
        path, colon, tag = rest.rpartition(":")
        if not colon or "/" in tag:
            path, tag = rest, DEFAULT_TAG
        parts = path.split("/")
        if scheme and len(parts) < _ALL:
            # A scheme belongs to a host, and a host is followed by a namespace.
            raise _invalid(f"{_quoted(text)} has a scheme, and no host, namespace and model")
        if len(parts) > _ALL:
            raise _invalid(f"{_quoted(text)} has more than three parts before the tag")
        if not all(parts) or not tag:
            raise _invalid(f"{_quoted(text)} has an empty part")
        defaults = (DEFAULT_HOST, DEFAULT_NAMESPACE)[: _ALL - len(parts)]
        host, namespace, model = (*defaults, *parts)
        return cls(host, namespace, model, tag)

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """The components of the manifest's path below `manifests/`."""
        return (self.host, self.namespace, self.model, self.tag)

    def __str__(self) -> str:
        """The shortest text for this name, always with its tag.

        It parses back to this name, but for the case of the default host and namespace.
        """
        short = f"{self.model}:{self.tag}"
        if self.host.lower() != DEFAULT_HOST:
            return f"{self.host}/{self.namespace}/{short}"
        if self.namespace.lower() != DEFAULT_NAMESPACE:
            return f"{self.namespace}/{short}"
        return short


def _why_not(part: str, allowed: frozenset[str], longest: int) -> str:
    """Return which rule a part breaks, or nothing."""
    if len(part) > longest:
        return f"it has {len(part)} characters, at most {longest} are allowed"
    if odd := next((char for char in part if char not in allowed), ""):
        return "it has a blank" if odd == " " else f"it has {_quoted(odd)}"
    return "" if part[:1] in _FIRST else f"it begins with {_quoted(part[:1])}"


def _quoted(text: str) -> str:
    return f"`{printable(text)}`"


_GRAMMAR: Final = (
    "A name is `[host/][namespace/]model[:tag]` of ASCII letters, digits, `_`, `-` "
    "and `.`, each part at most 80 long and not beginning with `-` or `.`"
)
_RESERVED: Final = (
    "Choose another name: a store may be moved to Windows, where no file can be called so"
)


def _invalid(message: str, hint: str = _GRAMMAR) -> UsageError:
    return UsageError(f"invalid model name: {message}", code="E_NAME", hint=hint)
