"""A toy container and a toy scheme: all that a new format of each needs."""

from __future__ import annotations

import dataclasses

import pytest

from importer.sources.containers import FORMATS
from importer.sources.file import opened, read_bytes
from importer.sources.naming import Naming, WeightsName
from importer.sources.schemes import SCHEMES
from importer.sources.sharded import FileContents, read_index, read_sharded
from importer.sources.tensor import SourceTensor, StoredArray
from store.errors import InputError
from store.tensorfile import data_bytes
from tests.importer.builders import noise

_NAMING = Naming((".toy",), ("model",))
_MAGIC = b"TOY1"


def toy(tensors):
    """Write a file of name -> (dtype, shape): magic, data, a line an array, its length."""
    data, lines = _MAGIC, []
    for name, (dtype, shape) in tensors.items():
        sides = "x".join(map(str, shape))
        nbytes = data_bytes(dtype, shape)
        lines.append(f"{name} {dtype} {sides} {len(data)} {nbytes}")
        data += noise(name, nbytes)
    footer = "\n".join(lines).encode()
    return data + footer + b"%08d" % len(footer)


class Toy:
    """The container: its header is a footer, to be fetched from the end of a file."""

    def claims(self, path, head=None):
        name = path.rpartition("/")[2]
        if head is None:
            return _NAMING.parse(name)
        return WeightsName(name) if head.startswith(_MAGIC) else None

    def members(self, index, there):
        return tuple(sorted(set(read_index(index, there).values())))

    def fetch_header(self, path, size, read):
        _footer(path, size, read)

    def read(self, selection, files, component):
        return read_sharded(selection, files, lambda file: _read(file, component))

    def cross_check(self, file, names):
        pass


def _footer(path, size, read):
    if size < len(_MAGIC) + 8:
        raise InputError(f"`{path}` ends early", code="E_TOY")
    nbytes = int(read(size - 8, size))
    return read(max(0, size - 8 - nbytes), size - 8).decode()


def _read(file, component):
    with opened(file) as descriptor:
        text = _footer(file.path, file.size, lambda a, b: read_bytes(file, descriptor, a, b))
    tensors = []
    for line in text.splitlines():
        name, dtype, sides, offset, nbytes = line.split()
        shape = tuple(map(int, sides.split("x")))
        array = StoredArray(name, dtype, shape, file, int(offset), int(nbytes))
        tensors.append(SourceTensor.plain(array, component))
    return FileContents(tensors, {"maker": "toy"})


class Halves:
    """The scheme: `x.low` and `x.step` are one tensor, `x.weight`."""

    def recognizes(self, clue):
        return clue.last == "low" and f"{clue.stem}.step" in clue.dtypes

    def join(self, tensors, _):
        by_name = {tensor.name: tensor for tensor in tensors}
        for tensor in tensors:
            stem, _, last = tensor.name.rpartition(".")
            if last == "low" and (step := by_name.get(f"{stem}.step")) is not None:
                arrays = (*tensor.arrays, *step.arrays)
                yield dataclasses.replace(tensor, name=f"{stem}.weight", arrays=arrays)
            elif last != "step" or f"{stem}.low" not in by_name:
                yield tensor


@pytest.fixture
def toys(monkeypatch):
    """Register both, as one line in each mapping would."""
    monkeypatch.setitem(FORMATS, "toy", Toy())
    monkeypatch.setitem(SCHEMES, "halves", Halves())
