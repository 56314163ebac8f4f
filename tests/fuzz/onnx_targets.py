"""Targets for ONNX files, with the onnx package as the witness."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from importer.formats.onnx.model import read_model
from store.errors import IngotError
from store.text import is_printable
from tests.fuzz.rewritten import Rewritten
from tests.importer.formats.onnx.builders import model
from tests.importer.formats.onnx.values import values

_SOURCE = Rewritten("onnx", "model.onnx")
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
    _SOURCE.write(data)
    try:
        arrays = {one.name: one for one in _SOURCE.inventory(as_arrays=True).tensors}
        for one in _SOURCE.inventory().tensors:
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
