"""DequantizeLinear of every type of codes, axis and block, as onnx's own evaluator has it."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from importer.sources.inventory import read_inventory
from tests.importer.formats.onnx.values import values

RANGES = {
    TensorProto.INT2: (-2, 2),
    TensorProto.UINT2: (0, 4),
    TensorProto.INT4: (-8, 8),
    TensorProto.UINT4: (0, 16),
    TensorProto.INT8: (-128, 128),
    TensorProto.UINT8: (0, 256),
    TensorProto.INT16: (-3000, 3000),
    TensorProto.UINT16: (0, 6000),
    TensorProto.INT32: (-9999, 9999),
    TensorProto.FLOAT8E4M3FN: (-5, 5),
    TensorProto.FLOAT8E5M2: (-5, 5),
    TensorProto.FLOAT4E2M1: (-4, 5),
}
AXES = {
    "one scale": ((6, 64), None, 0),
    "rows": ((6, 64), 0, 0),
    "columns": ((6, 64), -1, 0),
    "odd columns": ((4, 7), 0, 0),
    "blocks of columns": ((6, 64), 1, 16),
    "blocks of odd columns": ((4, 7), 1, 7),
    "blocks of rows": ((6, 64), 0, 3),
    "blocks of a stack": ((2, 4, 32), 1, 2),
    "a vector": ((8,), 0, 0),
}
ALWAYS_ZERO = frozenset(
    {
        TensorProto.INT32,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E5M2,
        TensorProto.FLOAT4E2M1,
    }
)
HALVES = frozenset({TensorProto.FLOAT4E2M1})
"""Codes that two share a byte; as many zero points have to fill bytes, too."""


@pytest.mark.parametrize("case", AXES.values(), ids=AXES)
@pytest.mark.parametrize("kind", RANGES, ids=TensorProto.DataType.Name)
def test_values_are_those_of_onnx(tmp_path, kind, case):
    for scale, has_zero in itertools.product((np.float32, np.float16), (False, True)):
        model = made(kind, case, scale, has_zero=has_zero)
        if model is None:
            continue
        expected = ReferenceEvaluator(model).run(None, {})[0]
        onnx.save(model, tmp_path / "model.onnx")

        (found,) = (
            one for one in read_inventory(tmp_path / "model.onnx").tensors if not one.is_plain
        )
        for size in (64, 1 << 20):
            dtype = {"F32": "<f4", "F16": "<f2"}[found.dtype]
            ours = np.frombuffer(values(found, size), dtype).reshape(found.shape)
            assert ours.dtype == expected.dtype
            assert np.array_equal(ours, expected)


@pytest.mark.parametrize("scale", [np.float32, np.float16])
@pytest.mark.parametrize("output", [np.float32, np.float16])
def test_values_have_the_dtype_that_the_node_names(tmp_path, scale, output):
    model = made(TensorProto.INT8, AXES["rows"], scale, has_zero=True, output=output)
    expected = ReferenceEvaluator(model).run(None, {})[0]
    onnx.save(model, tmp_path / "model.onnx")

    (found,) = read_inventory(tmp_path / "model.onnx").tensors
    ours = np.frombuffer(values(found, 64), output).reshape(found.shape)

    assert found.dtype == {np.float32: "F32", np.float16: "F16"}[output]
    assert expected.dtype == output
    assert np.array_equal(ours, expected)


def made(kind, case, scale, *, has_zero, output=None):
    """A model of one weight, or None where its zero points would not fill bytes."""
    shape, axis, block = case
    dtype, (low, high) = helper.tensor_dtype_to_np_dtype(kind), RANGES[kind]
    rng = np.random.default_rng(0)
    sides = _scales(shape, axis, block)
    if has_zero and kind in HALVES and np.prod(sides, dtype=int) % 2:
        return None
    arrays = {
        "w": rng.integers(low, high, shape).astype(dtype),
        "s": np.asarray(rng.random(sides) + 0.1, scale),
    }
    if has_zero:
        codes = np.zeros(sides) if kind in ALWAYS_ZERO else rng.integers(low, high, sides)
        arrays["z"] = np.asarray(codes).astype(dtype)
    placed = {} if axis is None else {"axis": axis}
    placed |= {"block_size": block} if block else {}
    out = TensorProto.FLOAT if (output or scale) is np.float32 else TensorProto.FLOAT16
    placed |= {"output_dtype": out} if output else {}
    node = helper.make_node("DequantizeLinear", list(arrays), ["y"], **placed)
    graph = helper.make_graph(
        [node],
        "g",
        [],
        [helper.make_tensor_value_info("y", out, list(shape))],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    version = helper.make_opsetid("", 25)
    return helper.make_model(graph, opset_imports=[version], ir_version=13)


def _scales(shape, axis, block):
    if axis is None:
        return ()
    axis %= len(shape)
    if not block:
        return (shape[axis],)
    return tuple(-(-n // block) if at == axis else n for at, n in enumerate(shape))
