"""The version that UQFF's shards say they are of, in three scalars of their own.

Source: the format's description (mistral.rs, docs/reference/uqff-format) and its reader,
`UqffReader::open` in mistralrs-quant/src/uqff/reader.rs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from importer.formats.uqff.layers import Entry
from importer.formats.uqff.problems import malformed, unread

_PREFIX: Final = "uqff.version."
_FIELDS: Final = ("major", "minor", "patch")
KEYS: Final = tuple(_PREFIX + field for field in _FIELDS)
"""The names of the three scalars."""
METADATA: Final = "uqff.version"
"""What a file's metadata calls the version, which is informational there."""


class Version(NamedTuple):
    """A version of the format."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


NEWEST: Final = Version(1, 2, 0)
"""What mistral.rs 0.9.5 writes; a larger minor may add what we do not know."""


def read_version(
    shards: Iterable[tuple[Mapping[str, Entry], Callable[[str], bytes]]], where: str
) -> Version:
    """Return the version of a set of shards; the first has it, and others may repeat it.

    Args:
        shards: for each its entries, and what gives the bytes of one.
        where: what to call the set in a message.

    Raises:
        InputError: there is none, a part of it is missing, or two shards differ.
        UnsupportedError: a version that is not read.
    """
    found: dict[str, int] = {}
    names: list[str] = []
    for entries, read in shards:
        names += entries
        for key in KEYS:
            if (entry := entries.get(key)) is None:
                continue
            if (entry.dtype, entry.shape) != ("U32", ()):
                shown = f"{entry.dtype} {list(entry.shape)}"
                message = f"`{key}` is {shown}, expected a scalar of U32"
                malformed(entry.where, message, "E_UQFF_VERSION")
            value = int.from_bytes(read(key), "little")
            if found.setdefault(key, value) != value:
                message = f"`{key}` is {value}, and {found[key]} in another shard"
                malformed(entry.where, message, "E_UQFF_VERSION")
    if not found:
        if names and all(name.isascii() and name.isdigit() for name in names):
            unread(where, "a UQFF file from before 1.0", "E_UQFF_VERSION")
        malformed(where, "no version of UQFF (`uqff.version.major`)", "E_UQFF_VERSION")
    if missing := [key for key in KEYS if key not in found]:
        malformed(where, f"no `{missing[0]}`", "E_UQFF_VERSION")
    version = Version(*(found[key] for key in KEYS))
    if version.major != NEWEST.major or version.minor > NEWEST.minor:
        known = f"{NEWEST.major}.0 to {NEWEST.major}.{NEWEST.minor}"
        unread(where, f"UQFF {version}, expected {known}", "E_UQFF_VERSION")
    return version
