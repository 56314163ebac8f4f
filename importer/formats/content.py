"""What a file is by its first bytes, to say so where another format was expected."""

from __future__ import annotations

from typing import Final

SAFETENSORS: Final = "a safetensors file"
ZIP: Final = b"PK\x03\x04"
_STARTS: Final = (
    (ZIP, "a zip archive"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"GGUF", "a GGUF file"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file that it stands for"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"TORCH", "an old Torch file"),
)
_PICKLES: Final = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
_JSON_AT: Final = 8
_TAR_AT: Final = 257


def content_of(head: bytes) -> str | None:
    """Return what a file is, as a noun with its article, or None where nobody knows.

    Args:
        head: its first bytes, some hundred of them.

    Example:
        >>> content_of(b"GGUF...")
        'a GGUF file'
    """
    for start, name in _STARTS:
        if head.startswith(start):
            return name
    if head.startswith(_PICKLES):
        return "a pickle"
    if head[_TAR_AT : _TAR_AT + 5] == b"ustar":
        return "a tar archive"
    length = int.from_bytes(head[:_JSON_AT], "little")
    if head[_JSON_AT : _JSON_AT + 1] == b"{" and length < 1 << 32:
        return SAFETENSORS
    if head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    return None
