"""Content addresses: SHA-256, spelled one way in JSON and one way on disk."""

from __future__ import annotations

from typing import Final

from store.errors import IntegrityError
from store.sha256 import sha256
from store.text import printable

_DIGITS: Final = frozenset("0123456789abcdef")
_LENGTH: Final = 64


class Digest:
    """The SHA-256 of some bytes; a value, and no dataclass, which takes 0.5 ms to define.

    Attributes:
        hex: 64 lower-case hexadecimal digits.
    """

    __slots__ = ("hex",)

    def __init__(self, digits: str) -> None:
        if not _is_hex(digits):
            raise IntegrityError(
                f"`{printable(digits, 80)}` is not a SHA-256, expected 64 lower-case "
                "hexadecimal digits",
                code="E_DIGEST",
            )
        self.hex: Final = digits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and self.hex == other.hex

    def __hash__(self) -> int:
        return hash(self.hex)

    def __repr__(self) -> str:
        return f"Digest({self.hex!r})"

    @classmethod
    def of(cls, data: bytes) -> Digest:
        """Hash `data`."""
        return cls(sha256(data).hex())

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Read `sha256:<hex>`, the one spelling that a manifest may use.

        Another store accepted two spellings, and so lost blobs that were in use.

        Raises:
            IntegrityError: any other spelling.
        """
        algorithm, separator, encoded = text.partition(":")
        if algorithm != "sha256" or not separator:
            raise IntegrityError(
                f"`{printable(text, 80)}` is not a digest, expected `sha256:` and 64 "
                "hexadecimal digits",
                code="E_DIGEST",
            )
        return cls(encoded)

    @classmethod
    def from_file_name(cls, name: str) -> Digest | None:
        """Read `sha256-<hex>`; return None for any other file name."""
        prefix, _, encoded = name.partition("-")
        return cls(encoded) if prefix == "sha256" and _is_hex(encoded) else None

    @property
    def file_name(self) -> str:
        """`sha256-<hex>`: a dash, because not every system has file names with a colon."""
        return f"sha256-{self.hex}"

    @property
    def short(self) -> str:
        """The first 12 digits, as people quote them."""
        return self.hex[:12]

    def __str__(self) -> str:
        return f"sha256:{self.hex}"


def _is_hex(text: str) -> bool:
    return len(text) == _LENGTH and _DIGITS.issuperset(text)
