"""Hostile and malformed archives and streams, a row each: refused, and it is said why."""

from __future__ import annotations

import struct

import pytest

from importer.formats.pytorch.checkpoint import read_checkpoint
from store.errors import IngotError
from tests.importer.formats.pytorch.builders import (
    GOOD,
    LEGACY,
    OLD,
    archive,
    checkpoint,
    entry,
    mapping,
    number,
    pickled,
    storage,
    stream,
    tensor,
    text,
)


def read(data):
    return read_checkpoint("`x.bin`", len(data), lambda start, end: data[start:end])


NAMES = "x/../y", "/x/data/1", "x\\y", "x//y", "", "x/\x07", b"x/\xff", "a" * 2000
PICKLE, DATA = entry("x/data.pkl", pickled(GOOD)), entry("x/data/0", bytes(24))
ARCHIVES = {
    "compressed pickle": (archive(entry("x/data.pkl", b"x", 8), DATA), 4, "is compressed"),
    "compressed storage": (
        archive(PICKLE, entry("x/data/0", bytes(24), 8)),
        4,
        "is compressed",
    ),
    "an encrypted entry": (archive(PICKLE, entry("x/data/0", bytes(24), 0, 1)), 4, "encrypted"),
    "a patched entry": (archive(PICKLE, entry("x/data/0", bytes(24), 0, 32)), 4, "a patch"),
    "a version after the last": (
        archive(PICKLE, DATA).replace(b"PK\1\2\0\0\0\0", b"PK\1\2\0\0\xc4\0", 1),
        4,
        "needs version 196",
    ),
    "two entries of a name": (archive(PICKLE, DATA, DATA), 3, "two entries `x/data/0`"),
    "two pickles": (archive(PICKLE, PICKLE, DATA), 3, "two entries `x/data.pkl`"),
    "an entry outside": (archive(PICKLE, DATA, shift={"x/data/0": 1 << 20}), 3, "not within"),
    "an entry over another": (archive(PICKLE, DATA, shift={"x/data/0": -30}), 3, "overlaps"),
    "an entry at another": (
        archive(PICKLE, DATA, shift={"x/data/0": -1}),
        3,
        "overlaps",
    ),
    "an entry that is not there": (
        archive(PICKLE, DATA, entry("x/y", bytes(9)), shift={"x/data/0": 1}),
        3,
        "overlaps",
    ),
    "a size that lies": (
        archive(PICKLE, entry("x/data/0", bytes(24), size=99)),
        3,
        "not within",
    ),
    "a size of less": (archive(PICKLE, entry("x/data/0", bytes(24), size=20)), 3, "needs 24"),
    "a comment": (archive(PICKLE, DATA, comment=b"PK\5\6" + bytes(18)), 3, "directory"),
    "bytes before": (b"PK\3\4" + archive(PICKLE, DATA), 3, "does not end at"),
    "bytes after": (archive(PICKLE, DATA) + b"x", 3, "no zip directory at its end"),
    "cut off": (archive(PICKLE, DATA)[:-60], 3, "no zip directory at its end"),
    "no pickle": (archive(DATA), 4, "no `data.pkl`"),
    "two tops": (archive(PICKLE, DATA, entry("y/data.pkl", b"")), 4, "no `data.pkl`"),
    "a program": (archive(PICKLE, DATA, entry("x/code/a.py", b"")), 4, "TorchScript"),
    "a program, compressed": (
        archive(PICKLE, DATA, entry("x/code/a.py", b"x", 8)),
        4,
        "TorchScript",
    ),
    "constants": (archive(PICKLE, DATA, entry("x/constants.pkl", b"")), 4, "TorchScript"),
    "big-endian": (archive(PICKLE, DATA, entry("x/byteorder", b"big")), 4, "big-endian"),
    "no byte order": (archive(PICKLE, DATA, entry("x/byteorder", b"pdp")), 3, "byte order"),
    "a second pickle": (
        archive(entry("x/data.pkl", pickled(GOOD) * 2), DATA),
        3,
        "after the end of its pickle",
    ),
    "a pickle that ends early": (
        archive(entry("x/data.pkl", pickled(GOOD)[:-9]), DATA),
        3,
        "in the middle",
    ),
    "an empty pickle": (archive(entry("x/data.pkl", b""), DATA), 3, "in the middle"),
    "protocol 3 with a global": (
        archive(entry("x/data.pkl", b"\x80\x03cposix\nsystem\n."), DATA),
        3,
        "posix.system",
    ),
    "protocol 3 with bytes": (
        archive(entry("x/data.pkl", b"\x80\x03C\x01x."), DATA),
        3,
        "SHORT_BINBYTES",
    ),
    "protocol 4": (archive(entry("x/data.pkl", b"\x80\x04N."), DATA), 3, "protocol 4"),
    "protocol 5": (archive(entry("x/data.pkl", b"\x80\x05N."), DATA), 3, "protocol 5"),
    "protocol 0": (archive(entry("x/data.pkl", b"(lp0\n."), DATA), 3, "protocol"),
    **{
        f"the name {name!r:.12}": (archive(PICKLE, DATA, entry(name, b"")), 3, "name")
        for name in NAMES
    },
}


