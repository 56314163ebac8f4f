"""What is wrong with a source, with what belongs to it, or with what is asked of it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from tests.cli.codes.judge import judged
from tests.importer.builders import MODELS, model, safetensors, write
from tests.importer.formats.gguf.builders import gguf
from tests.importer.formats.imatrix.builders import dat, ended, entry
from tests.importer.formats.pytorch import builders as pytorch
from tests.importer.sources.containers import test_gguf, test_gguf_apart, test_onnx
from tests.importer.sources.schemes import test_uqff_hostile as uqff

LLAMA = MODELS / "tiny-llama"
ROWS = "model.layers.0.mlp.down_proj.weight"
"""A matrix of tiny-llama."""


def _split(at):
    return "create", "x", write(at.here / "s", test_gguf.split(**{"split.count": 4}))


def _blocks(at):
    data = gguf([("w.weight", "Q5_K", (2, 256))], [test_gguf.ARCHITECTURE], order=">")
    return "create", "x", write(at.here / "s", {"x.gguf": data}), "--unpack"


def _contradiction(at):
    case = min(test_gguf_apart.HOSTILE)
    path = test_gguf_apart.write(at.here / "x.gguf", *test_gguf_apart.HOSTILE[case])
    return "create", "x", path, "--unpack"


def _large_head(at):
    tensors = {"blk.0.attn_q.weight": np.zeros((1 << 13, 1 << 12), np.float16)}
    keys = {"attention.head_count": 1}
    path = test_gguf_apart.write(at.here / "x.gguf", "llama", keys, tensors)
    return "create", "x", path, "-q", "int4"


def _factor_of_a_part(at):
    matrices = {"blk.0.ffn_gate": (4, 64), "blk.0.ffn_up": (4, 64)}
    path = at.here / "x.gguf"
    test_gguf_apart.nvfp4(path, "granitemoe", matrices, {"blk.0.ffn_up": [0.3]})
    return "create", "x", path, "--unpack"


def _column_without_a_block(at):
    onnx = test_onnx
    groups = onnx.tensor("g", 6, (64,), onnx.field(5, onnx.packed(*[0] * 63, 2)))
    data = onnx.n_bits(onnx.tensor("z", 1, (16,), onnx.raw(64)), groups)
    return "create", "x", write(at.here / "s", {"x.onnx": data}) / "x.onnx", "-q", "bf16"


def _strides(at):
    side = 2048
    storage = pytorch.storage(length=side * side)
    value = pytorch.mapping(
        w=pytorch.tensor(storage, shape=(side, 2, side // 2), strides=(1, 2048, 2))
    )
    entries = ("x/data.pkl", pytorch.pickled(value)), ("x/data/0", bytes(side * side * 4))
    data = pytorch.archive(*(pytorch.entry(*one) for one in entries))
    return "create", "x", write(at.here / "s", {"pytorch_model.bin": data})


def _other_algorithm(at):
    declared = {"quant_method": "modelopt", "quant_algo": "NEW4"}
    tensors = {"a.weight": ("U8", (4, 64)), "a.weight_scale": ("F32", ())}
    config = {"model_type": "llama", "quantization_config": declared}
    return "create", "x", model(at.here / "s", tensors, config), "-q", "int4"


def _two_parsers(at):
    opened = SimpleNamespace(keys=lambda: ["a.weight", "b.weight"])
    at.patch("safetensors.safe_open", lambda *_, **__: contextlib.nullcontext(opened))
    return "create", "x", model(at.here / "s")


def _shard(at):
    layer = uqff.uqff.version() | uqff.uqff.entries("plain")
    return "create", "x", write(at.here / "s", {"model.safetensors": safetensors(layer)})


def _misaligned(at):
    source = model(at.here / "s", {"a.weight": ("BF16", (64, 100))})
    return "create", "x", source, "-q", "int4", "--on-misaligned", "error"


def _role_behind_a_rule(_):
    return "create", "x", LLAMA, "--rule", "lm_head*=int8", "--lm-head", "int4"


def _draft_of_a_pipeline(at):
    at.run("create", "draft", LLAMA)
    lines = f"FROM {MODELS / 'tiny-pipeline'}\nDRAFT {LLAMA}\n"
    return "create", "x", "-f", write(at.here, {"Modelfile": lines}) / "Modelfile"


def _matrix(at, name, numbers):
    data = dat(entry(name, 2, np.array(numbers, np.float32)), end=ended())
    return (
        "create",
        "x",
        LLAMA,
        "-q",
        "int4",
        "--imatrix",
        write(at.here, {"m.dat": data}) / "m.dat",
    )


def _matrix_of_a_recipe(at):
    lines = f'imatrix = "sha256:{"0" * 64}"\n[[rule]]\nmatch = "*"\ntype = "int4"\n'
    return "create", "x", LLAMA, "--recipe", write(at.here, {"r.toml": lines}) / "r.toml"


def _values_nobody_knows(at):
    at.run("create", "packed", model(at.here / "s", {"a": ("F4", (4, 64))}))
    return "show", "packed", "--tensor", "a"


SCENES = {
    "E_GGUF_SPLIT": _split,
    "E_ONLY_WHOLE": _blocks,
    "E_GGUF_MODEL": _contradiction,
    "E_GGUF_LAYOUT": _large_head,
    "E_GGUF_SCALE": _factor_of_a_part,
    "E_ONNX_GROUPS": _column_without_a_block,
    "E_PT_STRIDES": _strides,
    "E_PREQUANTIZED": _other_algorithm,
    "E_ST_REFERENCE": _two_parsers,
    "E_UQFF_SHARD": _shard,
    "E_MISALIGNED": _misaligned,
    "E_ROLE_UNUSED": _role_behind_a_rule,
    "E_ATTACHMENT": _draft_of_a_pipeline,
    "E_IMATRIX": lambda at: _matrix(at, "blk.0.ffn_down.weight", [float("nan")] * 96),
    "E_IMATRIX_SHAPE": lambda at: _matrix(at, "blk.0.ffn_down.weight", [1.0] * 7),
    "E_IMATRIX_UNUSED": lambda at: _matrix(at, "blk.7.ffn_down.weight", [1.0] * 7),
    "E_IMATRIX_GONE": _matrix_of_a_recipe,
    "E_DTYPE": _values_nobody_knows,
}
"""Code -> the command that it ends, after what was made to be wrong."""


@pytest.mark.parametrize("code", SCENES)
def test_a_source_or_what_is_asked_of_it(code, scene):
    words = SCENES[code](scene)

    judged(code, *words, store=scene.store)
