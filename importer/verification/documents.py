"""What differs beside the weights: files, templates, parameters, licenses, metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from importer.sources.file import SourceFile, opened, read_exactly, read_whole
from importer.sources.file_metadata import told
from importer.sources.inventory import Inventory
from store.errors import InputError
from store.json import Json, JsonError, loads

_PIECE: Final = 1 << 20
_PARSED: Final = 1 << 20
"""Bytes of a JSON document whose keys are compared; a vocabulary is only said to differ."""
_ENTRIES: Final = 1000
"""Keys of a document that are named."""
_VALUE: Final = 200
"""Characters of a value that are shown."""


class Entry(NamedTuple):
    """One value of a document.

    Attributes:
        key: with dots between the keys of nested objects.
        a: the value on the first side as JSON, cut where it is long; None where it is absent.
        b: on the second.
    """

    key: str
    a: str | None
    b: str | None


class DocumentDifference(NamedTuple):
    """Something beside the weights that is not the same on both sides.

    Attributes:
        kind: `file`, `metadata`, or what a layer says of the model's use, such as `template`.
        name: of the file, or of a layer's kind.
        a: bytes on the first side, or None where it is absent.
        b: on the second.
        entries: what differs inside, where that is known.
    """

    kind: str
    name: str
    a: int | None
    b: int | None
    entries: tuple[Entry, ...] = ()


def differences(a: Inventory, b: Inventory) -> Iterator[DocumentDifference]:
    """Yield everything beside the weights that differs."""
    yield from _files(a, b)
    yield from _use(a, b)
    are_stored = a.model is not None and b.model is not None
    if are_stored and (words := _entries(dict(a.words), dict(b.words))):
        yield DocumentDifference("configuration", "configuration", None, None, words)
    if metadata := _entries(_metadata(a), _metadata(b)):
        yield DocumentDifference("metadata", "metadata", None, None, metadata)


def _files(a: Inventory, b: Inventory) -> Iterator[DocumentDifference]:
    ours, theirs = ({file.path: file for file in side.files} for side in (a, b))
    for path in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(path), theirs.get(path)
        if one is None or other is None:
            yield DocumentDifference("file", path, _size(one), _size(other))
        elif not _is_same(one, other):
            yield DocumentDifference(
                "file",
                path,
                one.size,
                other.size,
                _inside(one, other) if _is_json(path) else (),
            )


def _use(a: Inventory, b: Inventory) -> Iterator[DocumentDifference]:
    def by_kind(side: Inventory) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = {}
        for layer, data in side.use:
            found.setdefault(str(layer.media_type).rpartition(".")[2], []).append(data)
        return found

    ours, theirs = by_kind(a), by_kind(b)
    for kind in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(kind), theirs.get(kind)
        if one != other:
            entries = _of_bytes(one[0], other[0]) if one and other and kind == "params" else ()
            yield DocumentDifference(kind, kind, _total(one), _total(other), entries)


def _metadata(side: Inventory) -> dict[str, Json]:
    """Return what the files of weights say of themselves, however they are cut."""
    found: dict[str, set[str]] = {}
    for said in told(side.metadata).values():
        for key, value in said.items():
            found.setdefault(key, set()).add(value)
    return {key: " | ".join(sorted(values)) for key, values in found.items()}


def _is_same(a: SourceFile, b: SourceFile) -> bool:
    if a.size != b.size:
        return False
    if a.maker is None and b.maker is None and a.location == b.location:
        return True
    ours, theirs = (memoryview(bytearray(min(_PIECE, a.size))) for _ in range(2))
    with opened(a) as one, opened(b) as other:
        for start in range(0, a.size, _PIECE):
            size = min(_PIECE, a.size - start)
            read_exactly(a, one, ours[:size], start)
            read_exactly(b, other, theirs[:size], start)
            if bytes(ours[:size]) != bytes(theirs[:size]):
                return False
    return True


def _is_json(path: str) -> bool:
    return path.endswith(".json")


def _inside(a: SourceFile, b: SourceFile) -> tuple[Entry, ...]:
    try:
        return _of_bytes(read_whole(a, _PARSED), read_whole(b, _PARSED))
    except InputError:  # too large
        return ()


def _of_bytes(a: bytes, b: bytes) -> tuple[Entry, ...]:
    try:
        ours, theirs = (loads(data, floats=True, constants=True) for data in (a, b))
    except JsonError:
        return ()
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return ()
    return _entries(ours, theirs)


def _entries(a: Mapping[str, Json], b: Mapping[str, Json]) -> tuple[Entry, ...]:
    ours, theirs = dict(_flat(a, "")), dict(_flat(b, ""))
    found = (
        Entry(key, ours.get(key), theirs.get(key))
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key) != theirs.get(key)
    )
    return tuple(
        Entry(key, *(None if one is None else _cut(one) for one in sides))
        for _, (key, *sides) in zip(range(_ENTRIES), found, strict=False)
    )


def _flat(value: Mapping[str, Json], prefix: str) -> Iterator[tuple[str, str]]:
    import json  # noqa: PLC0415 - the store's reads alone

    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", json.dumps(inner, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"


def _total(texts: list[bytes] | None) -> int | None:
    return None if texts is None else sum(map(len, texts))


def _size(file: SourceFile | None) -> int | None:
    return None if file is None else file.size
