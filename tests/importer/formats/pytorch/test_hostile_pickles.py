"""Hostile and malformed pickles, a row each: refused, and neither memory nor time is lost."""

from __future__ import annotations

import resource
import struct

import pytest

from importer.formats.pytorch import pickled as reader
from importer.formats.pytorch.checkpoint import read_checkpoint
from store.errors import IngotError
from tests.importer.formats.pytorch.builders import (
    ORDERED,
    PROTO,
    checkpoint,
    mapping,
    number,
    numbers,
    storage,
    tensor,
    text,
)


def read(data):
    return read_checkpoint("`x.bin`", len(data), lambda start, end: data[start:end])


EXTRAS = b"\x89" + ORDERED
"""What `_rebuild_tensor_v2` and later ones are given after strides."""


def rebuilt(function, more):
    """A tensor as a function of torch makes one, with arguments of its own at the end."""
    layout = number(0) + numbers(2, 3) + numbers(3, 1)
    return f"ctorch._utils\n{function}\n(".encode() + storage() + layout + more + b"tR"


PERSISTENT = b"(" + text("storage") + b"ctorch\nFloatStorage\n"
DEEP = b"(" * 100
PICKLES = {
    "build of a dict": (b"}" + b"}b", "BUILD"),
    "build of a tensor": (tensor() + b"}b", "BUILD"),
    "build with a tuple of states": (ORDERED + b"}}\x86b", "BUILD"),
    "build with __setstate__": (
        ORDERED + b"(" + text("__setstate__") + number(1) + b"tb",
        "BUILD",
    ),
    "build of a storage class": (b"ctorch\nFloatStorage\n}b", "BUILD"),
    "build of a function": (b"ctorch._utils\n_rebuild_tensor_v2\n}b", "BUILD"),
    "reduce of a storage class": (b"ctorch\nFloatStorage\n(tR", "calls torch.FloatStorage"),
    "reduce of a dtype": (b"ctorch\nfloat16\n(tR", "calls torch.float16"),
    "reduce of text": (text("os.system") + b"(tR", "not a function"),
    "reduce of a tensor": (tensor() + b"(tR", "not a function"),
    "reduce without a tuple": (b"ccollections\nOrderedDict\n]R", "tuple of arguments"),
    "newobj of a storage class": (b"ctorch\nFloatStorage\n)\x81", "an object of torch.FloatS"),
    "newobj of a function": (b"ctorch._utils\n_rebuild_tensor\n)\x81", "not a class"),
    "stack global": (text("os") + text("system") + b"\x93", "STACK_GLOBAL"),
    "inst": (b"(ios\nsystem\n", "INST"),
    "obj": (b"(ctorch\nSize\no", "OBJ"),
    "extension 1": (b"\x82\x01", "EXT1"),
    "extension 2": (b"\x83\x01\0", "EXT2"),
    "extension 4": (b"\x84\x01\0\0\0", "EXT4"),
    "newobj_ex": (b"ctorch\nSize\n)}\x92", "NEWOBJ_EX"),
    "persistent id as text": (b"P0\n", "PERSID"),
    "a second protocol": (b"\x80\x04", "PROTO"),
    "next buffer": (b"\x97", "NEXT_BUFFER"),
    "readonly buffer": (b"\x98", "READONLY_BUFFER"),
    "bytes": (b"C\x01x", "SHORT_BINBYTES"),
    "bytes of 4 GB": (b"B\xff\xff\xff\xff", "BINBYTES"),
    "a byte array of 2^60": (b"\x96" + struct.pack("<Q", 1 << 60), "BYTEARRAY8"),
    "text of 2^60": (b"\x8d" + struct.pack("<Q", 1 << 60), "BINUNICODE8"),
    "a frame of 2^60": (b"\x95" + struct.pack("<Q", 1 << 60), "FRAME"),
    "memoize": (b"}\x94", "MEMOIZE"),
    "a long of 2 GB": (b"\x8b\xff\xff\xff\x7f", "LONG4"),
    "a long of 255 bytes": (b"\x8a\xff" + b"\x01" * 255, "255 bytes"),
    "a number of digits": (b"I" + b"9" * 5000 + b"\n", "INT"),
    "text of 4 GB": (b"X\xff\xff\xff\xff", "a string of 4294967295 bytes"),
    "text that is not UTF-8": (b"X\x01\0\0\0\xff", "UTF-8"),
    "a surrogate": (b"X\x03\0\0\0\xed\xa0\x80", "UTF-8"),
    "pop": (b"}}0", "POP"),
    "dup": (b"}2", "DUP"),
    "no opcode": (b"\xee", "the byte ee"),
    "an empty stack": (b"\x85", "did not put there"),
    "below a mark": (b"}(\x85", "did not put there"),
    "no mark": (b"t", "mark that it did not set"),
    "nested marks": (DEEP, "64 marks"),
    "two values": (b"}}", "left over"),
    "a mark left": (b"(}", "left over"),
    "memo far away": (b"}r\xff\xff\xff\xff", "number 4294967295"),
    "memo of nothing": (b"h\x05", "no value of number 5"),
    "append to a dict": (b"}Na", "not a list"),
    "append to text": (text("x") + b"Na", "not a list"),
    "set an item of a list": (b"]NNs", "not a dictionary"),
    "set an item of a class": (
        b"ctorch\nSize\n" + text("__call__") + b"Ns",
        "not a dictionary",
    ),
    "a key without a value": (b"}(Nu", "key without a value"),
    "one key twice": (b"}(" + text("a") + b"N" + text("a") + b"Nu", "twice"),
    "a tuple as key": (b"}(" + numbers(1) + b"Nu", "neither text"),
    "a key of 15 bytes": (b"}(" + number((1 << 61) - 1) + b"Nu", "neither text"),
    "a list in an OrderedDict": (b"ccollections\nOrderedDict\n(](]etR", "with arguments"),
    "a name without end": (b"c" + b"a" * 400, "256 ASCII letters"),
    "a name of other letters": ("cöß\nx\n".encode(), "256 ASCII letters"),
    "persistent id of a list": (b"]Q", "not a tuple"),
    "persistent id of 3": (PERSISTENT + text("0") + b"tQ", "not that of a storage"),
    "persistent id with a number as key": (
        PERSISTENT + number(0) + text("cpu") + number(6) + b"tQ",
        "not that of a storage",
    ),
    "persistent id with a function": (storage(cls="torch._utils\n_rebuild_tensor"), "storage"),
    "persistent id with a dtype": (storage(cls="torch\nfloat16"), "not that of a storage"),
    "a storage that is not there": (storage("7"), "storage `7` is not in the archive"),
    "a storage outside": (storage("../../etc/passwd"), "is not in the archive"),
    "a storage of -1": (storage(length=-1), "not that of a storage"),
    "a storage of 2^64": (storage(length=1 << 64), "not that of a storage"),
    "a storage that lies": (storage(length=7), "24 bytes, its storage needs 28"),
    "a storage of fewer": (storage(length=5), "24 bytes, its storage needs 20"),
    "a tensor without storage": (tensor(b"N"), "not given a storage"),
    "a tensor too large": (tensor(shape=(2, 4)), "needs 7 elements"),
    "a tensor of strides too large": (tensor(strides=(30, 1)), "needs 33 elements"),
    "an offset too far": (tensor(offset=1), "needs 7 elements"),
    "a negative offset": (tensor(offset=-1), "the offset of a tensor"),
    "a negative stride": (tensor(strides=(-3, 1)), "the strides of a tensor"),
    "a negative size": (tensor(shape=(-2, 3)), "the shape of a tensor"),
    "a size of 2^100": (tensor(shape=(1 << 100, 3)), "the shape of a tensor"),
    "a product of 2^120": (
        tensor(shape=(1 << 40,) * 3, strides=(0, 0, 0)),
        "too many elements",
    ),
    "17 dimensions": (tensor(shape=(1,) * 17, strides=(1,) * 17), "at most 16"),
    "more strides than sizes": (tensor(strides=(3, 1, 1)), "2 dimensions has 3 strides"),
    "hooks": (tensor(hooks=b"}(" + text("x") + b"Nu"), "hooks"),
    "a third version without a dtype": (rebuilt("_rebuild_tensor_v3", EXTRAS), "with argum"),
    "a storage class as dtype": (
        rebuilt("_rebuild_tensor_v3", EXTRAS + b"ctorch\nFloatStorage\n"),
        "with arguments",
    ),
    "text as dtype": (rebuilt("_rebuild_tensor_v3", EXTRAS + text("os")), "with arguments"),
    "a function as dtype": (
        rebuilt("_rebuild_tensor_v3", EXTRAS + b"ctorch\nSize\n"),
        "with arguments",
    ),
    "a wider dtype than the storage": (
        rebuilt("_rebuild_tensor_v3", EXTRAS + b"ctorch\nfloat64\n"),
        "do not say one dtype",
    ),
    "the first version with hooks": (rebuilt("_rebuild_tensor", EXTRAS), "with arguments"),
    "`requires_grad` of text": (
        rebuilt("_rebuild_tensor_v2", text("x") + ORDERED),
        "no boolean",
    ),
    "a parameter with a state of a parameter": (
        b"ctorch._utils\n_rebuild_parameter_with_state\n(N\x89" + ORDERED + b"}tR",
        "with arguments",
    ),
    "a parameter of a storage": (
        b"ctorch._utils\n_rebuild_parameter\n(" + storage() + b"\x89" + ORDERED + b"tR",
        "with arguments",
    ),
    "a device of a tensor": (b"ctorch\ndevice\n(" + tensor() + b"tR", "torch.device"),
    "a layout of a list": (b"ctorch.serialization\n_get_layout\n(]tR", "with arguments"),
    "pairs of three": (
        b"ccollections\nOrderedDict\n(](" + text("a") + b"NN\x87etR",
        "with arguments",
    ),
    "pairs with a number": (b"ccollections\nOrderedDict\n(](K\1N\x86etR", "with arguments"),
    "a storage of the GPU that is called": (
        b"ctorch.cuda\nHalfStorage\n)R",
        "calls torch.cuda",
    ),
    "a storage of complex numbers that lies": (
        storage(cls="torch\nComplexFloatStorage", length=6),
        "its storage needs 48",
    ),
    "arguments that lack": (b"ctorch._utils\n_rebuild_tensor_v2\n(tR", "with arguments"),
    "a parameter of text": (
        b"ctorch._utils\n_rebuild_parameter\n(" + text("x") + b"\x89NtR",
        "with",
    ),
    "a size of text": (b"ctorch\nSize\n(" + text("x") + b"tR", "torch.Size"),
    "a name of a tensor that rings": (mapping(**{"a\x07": tensor()}), "unprintable"),
    "a name of a tensor of 2 KB": (mapping(**{"a" * 2000: tensor()}), "longer than"),
    "no name": (mapping(**{"": tensor()}), "empty"),
    "a number as name": (b"}(" + number(1) + tensor() + b"u", "`1`, which is not text"),
}
"""A pickle, and what the message says."""


