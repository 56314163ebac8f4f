"""Fuzz targets for schemes of codes and scales: any dtypes, shapes, numbers, declarations."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator

from importer.codecs.base import Decoder, Shape
from importer.codecs.registry import codec_for, type_held
from importer.codecs.runtime import NUMPY
from importer.sources.file import opened, read_bytes
from importer.sources.inventory import read_inventory
from importer.sources.tensor import SourceTensor
from store.errors import IngotError
from store.tensorfile import data_bytes, encode_header
from store.text import is_printable
from tests.fuzz.scratch import SCRATCH

DTYPES = ("F8_E4M3", "U8", "I8", "I32", "F32", "BF16", "F16", "F8_E8M0", "F8_E5M2", "I64")
SIDES = (1, 2, 4, 16, 32, 64, 0, 3, 8, 33)
ENDS = (
    *("weight", "weight_packed", "weight_scale", "weight_scale_inv", "weight_scale_2"),
    *("weight_zero_point", "weight_shape", "weight_g_idx", "weight_global_scale"),
    *("pre_quant_scale", "scale", "input_scale"),
)
NAMES = (
    *(f"a.{end}" for end in ENDS),
    *("e_blocks", "e_scales", "e", "e_scale", "e_scale_inv", "e_packed"),
    *("e_weight_scale", "e_weight_scale_2", "e_pre_quant_scale"),
)
VALUES = (
    *(4, 8, 2, 16, 32, 128, 0, -1, True, None, "int", "float", "group", "channel", "tensor"),
    *("block", "tensor_group", [128, 128], [2, 2], ["a"], ["re:.*"], "NVFP4", "FP8", "W8A16"),
    *("W4A16_AWQ", "MXFP8", "MIXED_PRECISION", {}, "x"),
)
GOOD: tuple[dict[str, tuple[str, Shape]], ...] = (
    {"a.weight": ("F8_E4M3", (33, 64)), "a.weight_scale_inv": ("F32", (1, 1))},
    {"a.weight": ("F8_E4M3", (4, 64)), "a.weight_scale": ("BF16", (4, 1))},
    {"a.weight": ("F8_E4M3", (4, 64)), "a.weight_scale": ("U8", (4, 2))},
    {"e": ("F8_E4M3", (2, 4, 16)), "e_scale": ("F32", (2, 4, 1))},
    {"a.weight_packed": ("I32", (4, 8)), "a.weight_scale": ("BF16", (4, 2))},
    {
        "a.weight_packed": ("I32", (33, 8)),
        "a.weight_scale": ("F16", (33, 2)),
        "a.weight_zero_point": ("I32", (5, 2)),
    },
    {"a.weight": ("I8", (4, 32)), "a.weight_scale": ("F32", (4, 1))},
    {
        "a.weight_packed": ("U8", (4, 16)),
        "a.weight_scale": ("F8_E4M3", (4, 2)),
        "a.weight_global_scale": ("F32", (1,)),
    },
    {"a.weight_packed": ("U8", (4, 16)), "a.weight_scale": ("U8", (4, 1))},
    {
        "a.weight": ("U8", (4, 16)),
        "a.weight_scale": ("F8_E4M3", (4, 2)),
        "a.weight_scale_2": ("F32", ()),
    },
    {"a.weight": ("U8", (2, 32)), "a.weight_scale": ("F32", (4, 1))},
    {"e_blocks": ("U8", (2, 4, 1, 16)), "e_scales": ("U8", (2, 4, 1))},
    {
        "e": ("U8", (2, 16, 4)),
        "e_weight_scale": ("F8_E4M3", (2, 2, 4)),
        "e_weight_scale_2": ("F32", ()),
    },
    {"e": ("U8", (2, 4, 16)), "e_weight_scale": ("U8", (2, 4, 1))},
)
"""What the programs write, of small shapes."""
METHODS = ("compressed-tensors", "modelopt", "fp8", "mxfp4", None)
WEIGHTS: tuple[dict[str, object], ...] = (
    {"num_bits": 4, "group_size": 32},
    {"num_bits": 4, "group_size": 32, "symmetric": False},
    {"num_bits": 8, "strategy": "channel"},
    {"num_bits": 8, "type": "float", "strategy": "channel"},
    {"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group"},
    {"num_bits": 4, "type": "float", "group_size": 32},
    {"num_bits": 8, "group_size": 16},
)
ALGORITHMS = ("NVFP4", "FP8", "W8A16", "W4A16_AWQ", "MXFP8", "MXFP4", None, 4)
KEYS = ("num_bits", "type", "strategy", "group_size", "symmetric", "block_structure")


def scaled(data: bytes) -> None:
    """A checkpoint by a grammar: what is read has as many values as it says, or an error."""
    directory = SCRATCH / f"{os.getpid()}.scaled"
    directory.mkdir(exist_ok=True)
    choices = iter(data)
    entries, config = list(_entries(choices)), _config(choices)
    rest = bytes(choices)
    nbytes = sum(entry[3] for entry in entries)
    content = (rest * (nbytes // max(len(rest), 1) + 1))[:nbytes].ljust(nbytes, b"\0")
    (directory / "model.safetensors").write_bytes(encode_header(entries) + content)
    (directory / "config.json").write_text(json.dumps(config))
    try:
        found = read_inventory(directory)
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    stored = sorted(array.name for tensor in found.tensors for array in tensor.arrays)
    assert stored == sorted(entry[0] for entry in entries)
    for tensor in found.tensors:
        if not tensor.is_plain:
            _decode(tensor)


def _entries(choices: Iterator[int]) -> Iterator[tuple[str, str, Shape, int]]:
    """Yield what a program writes, with some arrays more, less or of another kind."""
    found = dict(GOOD[next(choices, 0) % len(GOOD)])
    for _ in range(next(choices, 0) % 4):
        name = NAMES[next(choices, 0) % len(NAMES)]
        name = sorted(found)[next(choices, 0) % len(found)] if next(choices, 0) % 2 else name
        dtype, shape = found.get(name, ("F32", (4, 2)))
        match next(choices, 0) % 4:
            case 0:
                dtype = DTYPES[next(choices, 0) % len(DTYPES)]
            case 1:
                side = SIDES[next(choices, 0) % len(SIDES)]
                at = next(choices, 0) % max(len(shape), 1)
                shape = (*shape[:at], side, *shape[at + 1 :])
            case 2:
                shape = (SIDES[next(choices, 0) % len(SIDES)], *shape)[: next(choices, 3) % 5]
            case _ if len(found) > 1:
                found.pop(name, None)
                continue
        found[name] = dtype, shape
    for name, (dtype, shape) in sorted(found.items()):
        if data_bytes(dtype, shape) < 1 << 16:
            yield name, dtype, shape, data_bytes(dtype, shape)


def _config(choices: Iterator[int]) -> dict[str, object]:
    def value() -> object:
        return VALUES[next(choices, 0) % len(VALUES)]

    weights = dict(WEIGHTS[next(choices, 0) % len(WEIGHTS)])
    if not next(choices, 1) % 4:
        weights[KEYS[next(choices, 0) % len(KEYS)]] = value()
    method = METHODS[next(choices, 0) % len(METHODS)]
    said: dict[str, object] = {
        "quant_method": method,
        "config_groups": {"g": {"targets": ["Linear"], "weights": weights}},
    }
    if method == "modelopt":
        said["quant_algo"] = ALGORITHMS[next(choices, 0) % len(ALGORITHMS)]
    odd = ("weight_block_size", "quant_algo", "group_size", "quantized_layers", "ignore")
    if not next(choices, 1) % 3:
        said[odd[next(choices, 0) % len(odd)]] = value()
    return {"quantization_config": said} if next(choices, 1) % 5 else {}


def _decode(tensor: SourceTensor) -> None:
    count, decoder = math.prod(tensor.shape), tensor.decoder
    with opened(tensor.file) as descriptor:
        arrays = [
            read_bytes(tensor.file, descriptor, one.offset, one.offset + one.nbytes)
            for one in tensor.arrays
        ]
    values = _values(decoder, arrays, tensor.shape)
    if values is None:
        return
    assert len(values) == data_bytes(decoder.value_dtype, tensor.shape)
    held = type_held(decoder, tensor.shape)
    if count and held is not None and hasattr(decoder, "repack"):
        whole = range(count)
        made = decoder.repack(arrays, tensor.shape, whole, NUMPY).parts
        codec = codec_for(held, "F32")
        assert [len(p) for p in made] == [p.nbytes for p in codec.parts(tensor.shape)]


def _values(decoder: Decoder, arrays: list[bytes], shape: Shape) -> bytes | None:
    """Return all values, row by row where that is possible, as one piece gives them."""
    count, unit = math.prod(shape), decoder.unit(shape)
    assert count % unit == 0
    spans = decoder.spans(shape, range(count))
    sizes = [len(array) for array in arrays]
    assert [span.nbytes for span in spans] == sizes, (decoder, shape, spans, sizes)
    try:
        whole = bytes(decoder.decode(arrays, shape, range(count), NUMPY))
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return None
    last = range(max(count - unit, 0), count)
    cut = decoder.spans(shape, last)
    pieces = [
        array[span.begin : span.begin + span.nbytes]
        for array, span in zip(arrays, cut, strict=True)
    ]
    if count:
        end = bytes(decoder.decode(pieces, shape, last, NUMPY))
        assert whole.endswith(end)
    return whole


TARGETS: dict[str, Callable[[bytes], None]] = {"scaled": scaled}
SEEDS = [
    bytes([number, 0, number % 7, 1, method, 1, 1, 1]) + bytes(range(64))
    for number in range(len(GOOD))
    for method in range(5)
]
