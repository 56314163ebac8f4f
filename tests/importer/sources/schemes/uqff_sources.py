"""UQFF models written by hand, and what a decoder makes of a tensor piece by piece."""

from __future__ import annotations

import json
import math
import struct

from importer.codecs.runtime import NUMPY
from tests.importer.builders import REPOSITORY, noise, safetensors, write
from tests.importer.codecs import laws

FIXTURES = REPOSITORY / "fixtures" / "uqff"
GOLDEN = json.loads((FIXTURES / "golden.json").read_text())
KEY = "model.layers.0.mlp.up_proj"
WEIGHT = f"{KEY}.weight"
NORM = {"model.norm.weight": ("F32", (64,))}


def u8(value):
    """A scalar of one byte."""
    return ("U8", (), bytes([value]))


def u32(*values):
    """A list of U32."""
    return ("U32", (len(values),), struct.pack(f"<{len(values)}I", *values))


def scalar(value):
    """A scalar of U32."""
    return ("U32", (), struct.pack("<I", value))


def version(major=1, minor=2, patch=0):
    """The entries that say the version."""
    numbers = {"major": major, "minor": minor, "patch": patch}
    return {f"uqff.version.{name}": scalar(number) for name, number in numbers.items()}


LAYERS = {
    "q8_0": {
        "format": u8(0),
        "": ("U8", (2 * 2 * 34,)),
        "dtype": scalar(8),
        "shape": u32(2, 64),
    },
    "f16": {
        "format": u8(0),
        "": ("U8", (2 * 3 * 2,)),
        "dtype": scalar(1),
        "shape": u32(2, 3),
    },
    "plain": {"format": u8(1), "": ("BF16", (2, 65))},
    "hqq": {
        "format": u8(2),
        "": ("U8", (32, 4)),
        "scales": ("F32", (1, 4)),
        "zeros": ("F32", (1, 4)),
        "shape": u32(4, 64),
        "bits": u8(4),
        "group_size": scalar(64),
        "axis": u8(0),
        "optimization_steps": scalar(10),
        "round_zeros": u8(0),
        "channel_wise": u8(1),
    },
    "fp8": {
        "format": u8(3),
        "": ("F8_E4M3", (2, 3)),
        "dequant_w_scale": ("F32", ()),
        "dequant_x_scale": ("F32", ()),
        "quant_scale": ("F32", ()),
        "dtype": scalar(9),
    },
    "afq": {
        "format": u8(4),
        "": ("U32", (2, 8)),
        "scales": ("F16", (2, 1)),
        "biases": ("F16", (2, 1)),
        "bits": u8(4),
        "group_size": u8(64),
    },
    "f8q8": {
        "format": u8(5),
        "": ("U8", (4 * 33,)),
        "num_blocks": scalar(4),
        "shape": u32(2, 50),
    },
    "mxfp4": {"format": u8(6), "": ("U8", (2, 32)), "scales": ("U8", (2, 2))},
}
"""A layer of each family, by what follows `<key>.weight.`."""


def entries(family, key=KEY, **changes):
    """The entries of a layer; a change is another entry, or None for none."""
    parts = {
        **LAYERS[family],
        **{name.replace("data", ""): one for name, one in changes.items()},
    }
    return {
        f"{key}.weight.{name}" if name else f"{key}.weight": one
        for name, one in parts.items()
        if one is not None
    }


def shard(*layers, **extra):
    """A shard with its version, and further entries by name."""
    found = {}
    for layer in (version(), *layers, extra):
        found |= layer
    return safetensors(found)


def model(directory, *layers, **extra):
    """Write a model of one shard."""
    files = {
        "q4k-0.uqff": shard(*layers, **extra),
        "residual.safetensors": safetensors(NORM),
        "config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    }
    return write(directory, files)


def stored_arrays(tensor):
    """The bytes of each array of a tensor."""
    made = []
    for array in tensor.arrays:
        with open(array.file.location, "rb") as file:
            file.seek(array.offset)
            made.append(file.read(array.nbytes))
    return made


def values(tensor, pieces=1):
    """The values of a tensor, decoded in some pieces."""
    count, unit = math.prod(tensor.shape), tensor.decoder.unit(tensor.shape)
    places = [count // unit * number // pieces * unit for number in range(pieces)]
    stored = stored_arrays(tensor)
    return laws.decoded(tensor.decoder, tensor.shape, stored, [*places, count], NUMPY)


__all__ = ["FIXTURES", "GOLDEN", "noise"]
