"""Write the small UQFF models of `fixtures/uqff` with mistral.rs itself.

    .venv-zoo/bin/python -m pip install gguf==0.19.0
    .venv-zoo/bin/python tests/importer/formats/uqff/make_fixtures.py

`qwen2-afq4` and `moe-q4_0` are directories as mistral.rs wrote them. `types` has one layer of
each type: every byte of their entries is mistral.rs's, which wrote each in a model of its own;
this script only puts them into one file. `golden.json` has the SHA-256 of the values of each
layer in float32, as gguf-py and mlx decode them, or as the formulas in `values` do, which
tests/zoo/check_uqff.py holds against what mistral.rs computes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))
from tests.importer.formats.uqff.mistral import quantize
from tests.importer.formats.uqff.tiny_models import Sizes, write_model

TARGET = Path(__file__).parents[4] / "fixtures" / "uqff"
TYPES = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q8_1"),
    *("Q2K", "Q3K", "Q4K", "Q5K", "Q6K", "Q8K"),
    *("AFQ2", "AFQ3", "AFQ4", "AFQ6", "AFQ8"),
    *("HQQ4", "HQQ8", "FP8", "F8Q8", "MXFP4"),
)
LAYER = "model.layers.0.self_attn.k_proj"


def read_file(path):
    """Return the entries of a file, as name -> (dtype, shape, bytes), and its metadata."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    body = data[8 + length :]
    entries = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        entries[name] = (entry["dtype"], entry["shape"], body[begin:end])
    return entries, metadata


def write_file(path, entries, metadata):
    """Write entries in their order."""
    header, body = {"__metadata__": metadata}, b""
    for name, (dtype, shape, data) in entries.items():
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
GGML = {"Q2K": "Q2_K", "Q3K": "Q3_K", "Q4K": "Q4_K", "Q5K": "Q5_K", "Q6K": "Q6_K"}


def e4m3(codes):
    """Decode E4M3 digit by digit."""
    made = []
    for code in codes.tolist():
        sign, exponent, fraction = code >> 7, code >> 3 & 15, code & 7
        value = fraction * 2.0**-9 if exponent == 0 else (8 + fraction) * 2.0 ** (exponent - 10)
        made.append(-value if sign else value)
    return np.array(made, np.float32)


def values(isq, layer, shape):
    """Return the values of a layer in float32, by the library that defines its type."""
    array = {
        name: np.frombuffer(raw, {"F32": "<f4", "U32": "<u4"}.get(dtype, "u1")).reshape(dims)
        for name, (dtype, dims, raw) in layer.items()
    }
    if isq.startswith("AFQ"):
        decoded = afq(array)
    elif isq in OLD_BLOCKS:
        decoded = old_blocks(isq, array[""])
    elif isq.startswith("Q"):
        kind = gguf.GGMLQuantizationType[GGML.get(isq, isq)]
        decoded = gguf.quants.dequantize(array[""].reshape(shape[0], -1), kind)
    elif isq.startswith("HQQ"):
        decoded = hqq(isq, array)
    elif isq == "FP8":
        decoded = e4m3(array[""].reshape(-1)) * array["dequant_w_scale"]
    elif isq == "F8Q8":
        blocks = array[""].reshape(-1, 33)
        scale = e4m3(blocks[:, 0]) / np.float32(416)
        decoded = blocks[:, 1:].view(np.int8) * scale[:, None]
    else:
        decoded = mxfp4(array)
    return decoded.reshape(shape)


def afq(array):
    """AFQ is MLX's affine quantization."""
    parts = (mx.array(array[name]) for name in ("", "scales", "biases"))
    bits, group_size = int(array["bits"]), int(array["group_size"])
    return np.array(mx.dequantize(*parts, group_size=group_size, bits=bits))


OLD_BLOCKS = {"Q8_1": (36, "<f2", 4, 32), "Q8K": (292, "<f4", 4, 256)}
"""What gguf-py does not decode: bytes, scale, where codes begin, and how many there are."""


def old_blocks(isq, data):
    """Codes times the scale; the sums beside them are not multiplied."""
    size, kind, at, count = OLD_BLOCKS[isq]
    blocks = data.reshape(-1, size)
    scale = blocks[:, : np.dtype(kind).itemsize].copy().view(kind).astype("<f4")
    return blocks[:, at : at + count].copy().view(np.int8).astype("<f4") * scale


def hqq(isq, array):
    """Codes less zero points, times scales, of groups across the matrix."""
    packed = array[""]
    codes = packed if isq == "HQQ8" else np.concatenate([packed >> 4, packed & 15])
    return (codes.astype("<f4") - array["zeros"]) * array["scales"]


def mxfp4(array):
    """E2M1 times powers of two."""
    nibbles = np.stack([array[""] & 15, array[""] >> 4], -1).reshape(-1, 32)
    scale = np.ldexp(np.float32(1), array["scales"].reshape(-1, 1).astype(int) - 127)
    return np.where(nibbles & 8, -1, 1) * E2M1[nibbles & 7] * scale


def make_types(work):
    """Write `types`, and return the hashes of its values."""
    source = write_model(work / "wide", "llama", Sizes(256, 32, 1, 32))
    entries, golden = {}, {}
    for number, isq in enumerate(TYPES):
        target = work / isq
        quantize(source, "llama", target, isq)
        written, metadata = read_file(target / f"{isq.lower()}-0.uqff")
        versions = {name: one for name, one in written.items() if name.startswith("uqff.")}
        name = LAYER.replace("0", str(number))
        entries |= versions
        entries |= {
            name + key.removeprefix(LAYER): one
            for key, one in written.items()
            if key.startswith(LAYER)
        }
        layer = {
            key.removeprefix(f"{LAYER}.weight").removeprefix("."): one
            for key, one in written.items()
            if key.startswith(f"{LAYER}.weight")
        }
        decoded = np.ascontiguousarray(values(isq, layer, (8, 256)), "<f4")
        golden[f"{name}.weight"] = [isq, hashlib.sha256(decoded.tobytes()).hexdigest()]
    types = TARGET / "types"
    types.mkdir()
    write_file(types / "mixed-0.uqff", entries, metadata)
    norm = {"model.norm.weight": np.ones(256, np.float32)}
    save_file(norm, types / "residual.safetensors", metadata=metadata)
    shutil.copy(work / "AFQ4" / "config.json", types)
    return golden


def main():
    """Write everything anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        golden = make_types(work)
        source = write_model(work / "qwen2", "qwen2", Sizes(64, 4, 2, 64))
        quantize(source, "qwen2", TARGET / "qwen2-afq4", "AFQ4")
        source = write_model(work / "moe", "qwen3_moe", Sizes(64, 4, 2, 32))
        quantize(source, "qwen3_moe", TARGET / "moe-q4_0", "Q4_0")
    programs = {name: version(name) for name in ("mistralrs", "gguf", "mlx")}
    text = json.dumps({"programs": programs, "types": golden}, indent=1)
    (TARGET / "golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
