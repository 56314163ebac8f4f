"""Write the small checkpoints of `fixtures/pytorch` with torch itself, and what is in them.

    .venv-zoo/bin/python tests/importer/formats/pytorch/make_fixtures.py

`golden.json` has the dtype, shape and SHA-256 of each tensor's values, contiguous, as torch
has them in memory after loading the file again.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from pathlib import Path

import torch

TARGET = Path(__file__).parents[4] / "fixtures" / "pytorch"
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
    torch.bool: "BOOL",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.float8_e8m0fnu: "F8_E8M0",
    torch.float4_e2m1fn_x2: "F4",
}
NEW_ONLY = ("U16", "U32", "U64", "F4")


def every_dtype(names):
    """One tensor of each dtype, from bytes that are no pattern."""
    generator = torch.Generator().manual_seed(7)
    made = OrderedDict()
    for dtype, name in DTYPES.items():
        if name in names:
            high = 2 if dtype is torch.bool else 256
            size = (3, 5 * dtype.itemsize)
            data = torch.randint(0, high, size, dtype=torch.uint8, generator=generator)
            made[f"of.{name}"] = data.view(dtype)
    made["scalar"] = torch.tensor(2.5)
    made["empty"] = torch.zeros(0, 4)
    return made


def views():
    """Tied tensors, parameters, and views of one storage in every order."""
    base = torch.arange(120, dtype=torch.float32).reshape(2, 3, 4, 5)
    matrix = torch.arange(24, dtype=torch.bfloat16).reshape(4, 6)
    made = OrderedDict(
        {
            "embed.weight": torch.nn.Parameter(matrix),
            "head.weight": torch.nn.Parameter(matrix),
            "transposed": matrix.t(),
            "rows": matrix[1:3],
            "columns": matrix[:, 2:5],
            "steps": matrix[::2, ::3],
            "expanded": matrix[0].expand(3, 6),
            "permuted": base.permute(0, 2, 3, 1),
            "channels_last": base.contiguous(memory_format=torch.channels_last),
            "flat": matrix.reshape(-1)[5:9],
        }
    )
    made._metadata = OrderedDict({"": {"version": 1}})
    return made


def files():
    """What is saved: name -> object, the tensors that are the model's, keywords."""
    old = {"_use_new_zipfile_serialization": False}
    dtypes = every_dtype(DTYPES.values())
    plain = every_dtype(
        [name for name in DTYPES.values() if name not in NEW_ONLY and name[:2] != "F8"]
    )
    small = {"a.weight": torch.arange(6.0).reshape(2, 3), "step": 7, "none": None}
    training = {"state_dict": small, "epoch": 3, "optimizer": {"state": {0: torch.ones(2)}}}
    weights = {"a.weight": small["a.weight"]}
    return {
        "dtypes.bin": (dtypes, dtypes, {}),
        "dtypes-legacy.pt": (plain, plain, old),
        "views.pth": (views(), views(), {}),
        "views-legacy.pth": (views(), views(), old),
        "training.ckpt": (training, weights, {}),
        "module-legacy.pt": ({"module": {"model": small}}, weights, old),
        "shard-1.bin": ({"a": torch.ones(2, 2), "b": torch.ones(3).half()}, None, {}),
        "shard-2.bin": ({"c": torch.zeros(4, dtype=torch.int8)}, None, {}),
    }


def digest(tensor):
    """The SHA-256 of the values in row-major order."""
    plain = tensor.detach().contiguous()
    data = (
        plain.reshape(-1).view(torch.uint8)
        if plain.numel()
        else torch.zeros(0, dtype=torch.uint8)
    )
    return hashlib.sha256(data.numpy().tobytes()).hexdigest()


def described(tensors):
    """Dtype, shape and digest of each tensor, as safetensors would name them."""
    found = {}
    for name, tensor in tensors.items():
        shape = list(tensor.shape)
        if tensor.dtype is torch.float4_e2m1fn_x2:
            shape[-1] *= 2
        found[name] = [DTYPES[tensor.dtype], shape, digest(tensor)]
    return found


def main():
    """Write all files and what is in them."""
    TARGET.mkdir(parents=True, exist_ok=True)
    golden = {}
    for name, (value, tensors, keywords) in files().items():
        torch.save(value, TARGET / name, **keywords)
        loaded = torch.load(TARGET / name, weights_only=True)
        is_whole = tensors is value or tensors is None or "views" in name
        golden[name] = described(loaded if is_whole else tensors)
    text = json.dumps({"torch": torch.__version__, "files": golden}, indent=1)
    (TARGET / "golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
