"""The directory of a zip archive: names of entries, and where their data is.

Stricter than zip: one directory at the very end, no comment, no byte before the first entry
counted twice, no two entries of one name, none that overlap, nothing encrypted or split.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, NoReturn

from importer.formats.pytorch.problems import malformed, unread
from importer.formats.window import ReadRange
from store.text import printable

_END: Final = struct.Struct("<4s4H2IH")
_LOCATOR: Final = struct.Struct("<4sIQI")
_END_64: Final = struct.Struct("<4sQ2H2I4Q")
_ENTRY: Final = struct.Struct("<4s6H3I5H2I")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_DIRECTORY_BYTES: Final = 64 << 20
_ENTRIES: Final = 300_000
_NAME: Final = 1024
_MAX_32: Final = 0xFFFFFFFF
_MAX_16: Final = 0xFFFF
_NEWEST: Final = 63
"""The version 6.3 of the format, after which there is none."""
_UNREADABLE: Final = 0x2061
"""Flags of what is encrypted, or a patch of something else: zipfile and torch refuse both."""
_ZIP64: Final = 1


class Entry(NamedTuple):
    """One entry of an archive.

    Attributes:
        size: of its data in the file, in bytes.
        header: offset in the file of the local header, which the data follows.
        limit: offset in the file that the data ends at or before.
        is_compressed: whether its data is not stored as it is, and can only be passed over.
    """

    name: str
    size: int
    header: int
    limit: int
    is_compressed: bool = False


def read_directory(where: str, size: int, read: ReadRange) -> dict[str, Entry]:
    """Read the entries of an archive by name.

    Raises:
        InputError: it is malformed, incomplete or ambiguous.
        UnsupportedError: an entry is encrypted.
    """
    count, nbytes, start = _end(where, size, read)
    if nbytes > _DIRECTORY_BYTES or count > _ENTRIES or count * _ENTRY.size > nbytes:
        _bad(where, f"a directory of {count} entries in {nbytes} bytes")
    data = read(start, start + nbytes)
    entries: list[Entry] = []
    at = 0
    for _ in range(count):
        entry, at = _entry(where, data, at, start)
        entries.append(entry)
    if at != len(data):
        _bad(where, f"its directory has {len(data) - at} bytes after the last entry")
    entries.sort(key=lambda entry: entry.header)
    found: dict[str, Entry] = {}
    for entry, after in zip(entries, [*entries[1:], None], strict=True):
        limit = start if after is None else after.header
        least = entry.header + _LOCAL.size + len(entry.name.encode()) + entry.size
        if least > limit:
            _bad(where, f"the entry `{entry.name}` overlaps what follows it")
        if entry.name in found:
            _bad(where, f"it has two entries `{entry.name}`")
        found[entry.name] = entry._replace(limit=limit)
    return found


def data_offset(where: str, entry: Entry, read: ReadRange) -> int:
    """Return where the data of an entry begins, which its local header alone says.

    Raises:
        InputError: the header and the directory disagree.
    """
    name = entry.name.encode()
    data = read(entry.header, entry.header + _LOCAL.size + len(name))
    magic, _, flags, method, *_, name_bytes, extra_bytes = _LOCAL.unpack_from(data)
    if magic != b"PK\x03\x04" or name_bytes != len(name) or data[_LOCAL.size :] != name:
        _bad(where, f"there is no header of the entry `{entry.name}` where it should be")
    if method or flags & _UNREADABLE:
        _bad(where, f"the entry `{entry.name}` is stored in its directory, not in its header")
    offset = entry.header + _LOCAL.size + len(name) + int(extra_bytes)
    if offset + entry.size > entry.limit:
        _bad(where, f"the entry `{entry.name}` overlaps what follows it")
    return offset


def _end(where: str, size: int, read: ReadRange) -> tuple[int, int, int]:
    """Return how many entries there are, and the size and offset of the directory."""
    if size < _END.size:
        _bad(where, "it is shorter than the end of a zip archive")
    at = size - _END.size
    magic, disk, first_disk, here, count, nbytes, start, comment = _END.unpack(read(at, size))
    if magic != b"PK\x05\x06" or comment:
        _bad(where, "it has no zip directory at its end: the download may be incomplete")
    locator_at = at - _LOCATOR.size
    locator = read(locator_at, at) if locator_at >= 0 else b""
    if locator.startswith(b"PK\x06\x07"):
        _, other_disk, end_at, disks = _LOCATOR.unpack(locator)
        at = locator_at - _END_64.size
        if end_at != at or at < 0 or other_disk or disks != 1:
            _bad(where, "its zip64 directory is not where it should be")
        magic, length, _, _, disk, first_disk, here, count, nbytes, start = _END_64.unpack(
            read(at, locator_at)
        )
        if magic != b"PK\x06\x06" or length != _END_64.size - 12:
            _bad(where, "its zip64 directory is malformed")
    elif _MAX_32 in {nbytes, start} or count == _MAX_16:
        _bad(where, "it lacks the zip64 directory that it needs")
    if disk or first_disk or here != count:
        _bad(where, "it is a part of a zip archive of several")
    if start + nbytes != at:
        _bad(where, f"its directory of {nbytes} bytes at byte {start} does not end at {at}")
    return count, nbytes, start


def _entry(where: str, data: bytes, at: int, directory: int) -> tuple[Entry, int]:
    if at + _ENTRY.size > len(data):
        _bad(where, "its directory ends in the middle of an entry")
    fields = _ENTRY.unpack_from(data, at)
    magic, _, needed, flags, method, _, _, _, packed, size, name_bytes, extra_bytes = fields[
        :12
    ]
    comment, disk, _, _, header = fields[12:]
    at += _ENTRY.size
    if magic != b"PK\x01\x02" or at + name_bytes + extra_bytes + comment > len(data):
        _bad(where, "its directory has a malformed entry")
    name = _name(where, data[at : at + name_bytes])
    extra = data[at + name_bytes : at + name_bytes + extra_bytes]
    at += name_bytes + extra_bytes + comment
    if needed & 0xFF > _NEWEST:
        unread(where, f"the entry `{name}` needs version {needed & 0xFF} of zip, known is 63")
    if flags & _UNREADABLE:
        unread(where, f"the entry `{name}` is encrypted or a patch")
    size, packed, header = _large(where, name, extra, (size, packed, header))
    if size != packed and not method:
        _bad(where, f"the entry `{name}` has {size} bytes in {packed}")
    if disk or header + _LOCAL.size + packed > directory:
        _bad(where, f"the entry `{name}` is not within the file")
    return Entry(name, packed, header, directory, bool(method)), at


def _name(where: str, data: bytes) -> str:
    try:
        name = data.decode("utf-8")
    except UnicodeDecodeError:
        _bad(where, "it has an entry whose name is not UTF-8")
    parts = name.split("/")
    if (
        not name
        or len(data) > _NAME
        or ".." in parts
        or "" in parts[:-1]
        or "\\" in name
        or not name.isprintable()
    ):
        _bad(where, f"it has an entry with the name `{printable(name)}`")
    return name


def _large(
    where: str, name: str, extra: bytes, fields: tuple[int, int, int]
) -> tuple[int, int, int]:
    """Return sizes and offset, from the zip64 field where the entry has no room for them."""
    if _MAX_32 not in fields:
        return fields
    at = 0
    while at + 4 <= len(extra):
        kind, nbytes = struct.unpack_from("<2H", extra, at)
        at += 4
        if kind == _ZIP64 and at + nbytes <= len(extra):
            numbers = iter(struct.unpack_from(f"<{nbytes // 8}Q", extra, at))
            size, packed, header = (
                next(numbers, None) if field == _MAX_32 else field for field in fields
            )
            if size is not None and packed is not None and header is not None:
                return size, packed, header
        at += nbytes
    return _bad(where, f"the entry `{name}` lacks its zip64 sizes")


def _bad(where: str, message: str) -> NoReturn:
    malformed(where, message, "E_PT_ZIP")
