"""PyTorch's files written by hand: zip archives, pickles of any opcodes, older streams."""

from __future__ import annotations

import struct
import zlib

LEGACY = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
PROTO, STOP = b"\x80\x02", b"."
ORDERED = b"ccollections\nOrderedDict\n)R"


def text(value):
    """A string."""
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value):
    """A number, in the shortest opcode."""
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def numbers(*values):
    """A tuple of numbers."""
    return b"(" + b"".join(map(number, values)) + b"t"


def storage(key="0", length=6, cls="torch\nFloatStorage", more=b""):
    """A storage, by its persistent id."""
    name = b"c" + cls.encode() + b"\n"
    return (
        b"(" + text("storage") + name + text(key) + text("cpu") + number(length) + more + b"tQ"
    )


def tensor(at=None, offset=0, shape=(2, 3), strides=(3, 1), *, hooks=ORDERED, more=b""):  # noqa: PLR0913
    """A tensor as `_rebuild_tensor_v2` makes one."""
    layout = number(offset) + numbers(*shape) + numbers(*strides)
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n("
    return rebuild + (at or storage()) + layout + b"\x89" + hooks + more + b"tR"


def mapping(**values):
    """A dictionary."""
    return b"}(" + b"".join(text(key) + value for key, value in values.items()) + b"u"


def pickled(value):
    """A whole pickle."""
    return PROTO + value + STOP


def entry(name, data, method=0, flags=0, size=None):
    """What an archive is made of: name, data, method, flags, size that is declared."""
    return name, data, method, flags, len(data) if size is None else size


def archive(*entries, shift=None, comment=b""):
    """A zip archive; `shift` moves the offset of the entry of a name."""
    made, directory = b"", b""
    for name, data, method, flags, size in entries:
        raw = name if isinstance(name, bytes) else name.encode()
        at = len(made) + (shift or {}).get(name, 0)
        common = struct.pack(
            "<4HIII2H", flags, method, 0, 0, zlib.crc32(data), size, size, len(raw), 0
        )
        made += b"PK\x03\x04\0\0" + common + raw + data
        directory += b"PK\x01\x02\0\0\0\0" + common + struct.pack("<3H2I", 0, 0, 0, 0, at) + raw
    counts = struct.pack(
        "<4H2IH", 0, 0, len(entries), len(entries), len(directory), len(made), len(comment)
    )
    return made + directory + b"PK\x05\x06" + counts + comment


def checkpoint_of(pickle):
    """An archive of any bytes for a pickle, and of storage `0`."""
    return archive(entry("x/data.pkl", pickle), entry("x/data/0", bytes(24)))


def checkpoint(value, *others, data=bytes(24), **keywords):
    """An archive of a pickle and of storage `0`."""
    entries = [entry("x/data.pkl", pickled(value)), entry("x/data/0", data), *others]
    return archive(*entries, **keywords)


def stream(value, keys=("0",), data=bytes(24), length=6, system=None):
    """A file of the older format."""
    system = system or mapping(protocol_version=number(1001), little_endian=b"\x88")
    names = b"](" + b"".join(map(text, keys)) + b"e"
    head = LEGACY + pickled(number(1001)) + pickled(system) + pickled(value) + pickled(names)
    return head + struct.pack("<q", length) + data


GOOD = mapping(w=tensor())
OLD = mapping(w=tensor(storage(more=b"N")))
