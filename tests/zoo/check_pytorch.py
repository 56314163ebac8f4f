"""Compare every tensor of files that `torch.save` writes with what `torch.load` reads.

    python tests/zoo/check_pytorch.py

Views, strides, shared storages, all dtypes, nesting, parameters and options of the writer, each
as an archive and in the older format. Files that are no weights must be refused.
"""

from __future__ import annotations

import collections
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from importer.sources.inventory import read_inventory
from store.errors import IngotError
from tests.importer.formats.onnx.values import values
from tests.zoo.judged import JudgedRow, million, note, versions

DTYPES = {
    "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "U16": torch.uint16, "U32": torch.uint32, "U64": torch.uint64,
    "BOOL": torch.bool, "C64": torch.complex64, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2, "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz, "F8_E8M0": torch.float8_e8m0fnu,
}  # fmt: skip
WIDTH = 24
PIECE = 1 << 10


def bits(dtype, *shape):
    """A tensor of random bits; booleans are 0 or 1."""
    width = torch.empty((), dtype=dtype).element_size()
    top = 2 if dtype is torch.bool else 256
    data = torch.randint(0, top, (*shape[:-1], shape[-1] * width), dtype=torch.uint8)
    return data.view(dtype)


def _views():
    base = bits(torch.float32, 6, 10, WIDTH)
    wide = bits(torch.bfloat16, 16, WIDTH)
    return {
        "whole": base,
        "turned": base.permute(2, 0, 1),
        "part": base[1:5, 2:9:3, 4:],
        "every third": wide[::3],
        "columns": wide[:, 5:17],
        "diagonal": wide[:16, :16].diagonal(),
        "expanded": wide[:1].expand(8, WIDTH),
        "one": wide[3, 4],
        "windows": wide[0].unfold(0, 6, 2),
        "empty": wide[:0],
        "bits": bits(torch.int16, 4, WIDTH).view(torch.float16),
        "channels last": bits(torch.float32, 2, 3, 4, 8).to(memory_format=torch.channels_last),
        "no rows": torch.zeros(0, WIDTH),
        "no columns": torch.zeros(WIDTH, 0, dtype=torch.float16),
        "scalar": torch.tensor(3.5),
    }


def _parameters():
    module = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 8), torch.nn.BatchNorm1d(8), torch.nn.Embedding(5, 8)
    )
    module[0].weight.requires_grad_(False)
    return module.state_dict(keep_vars=True)


def _with_state():
    parameter = torch.nn.Parameter(bits(torch.bfloat16, 4, WIDTH))
    parameter.tensor_model_parallel = True
    parameter.partition_dim = 0
    return {"weight": parameter}


def _tied():
    table = bits(torch.float16, 32, WIDTH)
    return {"embed.weight": table, "lm_head.weight": table, "half": table[:16]}


