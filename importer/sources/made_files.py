"""Files that are made of others of a source, and stand nowhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from importer.sources.file import Identity, Maker, SourceFile
from importer.sources.roles import role_of

_NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class Text:
    """The content of a small file."""

    content: bytes

    def pieces(self) -> Iterator[bytes]:
        """Yield it."""
        yield self.content


def made_file(path: str, maker: Maker, of: SourceFile) -> SourceFile:
    """Return a file with the content that `maker` makes, which is made once to see its size.

    Args:
        path: that it has in the model.
        of: the file that it is made of.
    """
    size, digest = 0, hashlib.sha256()
    for piece in maker.pieces():
        size += len(piece)
        digest.update(piece)
    # What tells other files apart is where they stand; this one only has its content.
    content = int.from_bytes(digest.digest()[:7])
    identity = Identity(_NOWHERE, content, size, 0)
    location = of.location.with_name(f"{of.location.name}:{path}")
    return SourceFile(path, location, identity, role=role_of(path, {}), maker=maker)