@pytest.mark.parametrize("row", ARCHIVES.values(), ids=ARCHIVES)
def test_a_hostile_archive_is_refused(row):
    data, status, message = row

    with pytest.raises(IngotError) as caught:
        read(data)

    assert message in str(caught.value)
    assert caught.value.exit_code == status


SYSTEM = mapping(little_endian=b"\x89")
STREAMS = {
    "big-endian": (stream(OLD, system=SYSTEM), 4, "big-endian"),
    "no byte order": (stream(OLD, system=mapping(x=b"N")), 3, "byte order"),
    "protocol 3 with a global": (
        b"\x80\x03" + LEGACY[2:] + b"\x80\x03cposix\nsystem\n.",
        3,
        "posix.system",
    ),
    "protocol 4 behind 3": (b"\x80\x03" + LEGACY[2:] + b"\x80\x04N.", 3, "protocol 4"),
    "protocol 4": (b"\x80\x04" + LEGACY[2:] + b"\x80\x04N.", 3, "protocol 4"),
    "protocol 4 in frames": (
        b"\x80\x04\x95" + struct.pack("<Q", len(LEGACY[2:])) + LEGACY[2:],
        3,
        "protocol 4",
    ),
    "a number of Python's": (b"\x80\x04K\x07.", 4, "a pickle of Python's"),
    "another version": (LEGACY + pickled(number(7)) + pickled(b"}"), 3, "not 1001"),
    "a storage too many": (stream(OLD, keys=("0", "1")), 3, "list of storages"),
    "a storage twice": (stream(OLD, keys=("0", "0")), 3, "list of storages"),
    "no storage": (stream(OLD, keys=()), 3, "list of storages"),
    "a length that lies": (stream(OLD, length=7), 3, "has 7 elements, expected 6"),
    "a length of -1": (stream(OLD, length=-1), 3, "has -1 elements"),
    "cut off": (stream(OLD)[:-1], 3, "in the middle of storage `0`"),
    "cut off in the pickle": (stream(OLD)[:80], 3, "in the middle"),
    "bytes after": (stream(OLD) + b"x", 3, "1 bytes follow"),
    "a module": (stream(b"(" + text("module") + b"NNNtQ"), 4, "a module"),
    "a part outside": (
        stream(
            mapping(w=tensor(storage(more=b"(" + text("v") + number(3) + number(4) + b"t")))
        ),
        3,
        "not within it",
    ),
    "two types of a storage": (
        stream(
            mapping(
                a=tensor(storage(more=b"N")),
                b=tensor(storage(cls="torch\nIntStorage", more=b"N")),
            )
        ),
        3,
        "two sizes or types",
    ),
    "an id of the newer format": (stream(GOOD), 3, "not that of a storage"),
}