@pytest.mark.parametrize("row", PICKLES.values(), ids=PICKLES)
def test_a_hostile_pickle_is_refused(row):
    value, message = row

    with pytest.raises(IngotError) as caught:
        read(checkpoint(value))

    assert caught.value.exit_code == 3
    assert message in str(caught.value)
    assert str(caught.value).startswith("`x.bin`: ")


LIST = b"]q\0" + b"".join(b"(" + b"h\0" * 10 + b"tq\0" for _ in range(60))
BOMBS = {
    "a billion laughs": LIST,
    "as hooks": tensor(hooks=LIST),
    "many lists": b"](" + b"]" * 900_000 + b"e" + b"](" * 1,
    "lists of lists": b"]" + b"]a" * 2_000_000,
    "dictionaries": b"]" + b"}a" * 2_000_000,
    "a deep tuple": b"N" + b"\x85" * 4_000_000,
    "the same text": b"]" + (b"X\0\0\x01\0" + b"x" * 65536 + b"a") * 900,
    "ordered dictionaries": b"]ccollections\nOrderedDict\nq\0a" + b"h\0)Ra" * 900_000,
    "the stack": b"N" * 3_000_000,
    "the memo": b"N" + b"".join(b"r" + struct.pack("<I", n) for n in range(800_000)),
}


@pytest.mark.parametrize("value", BOMBS.values(), ids=BOMBS)
def test_a_bomb_takes_neither_memory_nor_time(value):
    limit = 700 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(IngotError) as caught:
        read(checkpoint(value))

    assert caught.value.exit_code in {3, 4}
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < limit


def test_a_container_that_many_hold_is_searched_once():
    shared = b"]q\1" + b"]a" * 20_000
    values = b"".join(text(f"k{n}") + b"h\1" for n in range(20_000))
    value = b"}(" + text("a") + shared + values + text("w") + tensor() + b"u"

    assert list(read(checkpoint(value)).places) == ["w"]


def test_nothing_of_ours_imports_pickle():
    assert not hasattr(reader, "pickle")
    assert PROTO == b"\x80\x02"
