"""Ways in which a blob rots, and what `verify` calls each of them."""

from __future__ import annotations

import os
import random
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path, random.Random, Path], None]
"""Takes a blob, chance, and a directory outside of the store for links to lead to."""


def _flip(blob: Path, rng: random.Random, _: Path) -> None:
    content = bytearray(blob.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    blob.write_bytes(content)


def _zero(blob: Path, rng: random.Random, _: Path) -> None:
    content = bytearray(blob.read_bytes())
    start = rng.randrange(len(content) // 2)
    content[start:] = bytes(len(content) - start)
    blob.write_bytes(content)


def _shorten(blob: Path, rng: random.Random, _: Path) -> None:
    os.truncate(blob, rng.randrange(1, blob.stat().st_size))


def _extend(blob: Path, rng: random.Random, _: Path) -> None:
    os.truncate(blob, blob.stat().st_size + rng.randrange(1, 5000))


def _swap(blob: Path, rng: random.Random, _: Path) -> None:
    # With the bytes of another tensor of the same size: a good blob under a wrong name.
    size = blob.stat().st_size
    header = blob.read_bytes()[:-64]
    blob.write_bytes(header + rng.randbytes(size - len(header)))


def _directory(blob: Path, *_: object) -> None:
    blob.unlink()
    blob.mkdir()
    (blob / "inside").write_bytes(b"x")


def _pipe(blob: Path, *_: object) -> None:
    blob.unlink()
    os.mkfifo(blob)


def _socket(blob: Path, *_: object) -> None:
    blob.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        # The name of a socket has 108 bytes at most.
        descriptor = os.open(blob.parent, os.O_RDONLY)
        try:
            made.bind(f"/proc/self/fd/{descriptor}/{blob.name}")
        finally:
            os.close(descriptor)


def _link(blob: Path, _: random.Random, outside: Path) -> None:
    target = outside / blob.name
    shutil.copyfile(blob, target)
    blob.unlink()
    blob.symlink_to(target)


def _loop(blob: Path, *_: object) -> None:
    blob.unlink()
    blob.symlink_to(blob.name)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "a flipped bit": (_flip, "digest"),
    "zeros to the end": (_zero, "digest"),
    "other data": (_swap, "digest"),
    "cut short": (_shorten, "size"),
    "empty": (lambda blob, *_: os.truncate(blob, 0), "size"),
    "longer": (_extend, "size"),
    "gone": (lambda blob, *_: blob.unlink(), "missing"),
    "a directory": (_directory, "kind"),
    "a pipe": (_pipe, "kind"),
    "a link": (_link, "kind"),
    "a link to itself": (_loop, "kind"),
}
if sys.platform == "linux":
    DAMAGES["a socket"] = (_socket, "kind")
