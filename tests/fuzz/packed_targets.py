"""Targets for weights that somebody else has packed: states, layers and patterns."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable

import numpy as np

from importer.codecs.runtime import NUMPY
from importer.sources.schemes.patterns import Patterns
from importer.sources.tensor import SourceTensor
from store.errors import IngotError
from store.json import JsonError, loads
from store.text import is_printable
from tests.fuzz.rewritten import Rewritten
from tests.importer.builders import safetensors

_SMALL = 1 << 16
_SIDES = 66
"""One more than the sides of arrays, two of which are then a layer of 528 by 65."""
_PATTERN, _NAME = 40, 12
"""Letters of a pattern and of a name: Python's own patterns may take twice as long for each."""
_LETTERS = b"ab1._*+?{}[]()|^$\\-,"
_SOURCE = Rewritten("packed", "config.json", "model.safetensors")
_DTYPES = ("I32", "F16", "BF16", "F32", "I16", "U8")


def quant_state(data: bytes) -> None:
    """The state of 4 bits of bitsandbytes: what is accepted can be decoded."""
    try:
        loads(data, floats=True)
    except JsonError:
        return  # most inputs end here, where nothing has to be written; `config` reads these
    name = "a.weight"
    arrays = {
        name: ("U8", (32, 1)),
        f"{name}.absmax": ("F32", (1,)),
        f"{name}.quant_map": ("F32", (16,)),
        f"{name}.quant_state.bitsandbytes__nf4": ("U8", (len(data),), data),
    }
    for tensor in _tensors(arrays, {}):
        assert math.prod(tensor.shape) in {63, 64}
        _decode(tensor)


def packed_layer(data: bytes) -> None:
    """Arrays of GPTQ or AWQ with any shapes, and any configuration: decoded, or an error."""
    try:
        config = json.loads(data[10:])
    except (ValueError, RecursionError):
        return  # most inputs end here, where nothing has to be written; `config` reads these
    numbers = list(data[:10].ljust(10, b"\1"))
    dtypes = [_DTYPES[number % len(_DTYPES)] for number in numbers[7:10]]
    sides = [number % _SIDES for number in numbers[:6]]
    arrays: dict[str, tuple[object, ...]] = {
        "m.qweight": (dtypes[0], tuple(sides[:2])),
        "m.qzeros": (dtypes[1], tuple(sides[2:4])),
        "m.scales": (dtypes[2], tuple(sides[4:])),
    }
    if numbers[6]:
        columns = 8 * sides[0]
        groups = np.arange(columns, dtype="<i4") // numbers[6]
        arrays["m.g_idx"] = ("I32", (columns,), groups.tobytes())
    for tensor in _tensors(arrays, {"quantization_config": config}):
        _decode(tensor)


def pattern(data: bytes) -> None:
    """A pattern and a name: what is decided, Python's own machine decides alike."""
    text, _, name = (
        bytes(_LETTERS[byte % len(_LETTERS)] for byte in data).decode().partition("a")
    )
    text, name = text[:_PATTERN], name[:_NAME]
    found = Patterns().match(text, name)
    if found is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sets that may mean another thing later
            assert found == (re.match(text, name) is not None)


def _tensors(arrays: object, config: object) -> list[SourceTensor]:
    try:
        _SOURCE.write(json.dumps(config).encode(), safetensors(arrays))
        found = _SOURCE.inventory().tensors
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return []
    return [tensor for tensor in found if not tensor.is_plain]


def _decode(tensor: SourceTensor) -> None:
    count = math.prod(tensor.shape)
    spans = tensor.decoder.spans(tensor.shape, range(count))
    for array, span in zip(tensor.arrays, spans, strict=True):
        assert (span.begin, span.nbytes) == (0, array.nbytes)
    if count > _SMALL:
        return
    content = tensor.file.location.read_bytes()
    arrays = [content[one.offset : one.offset + one.nbytes] for one in tensor.arrays]
    made = tensor.decoder.decode(arrays, tensor.shape, range(count), NUMPY)
    assert len(made) == count * {"F32": 4}.get(tensor.dtype, 2)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "quant_state": quant_state,
    "packed_layer": packed_layer,
    "pattern": pattern,
}
