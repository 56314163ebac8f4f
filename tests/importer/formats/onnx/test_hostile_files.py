"""Hostile and malformed ONNX files, a row each: refused, and it is said why."""

from __future__ import annotations

import struct

import pytest

from importer.formats.onnx.model import read_model
from store.errors import IngotError
from tests.importer.formats.onnx.builders import (
    FIXED_32,
    FLOAT,
    GOOD,
    INT4,
    INT8,
    INT32,
    INT64,
    LENGTH,
    TEXT,
    attribute,
    constant,
    external,
    field,
    graph,
    inside,
    model,
    node,
    packed,
    tag,
    tensor,
    varint,
)


def read(data):
    return read_model("`x.onnx`", len(data), lambda start, end: data[start:end])


def nested(depth):
    made = graph(tensor())
    for _ in range(depth):
        made = graph(nodes=[node("If", ("c",), ("o",), [attribute("g", field(6, made))])])
    return field(1, 8) + field(7, made)


def types(depth):
    made = b""
    for _ in range(depth):
        made = field(9, field(1, made))
    return field(13, field(2, made))


def typed(number, data, kind=FLOAT, dims=(2, 3)):
    return model(tensor(kind=kind, dims=dims, data=field(number, data)))


NO = b""
GRAPH_ENDS = len(GOOD) - len(field(8, field(2, 17)))
SHORT = b"\xff" * 9 + b"\x02"
SPARSE = field(1, tensor("s", dims=(2,), data=field(9, bytes(8)))) + field(3, 4)
WIRE = {
    "nothing": (b"", 3, "an empty file"),
    "no graph": (field(1, 8) + field(2, "x"), 3, "no graph"),
    "two graphs": (GOOD + field(7, graph()), 3, "two fields `graph`"),
    "a number that does not end": (b"\x08\x80", 3, "in the middle of a number"),
    "a number of 65 bits": (b"\x08" + SHORT, 3, "more than 64 bits"),
    "a number of 11 bytes": (b"\x08" + b"\x80" * 10 + b"\x01", 3, "more than 64 bits"),
    "a tag of 64 bits": (SHORT[:4] + b"\xff\xff\x7f\x00", 3, "at byte 0"),
    "field 0": (b"\x00\x00" + GOOD, 3, "numbered 0"),
    "a group": (tag(99, 3) + tag(99, 4) + GOOD, 3, "wire type 3"),
    "the end of a group": (tag(99, 4) + GOOD, 3, "wire type 4"),
    "wire type 6": (tag(99, 6) + GOOD, 3, "wire type 6"),
    "wire type 7": (tag(7, 7) + GOOD, 3, "wire type 7"),
    "a length beyond the file": (tag(7, LENGTH) + varint(1 << 40), 3, "are left"),
    "a length of 2^64": (tag(7, LENGTH) + varint(-1), 3, "are left"),
    "a length beyond its message": (
        field(1, 8) + field(7, tag(5, LENGTH) + varint(9) + b"x") + bytes(20),
        3,
        "are left",
    ),
    "cut in the graph": (GOOD[:-30], 3, "are left"),
    "cut in a fixed number": (GOOD + tag(99, FIXED_32) + b"xx", 3, "are left"),
    "a graph that is a number": (field(1, 8) + field(7, 5), 3, "`graph`"),
    "an initializer that is a number": (model(more=field(5, 7)), 3, "`initializer`"),
    "a name that is a number": (model(tensor(name="", more=field(8, 5))), 3, "`name`"),
    "raw data that is a float": (model(tensor(data=field(9, 1.0))), 3, "`raw_data`"),
    "dims as floats": (model(tensor(dims=(), more=tag(1, FIXED_32) + bytes(4))), 3, "`dims`"),
    "graphs in each other": (nested(31), 3, "messages in each other"),
    "types in each other": (model(more=types(50)), 3, "messages in each other"),
    "a broken type": (model(more=field(13, field(2, b"\x0a\x05"))), 3, "are left"),
    "a broken attribute": (
        model(tensor(), nodes=[node("Relu", ("a",), ("b",), [b"\x0a\x7f"])]),
        3,
        "are left",
    ),
    "broken packed numbers": (
        model(tensor(), nodes=[node("R", (), ("b",), [attribute("a", field(8, b"\x80"))])]),
        3,
        "do not end",
    ),
    "packed floats of 6 bytes": (
        model(tensor(), nodes=[node("R", (), ("b",), [attribute("a", field(7, bytes(6)))])]),
        3,
        "6 bytes",
    ),
    "broken external data that nothing is read of": (
        model(tensor(more=field(13, b"\xff" * 7 + b"\0"))),
        3,
        "a field numbered",
    ),
    "broken training": (GOOD + field(20, field(1, b"\x0a")), 3, "in the middle"),
    "a broken function": (GOOD + field(25, field(7, b"\x0a")), 3, "in the middle"),
}
TENSORS = {
    "no name": (model(tensor(name="")), 3, "empty or unprintable"),
    "a name with an escape": (model(tensor(name="\x1b[2J")), 3, "unprintable"),
    "a name that is not UTF-8": (model(tensor(name=b"\xff")), 3, "not UTF-8"),
    "a name of 2000 letters": (model(tensor(name="n" * 2000)), 3, "longer than"),
    "a name of 70 000 letters": (model(tensor(name="n" * 70000)), 3, "limit"),
    "two names": (model(tensor(more=field(8, "v"))), 3, "two fields `name`"),
    "two tensors of a name": (model(tensor(), tensor()), 3, "two tensors `w`"),
    "a constant of that name": (
        model(tensor(), nodes=[constant("w", value=tensor())]),
        3,
        "two tensors `w`",
    ),
    "type 0": (model(tensor(kind=0)), 3, "type 0"),
    "type -1": (model(tensor(kind=-1)), 3, "type -1"),
    "type 2^40": (model(tensor(kind=1 << 40)), 3, "32 bits"),
    "type 29": (model(tensor(kind=29)), 4, "type 29"),
    "complex of 128 bits": (model(tensor(kind=15)), 4, "COMPLEX128"),
    "a segment": (model(tensor(more=field(3, field(1, 0)))), 4, "a segment"),
    "a negative dimension": (model(tensor(dims=(-2, 3))), 3, "negative"),
    "too many dimensions": (model(tensor(dims=(1,) * 17)), 3, "more than 16"),
    "dimensions that overflow": (model(tensor(dims=(1 << 31, 1 << 33))), 3, "too many"),
    "a dimension of 2^63": (model(tensor(dims=((1 << 63) - 1,))), 3, "too many"),
    "dimensions that are 0 after all": (
        model(tensor(dims=(1 << 62, 1 << 62, 0), data=NO)),
        3,
        "too many",
    ),
    "too little data": (model(tensor(data=field(9, bytes(23)))), 3, "its raw data has 23"),
    "too much data": (model(tensor(data=field(9, bytes(25)))), 3, "its raw data has 25"),
    "no data": (model(tensor(data=NO)), 3, "no data"),
    "data of 4 bits, too long": (
        model(tensor(kind=INT4, dims=(3,), data=field(9, bytes(3)))),
        3,
        "needs 2 bytes",
    ),
    "text as raw data": (model(tensor(kind=TEXT, dims=(2,))), 3, "raw data"),
    "text as integers": (
        model(tensor(kind=TEXT, dims=(2,), data=field(7, SHORT))),
        3,
        "in `int64_data`, expected `string_data`",
    ),
    "data twice": (model(tensor(more=field(4, bytes(24)))), 3, "several places"),
    "raw data twice": (model(tensor(more=field(9, bytes(24)))), 3, "two fields `raw_data`"),
    "data in another field": (typed(5, packed(*range(6))), 3, "expected `float_data`"),
    "too few floats": (typed(4, bytes(20)), 3, "has 5 numbers"),
    "floats of 23 bytes": (typed(4, bytes(23)), 3, "23 bytes"),
    "too many integers": (typed(5, packed(*range(7)), INT32), 3, "has 7 numbers"),
    "too few integers": (typed(7, packed(*range(5)), INT64), 3, "has 5 numbers"),
    "integers that do not end": (typed(5, packed(1, 2, 3, 4, 5) + b"\x80", INT8), 3, "end"),
    "an integer of 65 bits": (typed(5, packed(*range(5)) + SHORT, INT8), 3, "too long"),
    "packed bytes of 4 bits, too many": (typed(5, packed(*range(6)), INT4), 3, "6 numbers"),
    "floats in two pieces": (
        model(tensor(data=field(4, bytes(12)) + field(4, bytes(12)))),
        4,
        "several pieces",
    ),
    "floats of 6 bits in integers": (typed(5, packed(*range(6)), 27), 4, "raw data only"),
    "a sparse initializer": (model(more=field(15, SPARSE)), 4, "`s` is sparse"),
    "a sparse constant": (model(nodes=[constant("k", sparse_value=SPARSE)]), 4, "is sparse"),
    "two tensors of a name in a branch": (
        model(nodes=[inside("o", tensor(), tensor())]),
        3,
        "two tensors `o.then_branch.w`",
    ),
    "a place of another kind": (model(tensor(data=field(14, 2))), 3, "place of kind 2"),
    "external data and raw data": (
        model(tensor(more=external(location="x"))),
        3,
        "several places: external data, raw_data",
    ),
    "no location": (model(tensor(data=external(offset="0"))), 3, "no location"),
    "an empty location": (model(tensor(data=external(location=""))), 3, "no location"),
    "two locations": (
        model(tensor(data=external(location="x") + field(13, field(1, "location")))),
        3,
        "two entries `location`",
    ),
    "a negative offset": (
        model(tensor(data=external(location="x", offset="-1"))),
        3,
        "offset of its external data is `-1`",
    ),
    "an offset in hexadecimal": (
        model(tensor(data=external(location="x", offset="0x10"))),
        3,
        "offset",
    ),
    "an offset of 30 digits": (
        model(tensor(data=external(location="x", offset="9" * 30))),
        3,
        "offset",
    ),
    "an offset in Arabic digits": (
        model(tensor(data=external(location="x", offset="\u0661"))),
        3,
        "offset",
    ),
    "a length with blanks": (
        model(tensor(data=external(location="x", length=" 24"))),
        3,
        "length",
    ),
}
CONTENTS = {
    "a zip archive": (b"PK\3\4" + bytes(40), 3, "a zip archive"),
    "a pickle": (b"\x80\x02}.", 3, "a pickle"),
    "an HTML page": (b"<!DOCTYPE html><html>", 3, "an HTML page"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\n", 3, "Git LFS pointer"),
    "a safetensors file": (struct.pack("<Q", 2) + b"{}", 3, "a safetensors file"),
    "a GGUF file": (b"GGUF" + bytes(40), 3, "a GGUF file"),
}
ROWS = {**WIRE, **TENSORS, **CONTENTS}


@pytest.mark.parametrize("row", ROWS)
def test_it_is_refused(row):
    data, exit_code, message = ROWS[row]

    with pytest.raises(IngotError) as refused:
        read(data)

    assert message in str(refused.value)
    assert refused.value.exit_code == exit_code


@pytest.mark.parametrize("end", range(1, len(GOOD)))
def test_a_file_that_is_cut_is_refused_or_lacks_nothing(end):
    if end == GRAPH_ENDS:
        assert list(read(GOOD[:end]).tensors) == ["w"]
        return
    with pytest.raises(IngotError) as refused:
        read(GOOD[:end])
    assert refused.value.exit_code == 3


def test_nothing_is_read_for_a_length_that_is_not_there():
    asked = []
    data = field(1, 8) + tag(7, LENGTH) + varint(1 << 60)

    def read_range(start, end):
        asked.append(end - start)
        return data[start:end]

    with pytest.raises(IngotError):
        read_model("`x`", len(data), read_range)
    assert max(asked) <= len(data)


def test_what_protobuf_cannot_hold_is_refused():
    with pytest.raises(IngotError, match="protobuf ends at") as refused:
        read_model("`x`", 1 << 31, lambda start, end: GOOD[start:end])
    assert refused.value.exit_code == 3


FLOOD = 1 << 18
FLOODS = {
    "inputs": model(nodes=[field(1, "i") * FLOOD + node("Relu", (), ("y",))]),
    "numbers": model(tensor(data=field(4, 1.0) * FLOOD, dims=(FLOOD,))),
    "dimensions": model(tensor(dims=(1,) * FLOOD)),
    "constants": model(nodes=[constant("k", value_floats=field(7, 1.0) * FLOOD)]),
    "attributes": model(nodes=[node("Relu", (), ("y",), [b""] * FLOOD)]),
}


@pytest.mark.parametrize("row", FLOODS)
def test_what_is_kept_of_one_message_is_bounded(row):
    with pytest.raises(IngotError, match="more than 131072 values"):
        read(FLOODS[row])


def test_long_lists_that_nobody_reads_are_no_matter():
    tree = node("TreeEnsemble", ("x",), ("y",), [attribute("v", field(7, 1.0) * FLOOD)])
    words = tensor("t", TEXT, (FLOOD,), field(6, "a") * FLOOD)

    assert list(read(model(tensor(), words, nodes=[tree])).tensors) == ["w"]


def test_many_fields_are_refused_in_time():
    nothing = bytes((99 << 3 & 0x7F | 0x80, 99 << 3 >> 7, 0))
    data = nothing * 1000

    class Repeated:
        size = len(data) << 19

        def __call__(self, start, end):
            count = end - start
            return (data * (count // len(data) + 2))[start % len(data) :][:count]

    from importer.formats.onnx import wire

    limit = wire._FIELDS
    wire._FIELDS = 10_000
    try:
        with pytest.raises(IngotError, match="more than 10000 fields"):
            read_model("`x`", Repeated.size, Repeated())
    finally:
        wire._FIELDS = limit
