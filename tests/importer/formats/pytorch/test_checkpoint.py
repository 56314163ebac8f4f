"""What torch wrote is read as torch reads it: names, dtypes, shapes, and every value."""

from __future__ import annotations

import hashlib
import json
import struct

import pytest

from importer.codecs.registry import transcoder_for
from importer.codecs.runtime import NUMPY
from importer.engine.chunks import cut_source
from importer.engine.reader import ChunkReader
from importer.formats.pytorch.archive import data_offset, read_directory
from importer.formats.pytorch.checkpoint import read_checkpoint
from importer.sources.inventory import read_inventory
from store.errors import InputError
from tests.importer.builders import REPOSITORY
from tests.importer.formats.pytorch.builders import checkpoint, mapping, tensor

FIXTURES = REPOSITORY / "fixtures" / "pytorch"
GOLDEN = json.loads((FIXTURES / "golden.json").read_text())["files"]
TIED = {"head.weight"}


def values(tensor, size):
    """The bytes of a tensor as an import would store them, in chunks of about `size`."""
    transcoder = transcoder_for(None, tensor.decoder)
    extents = [array.extent for array in tensor.arrays]
    layout = [(0, part.nbytes) for part in transcoder.parts(tensor.shape)]
    made = b""
    with ChunkReader() as reader:
        for chunk in cut_source(transcoder, tensor.shape, extents, layout, size):
            arrays = reader.read(chunk, memoryview(bytearray(chunk.room)))
            piece = transcoder.convert(arrays, tensor.shape, chunk.elements, NUMPY)
            made += bytes(piece.parts[0])
    return made


@pytest.mark.parametrize("size", [64, 1 << 20])
@pytest.mark.parametrize("name", GOLDEN)
def test_tensors_are_those_of_torch(name, size):
    tensors = read_inventory(FIXTURES / name).tensors

    found = {
        one.name: [one.dtype, list(one.shape), hashlib.sha256(values(one, size)).hexdigest()]
        for one in tensors
    }
    assert found == {key: row for key, row in GOLDEN[name].items() if key not in TIED}


@pytest.mark.parametrize("name", ["views.pth", "views-legacy.pth"])
def test_tied_tensors_are_stored_once_and_said(name):
    assert read_inventory(FIXTURES / name).notes == (
        "1 tied tensor is stored once: `head.weight` is `embed.weight`",
    )


def test_an_empty_tensor_is_at_the_start_of_its_storage():
    # torch.load gives it whatever its offset is; the file has no such byte.
    data = checkpoint(mapping(w=tensor(offset=1 << 40, shape=(2, 0))))

    found = read_checkpoint("x", len(data), lambda start, end: data[start:end])

    assert found.places["w"].tensor.shape == (2, 0)
    assert data.index(bytes(24)) == found.places["w"].offset


def test_what_is_not_the_models_is_said():
    assert read_inventory(FIXTURES / "training.ckpt").notes == (
        "`training.ckpt`: the tensors are those of `state_dict`, without `optimizer`",
        "`training.ckpt`: left out what is not a tensor: `epoch`, `step`, `none`",
    )


def local(name, extra=b""):
    header = struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 0, 0, 0, 0, 0, 0, len(name), len(extra))
    return header + name + extra


def central(name, size, header):
    extra = struct.pack("<2H3Q", 1, 24, size, size, header)
    most = 0xFFFFFFFF
    fields = (45, 45, 0, 0, 0, 0, 0, most, most, len(name), len(extra), 0, 0, 0, 0, most)
    return struct.pack("<4s6H3I5H2I", b"PK\1\2", *fields) + name + extra


def ends(count, size, start):
    large = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, start + size, 1)
    most = 0xFFFFFFFF
    return (
        large + locator + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, most, most, 0)
    )


LARGE = 5 << 30


@pytest.fixture
def large(tmp_path):
    """An archive of 5 GB, of which the disk has some hundred bytes."""
    path = tmp_path / "large.bin"
    first, second = local(b"x/data/0", bytes(20)), local(b"x/data/1", bytes(7))
    at = len(first) + LARGE
    directory = central(b"x/data/0", LARGE, 0) + central(b"x/data/1", 4, at)
    with path.open("wb") as file:
        file.write(first)
        file.seek(at)
        start = at + file.write(second + b"last")
        file.write(directory + ends(2, len(directory), start))
    return path, len(first), at + len(second)


def test_an_archive_above_4_gb_is_read(large):
    path, *offsets = large
    with path.open("rb") as file:

        def read(start, end):
            file.seek(start)
            return file.read(end - start)

        entries = read_directory("x", path.stat().st_size, read)
        found = [data_offset("x", entry, read) for entry in entries.values()]

    assert [entry.size for entry in entries.values()] == [LARGE, 4]
    assert found == offsets


@pytest.mark.parametrize("cut", [1, 21, 22, 42, 43, 98, 99, 150])
def test_an_archive_above_4_gb_that_is_cut_off_is_refused(large, cut):
    path, *_ = large
    size = path.stat().st_size - cut
    with path.open("rb") as file:

        def read(start, end):
            file.seek(start)
            return file.read(end - start)

        with pytest.raises(InputError) as caught:
            read_directory("x", size, read)

    assert caught.value.code == "E_PT_ZIP"