PLAIN = {
    "dtypes": lambda: {name: bits(dtype, 3, WIDTH) for name, dtype in DTYPES.items()},
    "views": _views,
    "parameters": _parameters,
    "parameters-with-state": _with_state,
    "tied": _tied,
    "ordered": lambda: collections.OrderedDict(_tied()),
    "thousand": lambda: {f"layers.{n}.weight": bits(torch.int8, n % 7) for n in range(1000)},
    "names": lambda: {
        "ü.weight": torch.ones(2),
        "a/b c": torch.ones(3),
        "x" * 500: torch.ones(4),
    },
    "sixteen-dimensions": lambda: {"w": bits(torch.uint8, *[1, 2] * 7, 1, 3)},
}
NESTED = {
    key: lambda key=key: {key: _tied(), "epoch": 3, "loss": 0.5, "arguments": {"lr": 1e-3}}
    for key in ("state_dict", "model", "module")
}
REFUSED = {
    "conjugate": lambda: {"w": torch.ones(3, dtype=torch.complex64).conj()},
    "negative": lambda: {"w": torch.ones(3, dtype=torch.complex64).conj().imag},
    "complex128": lambda: {"w": torch.ones(3, dtype=torch.complex128)},
    "sparse": lambda: {"w": torch.eye(3).to_sparse()},
    "csr": lambda: {"w": torch.eye(3).to_sparse_csr()},
    "quantized": lambda: {"w": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)},
    "meta": lambda: {"w": torch.ones(3, device="meta")},
    "whole-module": lambda: torch.nn.Linear(2, 2),
    "tensor": lambda: torch.ones(3),
    "list": lambda: [torch.ones(3)],
    "numpy": lambda: {"w": torch.ones(3), "loss": np.float64(0.5)},
    "array": lambda: {"w": np.ones(3)},
    "set": lambda: {"w": torch.ones(3), "seen": {1, 2}},
    "defaultdict": lambda: collections.defaultdict(int, w=torch.ones(3)),
    "device": lambda: {"w": torch.ones(3), "function": torch.load},
}
WAYS = {
    "zip": {},
    "legacy": {"_use_new_zipfile_serialization": False},
    "protocol-3": {"pickle_protocol": 3},
    "legacy-protocol-3": {"pickle_protocol": 3, "_use_new_zipfile_serialization": False},
    "protocol-4": {"pickle_protocol": 4},
}
"""What `torch.save` is given; a protocol that nobody asked for is 2, and torch's safe reader
takes none after 3, either."""


def differences(path):
    """Return how many tensors torch reads of a file, and which differ.

    Of tensors that are the same view of one storage the first stands for all.
    """
    # All of them are ours; its safe reader takes no older file with the newest dtypes.
    loaded = torch.load(path, weights_only=False)
    for key in NESTED:
        inner = loaded.get(key) if isinstance(loaded, dict) else None
        loaded = inner if isinstance(inner, dict) else loaded
    found = {one.name: one for one in read_inventory(path).tensors}
    first = {}
    for name, tensor in sorted(loaded.items()):
        at = tensor.data_ptr() or name
        first.setdefault((at, tensor.dtype, tensor.shape, tensor.stride()), name)
    wrong = sorted(found.keys() ^ set(first.values()))
    for name in found.keys() & loaded.keys():
        tensor = loaded[name].detach().contiguous()
        expected = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        one, dtype = found[name], {value: key for key, value in DTYPES.items()}[tensor.dtype]
        is_alike = (one.dtype, one.shape) == (dtype, tuple(tensor.shape))
        if not is_alike or values(one, PIECE) != expected:
            wrong.append(name)
    return len(loaded), wrong


def main():
    """Write, read and compare all files; exit 1 where something differs."""
    torch.manual_seed(0)
    files = tensors = refused = bad = 0
    with tempfile.TemporaryDirectory() as directory:
        for name, make in (PLAIN | NESTED | REFUSED).items():
            for way, options in WAYS.items():
                path = Path(directory) / f"{name}-{way}.bin"
                try:
                    torch.save(make(), path, **options)
                except (NotImplementedError, RuntimeError) as error:
                    print(f"{path.stem:32} torch itself: {str(error)[:60]}")
                    continue
                try:
                    count, wrong = differences(path)
                    said = f"{count:6} {wrong or 'equal'}"
                    bad += bool(wrong) or name in REFUSED
                    tensors += count
                    files += 1
                except IngotError as error:
                    said = f"exit {error.exit_code}: {error}"
                    refused += 1
                    bad += name not in REFUSED and way != "protocol-4"
                except Exception as error:  # noqa: BLE001 - whatever torch says
                    said = f"torch itself: {str(error).splitlines()[0][:60]}"
                print(f"{path.stem:32} {said}", flush=True)
    print(f"{files} files, {tensors} tensors, {refused} more refused, {bad} wrong")
    note(
        JudgedRow(
            "PyTorch",
            "zip, legacy, protocols 2 and 3, nested, views, tied, parameters, all dtypes",
            versions("torch"),
            "`torch.load`",
            f"{files} files, {million(tensors)} tensors; {refused} more refused",
            bad,
        )
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
