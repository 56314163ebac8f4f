"""UQFF models from any bytes: an error, or tensors that lie in their arrays and decode."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

from importer.formats.uqff.layers import Entry, read_layers
from importer.sources.tensor import SourceTensor
from store.errors import IngotError
from store.tensorfile import (
    ITEM_BITS,
    LENGTH_BYTES,
    data_bytes,
    header_length,
    parse_header,
)
from store.text import is_printable
from tests.fuzz.rewritten import Rewritten
from tests.importer.builders import BITS, safetensors
from tests.importer.sources.schemes.uqff_sources import LAYERS, shard, values
from tests.importer.sources.schemes.uqff_sources import entries as entries_of

_LARGEST = 1 << 16
_SOURCE = Rewritten("uqff", "q4k-0.uqff", "residual.safetensors")
_RESIDUAL = safetensors({"norm": ("F32", (4,))})


def uqff(data: bytes) -> None:
    """A shard as it is."""
    try:
        # Most inputs end here, where nothing has to be written.
        length = header_length(data[:LENGTH_BYTES], len(data), "x")
        parse_header(data[LENGTH_BYTES : LENGTH_BYTES + length], len(data), "x")
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    _check(data)


def uqff_layer(data: bytes) -> None:
    """A line for each entry of a layer, as `layer` reads them: deeper than `uqff` gets."""
    found = {}
    for line in data.decode("utf-8", "replace").splitlines():
        with contextlib.suppress(ValueError):
            name, dtype, shape, content = line.split(" ")
            sides = tuple(int(side) for side in shape.split(",") if side)
            nbytes = math.prod(sides) * BITS.get(dtype, 0) // 8
            # A header with another name is refused before.
            if (
                is_printable(name)
                and dtype in BITS
                and 0 <= nbytes <= _LARGEST
                and min(sides, default=0) >= 0
            ):
                value = bytes.fromhex(content)[:nbytes]
                found[name] = (dtype, sides, value + bytes(nbytes - len(value)))
    entries = {name: Entry("x", dtype, sides) for name, (dtype, sides, _) in found.items()}
    try:
        # Most inputs end here, where nothing has to be written.
        layers = list(read_layers(entries, lambda name: found[name][2]))
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    if layers:
        _check(shard(found))


def _check(content: bytes) -> None:
    _SOURCE.write(content, _RESIDUAL)
    try:
        found = _SOURCE.inventory()
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    places = [(array.file.path, array.name) for t in found.tensors for array in t.arrays]
    assert len(set(places)) == len(places)
    for tensor in found.tensors:
        _check_tensor(tensor)


def _check_tensor(tensor: SourceTensor) -> None:
    count = math.prod(tensor.shape)
    spans = tensor.decoder.spans(tensor.shape, range(count))
    for span, array in zip(spans, tensor.arrays, strict=True):
        end = span.begin + max(span.runs - 1, 0) * span.stride + span.run
        assert 0 <= span.begin <= end <= array.nbytes
        assert array.offset + array.nbytes <= array.file.size
    if count <= _LARGEST and ITEM_BITS[tensor.dtype] >= 8:
        assert len(values(tensor, 3)) == data_bytes(tensor.dtype, tensor.shape)


def _lines(family: str) -> bytes:
    """Give a well-formed layer as `uqff_layer` reads it."""
    made = []
    for name, (dtype, shape, *given) in entries_of(family, "a").items():
        sides = ",".join(map(str, shape))
        content = given[0].hex() if given else "0102030405060708"
        made.append(f"{name} {dtype} {sides} {content}")
    return "\n".join(made).encode()


TARGETS: dict[str, Callable[[bytes], None]] = {"uqff": uqff, "uqff_layer": uqff_layer}
SEEDS = {
    "uqff": [shard(entries_of(family)) for family in LAYERS],
    "uqff_layer": [_lines(family) for family in LAYERS],
}
