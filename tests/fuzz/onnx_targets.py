"""Targets for ONNX files, with the onnx package as the witness."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from importer.formats.onnx.model import read_model
from importer.sources.inventory import read_inventory
from store.errors import IngotError
from store.text import is_printable
from tests.fuzz.scratch import SCRATCH
from tests.importer.formats.onnx.builders import model
from tests.importer.formats.onnx.values import values

_AS_PACKED = frozenset({"F4", "F6_E2M3", "F6_E3M2"})
_BYTES = {"UINT4": "u1", "INT4": "i1", "UINT2": "u1", "INT2": "i1"}


def onnx(data: bytes) -> None:
    """An ONNX file: what we accept, onnx parses, with the same names, shapes and values."""
    import onnx as reference
    from google.protobuf.message import DecodeError

    try:
        # Most inputs end here, where nothing has to be written.
        read_model("x", len(data), lambda start, end: data[start:end])
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    path = SCRATCH / f"{os.getpid()}.onnx"
    path.write_bytes(data)
    try:
        arrays = {one.name: one for one in read_inventory(path, as_arrays=True).tensors}
        for one in read_inventory(path).tensors:
            assert is_printable(one.name)
            values(one, 1 << 12)
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    try:
        parsed = reference.ModelProto.FromString(data)
    except DecodeError as refused:
        message = "we accept what protobuf refuses"
        raise AssertionError(message) from refused
    for proto in parsed.graph.initializer:
        kind = reference.TensorProto.DataType.Name(proto.data_type)
        if kind == "STRING":
            assert proto.name not in arrays
            continue
        one = arrays[proto.name]
        assert one.shape == tuple(proto.dims)
        if one.dtype in _AS_PACKED:
            continue
        expected = reference.numpy_helper.to_array(proto)
        if kind in _BYTES:
            expected = expected.astype(_BYTES[kind])
        assert values(one, 1 << 12) == np.ascontiguousarray(expected).tobytes()


def onnx_tensor(data: bytes) -> None:
    """One initializer of a file: deeper than `onnx` gets."""
    onnx(model(data))


TARGETS: dict[str, Callable[[bytes], None]] = {"onnx": onnx, "onnx_tensor": onnx_tensor}
