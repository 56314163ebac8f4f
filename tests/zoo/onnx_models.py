"""Write ONNX files with the programs that people write them with: torch, onnxruntime, onnx."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

ROWS, WIDTH, HIDDEN = 16, 32, 48
EXTERNAL_ABOVE = 512
_BITS = {"FLOAT4E2M1": 4, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}
"""Bits of floats that ingot stores as they are packed: they have to fill whole bytes."""


class _Layers(torch.nn.Module):
    """An embedding, a convolution, two linear layers and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(ROWS, WIDTH)
        self.conv = torch.nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.up = torch.nn.Linear(WIDTH, HIDDEN)
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)
        self.norm = torch.nn.LayerNorm(WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found = self.embed(tokens)
        found = self.conv(found.transpose(1, 2)).transpose(1, 2)
        return self.norm(found + self.down(torch.relu(self.up(found))))


class _Tokens(CalibrationDataReader):
    def __init__(self) -> None:
        self._left = 3

    def get_next(self):
        self._left -= 1
        if self._left < 0:
            return None
        return {"tokens": np.random.default_rng(self._left).integers(0, ROWS, (1, 8))}


def make(directory: Path) -> list[Path]:
    """Write all models into a directory, and return their paths."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    directory.mkdir(parents=True, exist_ok=True)
    base = _export(directory)
    _quantize(base, directory)
    _quantize_blocks(base, directory)
    types(directory / "types-raw.onnx", raw=True)
    types(directory / "types-typed.onnx", raw=False)
    _graphs(directory / "graphs.onnx")
    _external(base, directory)
    return sorted(directory.glob("*.onnx"))


def _export(directory: Path) -> Path:
    torch.manual_seed(0)
    layers, tokens = _Layers().eval(), torch.randint(0, ROWS, (1, 8))
    names = {"input_names": ["tokens"], "output_names": ["found"]}
    base = directory / "torch-script.onnx"
    torch.onnx.export(layers, (tokens,), base, dynamo=False, opset_version=17, **names)
    torch.onnx.export(layers, (tokens,), directory / "torch-dynamo.onnx", dynamo=True, **names)
    half = directory / "torch-half.onnx"
    torch.onnx.export(layers.half(), (tokens,), half, dynamo=False, opset_version=17, **names)
    return base


def _quantize(base: Path, directory: Path) -> None:
    for kind in ("QInt8", "QUInt8"):
        for rows in (False, True):
            path = directory / f"dynamic-{kind}{'-channels' * rows}.onnx"
            quantize_dynamic(base, path, weight_type=QuantType[kind], per_channel=rows)
    for style in QuantFormat:
        more = ("QInt16", "QInt4", "QUInt4") if style is QuantFormat.QDQ else ()
        for kind in ("QInt8", "QUInt8", *more):
            for rows in (False, True):
                activations = "QUInt16" if kind == "QInt16" else "QUInt8"
                quantize_static(
                    base,
                    directory / f"static-{style.name}-{kind}{'-channels' * rows}.onnx",
                    _Tokens(),
                    quant_format=style,
                    per_channel=rows,
                    weight_type=QuantType[kind],
                    activation_type=QuantType[activations],
                )


def _quantize_blocks(base: Path, directory: Path) -> None:
    # The quantizer writes QDQ in 4 bits alone.
    forms = [(bits, QuantFormat.QOperator) for bits in (2, 4, 8)] + [(4, QuantFormat.QDQ)]
    for bits, style in forms:
        for block in (16, 32):
            for is_symmetric in (True, False):
                ops = ("MatMul", "Gather") if style is QuantFormat.QOperator else ("MatMul",)
                quantizer = MatMulNBitsQuantizer(
                    onnx.load(base),
                    bits=bits,
                    block_size=block,
                    is_symmetric=is_symmetric,
                    quant_format=style,
                    op_types_to_quantize=ops,
                )
                quantizer.process()
                name = f"nbits-{bits}-{block}-{'' if is_symmetric else 'a'}symmetric"
                path = directory / f"{name}-{style.name}.onnx"
                quantizer.model.save_model_to_file(str(path), block == 32)


def types(path: Path, *, raw: bool) -> None:
    """Write a tensor of every type of elements, as raw bytes or in typed fields."""
    rng = np.random.default_rng(0)
    tensors = []
    for name, kind in TensorProto.DataType.items():
        if name in {"UNDEFINED", "STRING", "COMPLEX128"} or (not raw and "FLOAT6" in name):
            continue
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        for shape in ((3, 5), (4, 8), (), (0, 3)):
            is_whole = int(np.prod(shape)) * _BITS.get(name, 8) % 8 == 0
            if not is_whole:
                continue
            if name.startswith(("FLOAT8", "BFLOAT", "FLOAT4", "FLOAT6")) or dtype.kind in "fc":
                values = np.asarray(rng.standard_normal(shape) * 3).astype(dtype)
            else:
                span = {"UINT2": (0, 4), "INT2": (-2, 2), "UINT4": (0, 16), "INT4": (-8, 8)}
                low, high = span.get(
                    name, (-100 * (dtype.kind == "i"), 200 - 80 * (name == "INT8"))
                )
                values = np.asarray(rng.integers(low, high, shape)).astype(dtype)
            label = f"{name}-{'x'.join(map(str, shape))}"
            if raw:
                tensors.append(numpy_helper.from_array(values, label))
            else:
                flat = values.ravel()
                if dtype.kind not in "fc" and dtype.itemsize == 1 and "FLOAT" in name:
                    flat = flat.astype(np.float32)
                tensors.append(helper.make_tensor(label, kind, shape, flat.tolist()))
    onnx.save(_model(helper.make_graph([], "types", [], [], tensors)), path)


def _graphs(path: Path) -> None:
    """Write constants of all kinds, branches with tensors, and a function."""
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    inner = [
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(weight + 1)),
        helper.make_node("Identity", ["k"], ["then"]),
    ]
    output = helper.make_tensor_value_info("then", TensorProto.FLOAT, (2, 3))
    other = helper.make_tensor_value_info("else", TensorProto.FLOAT, (2, 3))
    branches = {
        "then_branch": helper.make_graph(inner, "a", [], [output]),
        "else_branch": helper.make_graph(
            [helper.make_node("Identity", ["w"], ["else"])],
            "b",
            [],
            [other],
            [numpy_helper.from_array(weight + 2, "w")],
        ),
    }
    nodes = [
        helper.make_node("Constant", [], ["c.float"], value_float=1.5),
        helper.make_node("Constant", [], ["c.floats"], value_floats=[1.5, -2.5, 0.0]),
        helper.make_node("Constant", [], ["c.int"], value_int=-7),
        helper.make_node("Constant", [], ["c.ints"], value_ints=[1, -1, 1 << 40, 300]),
        helper.make_node("Constant", [], ["c.text"], value_string="text"),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, ())
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))
    tensors = [
        numpy_helper.from_array(weight, "top"),
        numpy_helper.from_array(np.array(["a", "b"], object), "labels"),
    ]
    onnx.save(_model(helper.make_graph(nodes, "g", [condition], [result], tensors)), path)


def _external(base: Path, directory: Path) -> None:
    for all_in_one in (True, False):
        name = f"external-{'one' if all_in_one else 'many'}"
        onnx.save_model(
            onnx.load(base),
            directory / f"{name}.onnx",
            save_as_external_data=True,
            all_tensors_to_one_file=all_in_one,
            location=f"{name}.onnx_data" if all_in_one else None,
            size_threshold=EXTERNAL_ABOVE,
        )


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


if __name__ == "__main__":
    assert ml_dtypes
    print(*make(Path(sys.argv[1])), sep="\n")