@pytest.mark.parametrize("data", [checkpoint(GOOD), stream(OLD)], ids=["zip", "legacy"])
def test_protocol_3_is_read_as_2(data):
    of_3 = data.replace(b"\x80\x02", b"\x80\x03")

    assert of_3 != data
    assert read(of_3) == read(data)


@pytest.mark.parametrize("row", STREAMS.values(), ids=STREAMS)
def test_a_hostile_stream_is_refused(row):
    data, status, message = row

    with pytest.raises(IngotError) as caught:
        read(data)

    assert message in str(caught.value)
    assert caught.value.exit_code == status


KINDS = {
    "quantized": b"ctorch._utils\n_rebuild_qtensor\n",
    "quantized tensor (`torch.qint8`)": b"ctorch\nqint8\n",
    "sparse": b"ctorch._utils\n_rebuild_sparse_tensor\n",
    "without data": b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n",
    "128 bits": b"ctorch\nComplexDoubleStorage\n",
    "class of its own": b"ctorch._tensor\n_rebuild_from_type_v2\n",
    "metadata": tensor(more=mapping(neg=b"\x88")),
    "dictionary": tensor(),
    "dictionary of": b"]" + tensor() + b"a",
    "not clear": mapping(a=mapping(w=tensor()), b=mapping(w=tensor())),
    "`model`, `state_dict`": mapping(state_dict=mapping(w=tensor()), model=mapping(w=tensor())),
    "quantized by hqq": mapping(a=mapping(W_q=tensor()), b=mapping(w=tensor())),
    "holds tensors below": mapping(w=tensor(), x=mapping(w=tensor())),
}


UNREAD = (
    *(
        "_utils _rebuild_qtensor",
        "_utils _rebuild_sparse_tensor",
        "_tensor _rebuild_from_type_v2",
    ),
    *("_utils _rebuild_sparse_csr_tensor", "_utils _rebuild_nested_tensor"),
    *("_utils _rebuild_meta_tensor_no_storage", "_utils _rebuild_wrapper_subclass"),
    "_utils _rebuild_device_tensor_from_numpy",
    *(f" {name}Storage" for name in ("ComplexDouble", "QInt8", "QUInt8", "QInt32")),
    *(" QUInt4x2Storage", " QUInt2x4Storage", " complex128"),
)


@pytest.mark.parametrize("name", UNREAD)
def test_a_kind_of_tensor_that_is_not_read_is_refused_by_name(name):
    module, _, function = name.partition(" ")
    module = f"torch.{module}".removesuffix(".")

    with pytest.raises(IngotError, match=f"{module}.{function}") as caught:
        read(checkpoint(mapping(w=f"c{module}\n{function}\n".encode())))

    assert caught.value.exit_code == 4


@pytest.mark.parametrize("what", KINDS)
def test_what_is_not_read_is_said(what):
    with pytest.raises(IngotError) as caught:
        read(checkpoint(KINDS[what]))

    assert caught.value.exit_code == 4
    assert (
        what.split("`")[-2] in str(caught.value) if "`" in what else what in str(caught.value)
    )


CONTENTS = {
    b"GGUF\3\0\0\0": "a GGUF file",
    b"version https://git-lfs.github.com/spec/v1\n": "a Git LFS pointer",
    b"<!DOCTYPE html><html>": "an HTML page",
    b"\x02\0\0\0\0\0\0\0{}": "a safetensors file",
    b"\x80\x04N.": "a pickle of Python's",
    b"\x80\x02}.": "a pickle of Python's",
    bytes(257) + b"ustar": "a tar archive",
    b"": "an empty file",
    b"hello": "a text file",
    b"\0\1\2": "nothing in it says",
}


@pytest.mark.parametrize("content", CONTENTS)
def test_another_content_is_said(content):
    with pytest.raises(IngotError) as caught:
        read(content)

    assert CONTENTS[content] in str(caught.value)


def test_what_is_well_formed_is_read():
    assert [place.offset for place in read(checkpoint(GOOD)).places.values()]
    assert [place.tensor.shape for place in read(stream(OLD)).places.values()] == [(2, 3)]
