"""What a file is by its first bytes, to say so where another format was expected."""

from __future__ import annotations

from typing import Final

from store.errors import InputError

SAFETENSORS: Final = "a safetensors file"
LFS_POINTER: Final = "a Git LFS pointer, not the file that it stands for"
FETCH_POINTER: Final = "`git lfs pull` fetches the file itself"
ZIP: Final = b"PK\x03\x04"
_STARTS: Final = (
    (ZIP, "a zip archive"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"GGUF", "a GGUF file"),
    (b"version https://git-lfs", LFS_POINTER),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"TORCH", "an old Torch file"),
    (b"lmgg", "a GGML file from before GGUF"),
    (b"fmgg", "a GGML file from before GGUF"),
    (b"tjgg", "a GGML file from before GGUF"),
    (b"algg", "an adapter from before GGUF"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file"),
    (b"\xfd7zXZ", "an XZ file"),
    (b"BZh", "a bzip2 file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a", "a RAR archive"),
    (b"SQLite format 3", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"#!", "a script"),
)
_LETTER: Final = 4
"""Bytes of one, at most."""
_PRINTABLE: Final = frozenset({*b"\t\n\r\f", *range(0x20, 0x7F), *range(0x80, 0x100)})
_PICKLES: Final = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
_FLAT_AT: Final = 4
_FLAT: Final = b"TFL3"
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
    if not head:
        return "an empty file"
    known = (name for start, name in _STARTS if head.startswith(start))
    return next(known, None) or _by_inner(head) or _text(head)


def _by_inner(head: bytes) -> str | None:
    """Return what a file is whose mark is not at its very start."""
    if head[_FLAT_AT : _FLAT_AT + len(_FLAT)] == _FLAT:
        return "a TensorFlow Lite model"
    if head.startswith(_PICKLES):
        return "a pickle"
    if head[_TAR_AT : _TAR_AT + 5] == b"ustar":
        return "a tar archive"
    length = int.from_bytes(head[:_JSON_AT], "little")
    is_header = head[_JSON_AT : _JSON_AT + 1] == b"{" and length < 1 << 32
    return SAFETENSORS if is_header else None


def _text(head: bytes) -> str | None:
    """Return what kind of text a file is, or None where it is none."""
    if not all(byte in _PRINTABLE for byte in head) or not _is_utf8(head):
        return None
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:15].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    if start.startswith(b"<?xml"):
        return "an XML document"
    return "JSON" if start.startswith((b"{", b"[")) else "a text file"


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) - _LETTER < error.start > 0 and error.end == len(
            head
        )  # a letter is cut
    return True


def other_content(where: str, head: bytes, expected: str, code: str) -> InputError:
    """Return the error for a file that is something else than what its name says.

    Args:
        where: names the file, in front of what is wrong.
        head: its first bytes.
        expected: what it should be, such as `a GGUF file`.
        code: of the error.
    """
    what = content_of(head)
    said = f"it is {what}" if what else "nothing in it says what it is"
    hint = FETCH_POINTER if what == LFS_POINTER else None
    return InputError(f"{where}: {said}, expected {expected}", code=code, hint=hint)
