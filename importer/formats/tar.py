"""The headers of tar archives (POSIX.1-1988 ustar, pax, and what GNU adds), read strictly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, NoReturn

from store import limits
from store.errors import InputError
from store.paths import why_unsafe
from store.text import printable

BLOCK: Final = 512
_ENTRIES: Final = 2 * limits.LAYERS
_EXTENSION_BYTES: Final = 64 << 10
"""Of a header that tells a long name or size."""
_OCTAL_BYTES: Final = 8**11
"""Sizes from here on do not fit into the field as digits."""
_MARK: Final = 0x80
_CHECKSUM: Final = slice(148, 156)
_FILES: Final = frozenset(b"0\x007")
_DIRECTORY, _PAX, _PAX_OF_ALL, _LONG_NAME = b"5xgL"
_EXTENSIONS: Final = frozenset((_PAX, _PAX_OF_ALL, _LONG_NAME))
_KINDS: Final = {
    ord("1"): "a hard link",
    ord("2"): "a symbolic link",
    ord("3"): "a device",
    ord("4"): "a device",
    ord("6"): "a FIFO",
    ord("K"): "a link",
    ord("S"): "a sparse file",
}

Read = Callable[[int, int], bytes]
"""Gives bytes of an archive from an offset on, fewer only at its end."""


class Entry(NamedTuple):
    """A regular file in an archive.

    Attributes:
        path: relative, and safe on every system.
        offset: of its first byte in the archive.
        nbytes: of the file.
    """

    path: str
    offset: int
    nbytes: int


def header_of(path: str, nbytes: int, *, is_directory: bool = False) -> bytes:
    """Return the header of a file or directory: no owner, no time, so that bytes stay the same.

    Args:
        path: at most 99 ASCII characters.
        nbytes: of the file; 0 of a directory.
        is_directory: whether it is one.
    """
    if nbytes < _OCTAL_BYTES:
        size = b"%011o\0" % nbytes
    else:  # as GNU and all readers of today have it
        size = bytes((_MARK,)) + nbytes.to_bytes(11, "big")
    name = path.encode("ascii")
    assert len(name) < 100, "no name here is longer"  # noqa: PLR2004 - bytes of the field
    block = bytearray(
        name.ljust(100, b"\0")
        + (b"0000755\0" if is_directory else b"0000644\0")
        + b"0000000\0" * 2
        + size
        + b"00000000000\0"
        + b" " * 8
        + (b"5" if is_directory else b"0")
        + bytes(100)
        + b"ustar\x0000"
    )
    block += bytes(BLOCK - len(block))
    block[_CHECKSUM] = b"%06o\0 " % sum(block)
    return bytes(block)


def padding_of(nbytes: int) -> int:
    """Return how many zeros follow a file of a size."""
    return -nbytes % BLOCK


END: Final = bytes(2 * BLOCK)
"""Ends an archive."""


def read_entries(read: Read, total: int, where: str) -> Iterator[Entry]:
    """Yield the files of an archive; directories, which say nothing, are passed over.

    Args:
        read: the archive.
        total: its size in bytes.
        where: it is, in messages.

    Raises:
        InputError: it is malformed, ends too early, or has what could reach outside of it:
            an unsafe path, a link, a device, two files of one name.
    """
    seen = set[str]()
    for kind, path, start, nbytes in _headers(read, total, where):
        if kind == _DIRECTORY or (kind in _FILES and path.endswith("/")):
            _safe(path.rstrip("/"), where)
        elif kind in _FILES:
            name = _safe(path, where)
            if name in seen:
                _bad(where, f"has two files `{printable(name)}`")
            seen.add(name)
            yield Entry(name, start, nbytes)
        else:
            what = _KINDS.get(kind, f"of the unknown type {kind}")
            _bad(where, f"`{printable(path)}` is {what}, expected a file")


def _headers(read: Read, total: int, where: str) -> Iterator[tuple[int, str, int, int]]:
    """Yield kind, path, offset and size of each entry, with what other headers say of it."""
    offset, extended = 0, _Extended()
    for _ in range(_ENTRIES):
        block = read(offset, BLOCK)
        if not any(block) and len(block) == BLOCK:
            return
        _check(block, offset, where)
        kind, nbytes = block[156], _number(block[124:136], where)
        if extended.nbytes is not None and kind in _FILES:
            nbytes = extended.nbytes
        start = offset + BLOCK
        if start + nbytes > total:
            _bad(where, f"ends at {total}, expected {nbytes} bytes from {start} on")
        offset = start + nbytes + padding_of(nbytes)
        if kind in _EXTENSIONS:
            if nbytes > _EXTENSION_BYTES:
                _bad(where, f"has a header of {nbytes} bytes", "E_LIMIT")
            extended = _extended(extended, kind, read(start, nbytes), where)
            continue
        yield kind, extended.path or _path(block, where), start, nbytes
        extended = _Extended()
    _bad(where, f"has more than {_ENTRIES} entries", "E_LIMIT")


class _Extended(NamedTuple):
    path: str = ""
    nbytes: int | None = None


def _check(block: bytes, offset: int, where: str) -> None:
    if offset == 0 and block[257:262] != b"ustar" and not _is_of_v7(block):
        raise InputError(
            f"`{printable(where)}` is not a tar archive",
            code="E_ARCHIVE",
            hint="Name an OCI image layout: a directory, or a tar archive of one",
        )
    if len(block) < BLOCK:
        _bad(where, f"ends at byte {offset + len(block)}, expected an end mark")
    said = _number(block[_CHECKSUM], where)
    found = sum(block) - sum(block[_CHECKSUM]) + 8 * ord(" ")
    if said != found:
        _bad(where, f"the header at {offset} has the checksum {said}, expected {found}")


def _is_of_v7(block: bytes) -> bool:
    """Return whether a block without the mark of POSIX is a header: its checksum tells."""
    said = block[_CHECKSUM].strip(b" \0")
    found = sum(block) - sum(block[_CHECKSUM]) + 8 * ord(" ")
    return said == b"%o" % found or said == b"%06o" % found


def _number(field: bytes, where: str) -> int:
    if field[0] & _MARK:
        number = int.from_bytes(field, "big", signed=False) - (_MARK << (8 * (len(field) - 1)))
        if not 0 <= number < 2**63:
            _bad(where, "has a size that cannot be")
        return number
    digits = field.strip(b" \0") or b"0"
    if not digits.isdigit() or set(digits) & set(b"89"):
        _bad(where, f"has the number `{printable(repr(field)[2:-1])}`")
    return int(digits, 8)


def _path(block: bytes, where: str) -> str:
    name, _, _ = block[:100].partition(b"\0")
    prefix, _, _ = block[345:500].partition(b"\0")
    # GNU has other fields where POSIX has the beginning of a long name.
    whole = prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name
    return _text(whole, where)


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        _bad(where, f"has the name `{printable(repr(data)[2:-1])}`, expected UTF-8")


def _safe(path: str, where: str) -> str:
    path = path.removeprefix("./")
    if path not in {"", "."} and (why := why_unsafe(path)):
        _bad(where, f"has `{printable(path)}`, whose name {why}", "E_PATH")
    return path


def _extended(known: _Extended, kind: int, data: bytes, where: str) -> _Extended:
    if kind == _LONG_NAME:
        return known._replace(path=_text(data.rstrip(b"\0"), where))
    records = _records(data, where)
    if kind == _PAX_OF_ALL:
        if {b"path", b"size", b"linkpath"} & records.keys():
            _bad(where, "has one header for the names or sizes of all files")
        return known
    if any(key.startswith(b"GNU.sparse") for key in records):
        _bad(where, "has a sparse file")
    if b"path" in records:
        known = known._replace(path=_text(records[b"path"], where))
    if b"size" in records:
        digits = records[b"size"]
        if not digits.isdigit() or len(digits) > 19:  # noqa: PLR2004 - digits of 2^63
            _bad(where, "has a size that cannot be")
        known = known._replace(nbytes=int(digits))
    return known


def _records(data: bytes, where: str) -> dict[bytes, bytes]:
    """Read the records of a pax header: `<length> <key>=<value>` and a newline each."""
    found = {}
    while data:
        digits, _, _ = data[:8].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        key, equals, value = data[len(digits) + 1 : length].partition(b"=")
        if not equals or not value.endswith(b"\n") or length > len(data):
            _bad(where, "has a pax header that cannot be read")
        found[key], data = value[:-1], data[length:]
    return found


def _bad(where: str, why: str, code: str = "E_ARCHIVE") -> NoReturn:
    hint = "Have the archive made, or copied, again"
    raise InputError(f"archive `{printable(where)}` {why}", code=code, hint=hint)
