"""A toy container, a toy scheme and a toy codec: all that a new one of each needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from importer.codecs.arithmetic import packed
from importer.codecs.base import Encoded, Part, Span
from importer.codecs.spec import QUANT_TYPES, Mode, QuantSpec
from importer.sources.containers import FORMATS
from importer.sources.containers.sharded import FileContents, read_index, read_sharded
from importer.sources.file import opened, read_bytes
from importer.sources.naming import Naming, WeightsName
from importer.sources.schemes.registry import SCHEMES
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


@dataclass(frozen=True)
class LowStep:
    """How the scheme stores values: bytes by column, and 16 bits of a step for each row."""

    value_dtype = "F32"

    def __str__(self):
        return "toy8"

    def unit(self, shape):
        return shape[-1]

    def spans(self, shape, elements):
        rows, columns = shape
        first, count = elements.start // columns, len(elements) // columns
        return Span(first, count * columns, runs=columns, stride=rows), Span(
            4 * first, 4 * count
        )

    def decode(self, arrays, shape, elements, runtime):
        low, step = _low_and_step(arrays, shape)
        return (low.astype("<f4") * step[:, None]).tobytes()

    def holds(self, shape):
        return None if shape[-1] % 64 else QUANT_TYPES["int8"]

    def repack(self, arrays, shape, elements, runtime):
        low, step = _low_and_step(arrays, shape)
        scales = np.repeat(step, shape[-1] // 64)
        words = packed(low.tobytes(), self.holds(shape))
        return Encoded((words, scales.tobytes(), bytes(scales.nbytes)))

    def kernels(self, operation):
        return ()


def _low_and_step(arrays, shape):
    low, step = np.frombuffer(arrays[0], "u1"), np.frombuffer(arrays[1], "<u4") & 0xFFFF
    return low.reshape(shape[-1], -1).T, step.astype("<f4")


class Halves:
    """The scheme: `x.low` and `x.step` are one tensor, `x.weight`, packed along columns."""

    decodes = True

    def recognizes(self, clue):
        return clue.last == "low" and f"{clue.stem}.step" in clue.dtypes

    def join(self, tensors, _):
        by_name = {tensor.name: tensor for tensor in tensors}
        for tensor in tensors:
            stem, _, last = tensor.name.rpartition(".")
            if last == "low" and (step := by_name.get(f"{stem}.step")) is not None:
                arrays = (*tensor.arrays, *step.arrays)
                shape = tensor.shape[::-1]
                name = f"{stem}.weight"
                yield SourceTensor(name, shape, arrays, LowStep(), tensor.component)
            elif last != "step" or f"{stem}.low" not in by_name:
                yield tensor


TOY16 = QuantSpec("toy16", Mode.NVFP4, 16, 16, codec=__name__)


@dataclass(frozen=True)
class Toy16:
    """The codec: codes of 16 bits in steps of a 32767th of the largest value of a group."""

    spec: QuantSpec
    dtype: str
    value_dtype = "F32"
    is_lossless = False

    def parts(self, shape):
        *outer, columns = shape
        words = Part("", "U32", (*outer, columns // 2))
        return words, Part(".scale", "F32", (*outer, columns // 16))

    def unit(self, shape):
        return 16

    def spans(self, shape, elements):
        start, count = elements.start, len(elements)
        return Span(2 * start, 2 * count), Span(start // 4, count // 4)

    def encode(self, values, runtime):
        groups = np.frombuffer(values, "<f4").reshape(-1, 16)
        scales = np.abs(groups).max(axis=1) / np.float32(32767) + np.float32(1e-20)
        codes = np.rint(groups / scales[:, None]).astype("<i2")
        return Encoded((codes.tobytes(), scales.astype("<f4").tobytes()))

    def decode(self, arrays, shape, elements, runtime):
        codes, scales = np.frombuffer(arrays[0], "<i2"), np.frombuffer(arrays[1], "<f4")
        return (codes.reshape(-1, 16).astype("<f4") * scales[:, None]).tobytes()

    def kernels(self, operation):
        return ()


def codec(spec, dtype):
    """Return the codec, as `importer.codecs.registry` asks the module of a type for it."""
    return Toy16(spec, dtype)


@pytest.fixture
def toys(monkeypatch):
    """Register all, as one line in each mapping would."""
    monkeypatch.setitem(FORMATS, "toy", Toy())
    monkeypatch.setitem(SCHEMES, "halves", Halves())
    monkeypatch.setitem(QUANT_TYPES, "toy16", TOY16)
