"""GGUF under fuzzing: what we accept, the format's own library accepts, with equal values."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator

from importer.formats.gguf.header import Header, read_header
from importer.formats.gguf.metadata import Value, read_array
from importer.sources.tensor import SourceTensor
from store.errors import IngotError
from store.text import is_printable
from tests.fuzz.rewritten import Rewritten
from tests.fuzz.scratch import SCRATCH

_APART = Rewritten("apart", "model.gguf")
_UNKNOWN = frozenset({"Q2_0", "Q8_1"})
"""gguf-py 0.19.0 does not know the first, and takes a block of the second for 40 bytes."""


def gguf(data: bytes) -> None:
    """A GGUF file: tensors lie in it and apart, and gguf-py reads the same of it."""
    found = _header(data)
    if found is None:
        return
    end = 0
    for tensor in sorted(found.tensors, key=lambda one: (one.offset, one.nbytes)):
        assert is_printable(tensor.name)
        assert tensor.offset % found.alignment == 0
        if tensor.nbytes:
            assert end <= tensor.offset
            end = tensor.offset + tensor.nbytes
            assert end <= len(data)
    if not _UNKNOWN.intersection(tensor.kind.name for tensor in found.tensors):
        _compare(found, data, lambda start, end: data[start:end])


def _header(data: bytes) -> Header | None:
    """Return the header of a file, or None where it is refused."""

    def read(start: int, end: int) -> bytes:
        assert 0 <= start <= end <= len(data)
        return data[start:end]

    try:
        return read_header("x", len(data), read)
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return None


def _compare(found: Header, data: bytes, read: Callable[[int, int], bytes]) -> None:
    import numpy as np
    from gguf import GGUFReader

    if any(key.startswith("GGUF.") for key in found.metadata):
        return  # names that the library uses for itself
    if any(not tensor.nbytes for tensor in found.tensors):
        return  # it makes a view of what may be behind the end
    path = SCRATCH / f"{os.getpid()}.gguf"
    path.write_bytes(data)
    with np.errstate(over="ignore"):
        theirs = GGUFReader(path)
    assert [
        (one.name, one.tensor_type.name, one.n_bytes, one.data_offset) for one in theirs.tensors
    ] == [(one.name, one.kind.name, one.nbytes, one.offset) for one in found.tensors]
    assert [one.shape.tolist()[::-1] for one in theirs.tensors] == [
        list(one.shape) for one in found.tensors
    ]
    fields = {key: one for key, one in theirs.fields.items() if not key.startswith("GGUF.")}
    assert fields.keys() == found.metadata.keys()
    for key, ours in found.metadata.items():
        if isinstance(ours, Value):
            expected: object = [fields[key].contents()]
            values: list[object] = [ours.value]
        else:
            try:
                values = list(_flat(read_array(ours, read, len(data), "x")))
            except IngotError:
                continue  # not UTF-8, of which the library makes a traceback
            expected = fields[key].contents()
            if not values:
                continue
        assert isinstance(expected, list)
        assert len(values) == len(expected)
        assert all(map(_same, values, expected))


def _flat(values: Iterator[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(iter(value))
        else:
            yield value


def _same(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float) and math.isnan(ours):
        return math.isnan(theirs)
    return ours == theirs


def gguf_apart(data: bytes) -> None:
    """A GGUF file, taken apart: every tensor is read of the file alone, and files are made."""
    if _header(data) is None:
        return  # most inputs end here, where nothing has to be written
    _APART.write(data)
    try:
        found = _APART.inventory()
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    names = [tensor.name for tensor in found.tensors]
    assert len(set(names)) == len(names)
    assert all(is_printable(note) for note in found.notes)
    for tensor in found.tensors:
        _check_spans(tensor)
    for file in found.files:
        if file.maker is not None:
            made = b"".join(file.maker.pieces())
            assert len(made) == file.size
            json.loads(made)


def _check_spans(tensor: SourceTensor) -> None:
    """The first and the last unit, and all, lie within the arrays, and these in the file."""
    count, unit = math.prod(tensor.shape), tensor.decoder.unit(tensor.shape)
    assert unit >= 1
    assert count % unit == 0
    pieces = {(0, min(unit, count)), (max(count - unit, 0), count), (0, count)}
    for start, stop in pieces:
        spans = tensor.decoder.spans(tensor.shape, range(start, stop))
        for array, span in zip(tensor.arrays, spans, strict=True):
            assert span.begin >= 0
            assert span.begin + (span.runs - 1) * span.stride + span.run <= array.nbytes
            assert array.offset + array.nbytes <= array.file.size


TARGETS: dict[str, Callable[[bytes], None]] = {"gguf": gguf, "gguf-apart": gguf_apart}
