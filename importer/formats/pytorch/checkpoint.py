"""Where the tensors of a PyTorch checkpoint are in its file, zip archive or older stream."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from importer.formats.content import ZIP, content_of, other_content
from importer.formats.pytorch.archive import Entry, data_offset, read_directory
from importer.formats.pytorch.pickled import load
from importer.formats.pytorch.problems import malformed, unread
from importer.formats.pytorch.state_dict import find_state_dict
from importer.formats.pytorch.stream import Stream
from importer.formats.pytorch.values import ITEM_BYTES, Named, Storage, Tensor
from importer.formats.window import ReadRange
from store import limits
from store.text import printable

_MAGIC: Final = bytes.fromhex("8a0a6cfc9c46f9206aa850192e")
"""How a file of the older format begins, after its protocol: a pickled number."""
_FRAME: Final = b"\x95"
"""Comes before the number in protocol 4 and later, with a length of eight bytes."""
_VERSION: Final = 1001
_HEAD: Final = 512
_COUNT: Final = struct.Struct("<q")
_PLAIN_ID: Final = 5
_LEGACY_ID: Final = 6


class Place(NamedTuple):
    """A tensor, and where its first element is.

    Attributes:
        offset: in the file, in bytes.
    """

    tensor: Tensor
    offset: int


class Checkpoint(NamedTuple):
    """What a file holds.

    Attributes:
        places: by name of the tensor, in the order of the file.
        notes: what the user should know.
    """

    places: dict[str, Place]
    notes: tuple[str, ...]


def is_pytorch(head: bytes) -> bool:
    """Return whether a file is a checkpoint of PyTorch's, by its first bytes.

    Both formats begin with the pickle, in a zip archive as the entry `<name>/data.pkl`.
    """
    if head.startswith(ZIP):
        name_bytes = int.from_bytes(head[26:28], "little")
        return head[30 : 30 + name_bytes].endswith(b"/data.pkl")
    return _is_legacy(head)


def read_checkpoint(where: str, size: int, read: ReadRange) -> Checkpoint:
    """Read where the tensors of a file are, and no weight.

    Args:
        where: what to call the file in a message.
        size: of the file, in bytes.
        read: gives bytes of it.

    Raises:
        InputError: it is malformed or hostile.
        UnsupportedError: it is well-formed, but of a kind that is not read.
    """
    head = read(0, min(_HEAD, size))
    if head.startswith(ZIP):
        value, starts = _read_zip(where, size, read)
    elif _is_legacy(head):
        value, starts = _read_legacy(where, size, read)
    else:
        what = content_of(head)
        if what == "a pickle":
            unread(where, "it is a pickle of Python's, not a checkpoint of PyTorch's")
        if what == "a tar archive":
            unread(where, "it is a checkpoint of PyTorch's before 0.1.10, a tar archive")
        raise other_content(where, head, "a PyTorch checkpoint", "E_PT_CONTENT")
    found = find_state_dict(where, value)
    if len(found.tensors) > limits.TENSORS_PER_FILE:
        message = f"{len(found.tensors)} tensors, the limit is {limits.TENSORS_PER_FILE}"
        malformed(where, message, "E_LIMIT")
    places = {}
    for name, tensor in found.tensors.items():
        start = starts[tensor.storage.key]
        start += tensor.storage.begin * ITEM_BYTES[tensor.storage.dtype]
        places[name] = Place(tensor, start + tensor.offset * ITEM_BYTES[tensor.dtype])
    return Checkpoint(places, found.notes)


def _is_legacy(head: bytes) -> bool:
    """Return whether it is a file of the older format, in whatever protocol."""
    number = head[11:] if head[2:3] == _FRAME else head[2:]
    return head.startswith(b"\x80") and number.startswith(_MAGIC)


def _read_zip(where: str, size: int, read: ReadRange) -> tuple[object, dict[str, int]]:
    entries = read_directory(where, size, read)
    main = [name for name in entries if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(main) != 1:
        unread(where, "it is a zip archive, but not one of PyTorch's: no `data.pkl`")
    top = main[0].removesuffix("data.pkl")
    if any(name.startswith((f"{top}constants.pkl", f"{top}code/")) for name in entries):
        unread(where, "it is a TorchScript archive: a program, not a state dict")
    for name, entry in entries.items():
        if entry.is_compressed:
            unread(where, f"the entry `{name}` is compressed, which PyTorch does not do")
    _check_order(where, entries.get(f"{top}byteorder"), read)
    storages: dict[str, Storage] = {}

    def load_storage(pid: tuple[object, ...]) -> Storage:
        storage = _storage(where, pid, _PLAIN_ID)
        entry = entries.get(f"{top}data/{storage.key}")
        if entry is None:
            message = f"storage `{printable(storage.key)}` is not in the archive"
            malformed(where, message, "E_PT_STORAGE")
        nbytes = storage.length * ITEM_BYTES[storage.dtype]
        if nbytes != entry.size:
            message = f"`{entry.name}` has {entry.size} bytes, its storage needs {nbytes}"
            malformed(where, message, "E_PT_STORAGE")
        storages[storage.key] = storage
        return storage

    entry = entries[main[0]]
    start = data_offset(where, entry, read)
    stream = Stream(read, start, start + entry.size, where)
    value = load(stream, load_storage)
    if stream.position != start + entry.size:
        malformed(where, f"`{entry.name}` has bytes after the end of its pickle")
    starts = {
        key: data_offset(where, entries[f"{top}data/{key}"], read) for key in sorted(storages)
    }
    return value, starts


def _check_order(where: str, entry: Entry | None, read: ReadRange) -> None:
    if entry is None:
        return  # of files before 2.1, which are little-endian
    start = data_offset(where, entry, read)
    order = read(start, start + min(entry.size, 16))
    if order == b"big":
        unread(where, "its numbers are big-endian, which ingot does not read")
    if order != b"little":
        malformed(
            where, f"its byte order is `{printable(repr(order)[2:-1])}`, expected little or big"
        )


def _read_legacy(where: str, size: int, read: ReadRange) -> tuple[object, dict[str, int]]:
    stream = Stream(read, 0, size, where)
    storages: dict[str, Storage] = {}

    def load_storage(pid: tuple[object, ...]) -> Storage:
        storage = _storage(where, pid, _LEGACY_ID)
        root = storages.setdefault(storage.key, storage)
        if (root.dtype, root.root_length) != (storage.dtype, storage.root_length):
            message = f"storage `{printable(storage.key)}` has two sizes or types"
            malformed(where, message, "E_PT_STORAGE")
        return storage

    load(stream, load_storage)  # the number that it begins with
    _check_system(where, load(stream, load_storage), load(stream, load_storage))
    value = load(stream, load_storage)
    keys = load(stream, load_storage)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        malformed(where, "it does not list its storages", "E_PT_STORAGE")
    if len(set(keys)) != len(keys) or set(keys) != storages.keys():
        malformed(where, "its list of storages is not of those that it uses", "E_PT_STORAGE")
    starts, end = {}, stream.position
    for key in keys:
        starts[key] = end + _COUNT.size
        end = _storage_end(where, storages[key], end, size, read)
    if end != size:
        malformed(where, f"{size - end} bytes follow its last storage")
    return value, starts


def _check_system(where: str, version: object, system: object) -> None:
    if version != _VERSION or type(version) is not int:
        malformed(where, f"a version of the format that is not {_VERSION}")
    if not isinstance(system, dict) or type(system.get("little_endian")) is not bool:
        malformed(where, "it does not say its byte order")
    if not system["little_endian"]:
        unread(where, "its numbers are big-endian, which ingot does not read")


def _storage_end(where: str, storage: Storage, start: int, size: int, read: ReadRange) -> int:
    """Return where a storage ends in a stream; its length stands before its data."""
    end = start + _COUNT.size + storage.root_length * ITEM_BYTES[storage.dtype]
    shown = f"storage `{printable(storage.key)}`"
    if end > size:
        malformed(where, f"it ends in the middle of {shown}", "E_PT_TRUNCATED")
    (length,) = _COUNT.unpack(read(start, start + _COUNT.size))
    if length != storage.root_length:
        message = f"{shown} has {length} elements, expected {storage.root_length}"
        malformed(where, message, "E_PT_STORAGE")
    return end


def _storage(where: str, pid: tuple[object, ...], length: int) -> Storage:
    """Return the storage of a persistent id, every field of it checked."""
    kind, cls, key, _, count = pid[:_PLAIN_ID] if len(pid) == length else (None,) * _PLAIN_ID
    if (
        kind != "storage"
        or not isinstance(cls, Named)
        or not cls.is_storage
        or type(key) is not str
        or type(count) is not int
        or not 0 <= count <= limits.DIMENSION
    ):
        malformed(where, "a persistent id is not that of a storage", "E_PT_STORAGE")
    part = pid[_PLAIN_ID] if length == _LEGACY_ID else None
    if part is None:
        return Storage(key, cls.dtype, count, count)
    if type(part) is not tuple or len(part) != 3:  # noqa: PLR2004
        malformed(where, "a persistent id is not that of a storage", "E_PT_STORAGE")
    name, begin, inner = part
    if (
        type(name) is not str
        or type(begin) is not int
        or type(inner) is not int
        or min(begin, inner) < 0
        or begin + inner > count
    ):
        message = f"a part of storage `{printable(key)}` is not within it"
        malformed(where, message, "E_PT_STORAGE")
    return Storage(key, cls.dtype, inner, count, begin)
