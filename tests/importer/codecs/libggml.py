"""libggml, the library that defines GGML's blocks: its decoders and quantizers by ctypes.

    .venv-zoo/bin/python tests/importer/codecs/libggml.py [--library libggml-base.so]

writes `fixtures/ggml/blocks.json`: for each type some blocks, those that libggml quantizes and
those of any bytes, and the SHA-256 of the values that it decodes. Without a path the library
is that of pywhispercpp, which is in `tests/zoo/requirements.txt`.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Final

import numpy as np

ROOT: Final = Path(__file__).parents[3]
FIXTURE: Final = ROOT / "fixtures" / "ggml" / "blocks.json"
WITHOUT_DECODER: Final = {"Q8_1"}
"""Activations only: nothing ever decodes them."""
_BY_ROW: Final = {"Q8_1": "quantize_row_q8_1_ref", "Q8_K": "quantize_row_q8_K_ref"}
"""Types that no file is quantized to."""

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from importer.codecs.ggml.types import GGML_TYPES  # noqa: E402 - after the path is set

BLOCK_TYPES: Final = tuple(kind for kind in GGML_TYPES.values() if not kind.is_plain)


def shipped_library():
    """The library that comes with pywhispercpp."""
    files = importlib.metadata.files("pywhispercpp") or []
    (found,) = {
        file.locate()
        for file in files
        if file.name in {"libggml-base.so", "libggml-base.dylib"}
    }
    return found


class LibGgml:
    """A library that is loaded."""

    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))
        self._library.ggml_version.restype = ctypes.c_char_p
        self._library.ggml_blck_size.restype = ctypes.c_int64
        self._library.ggml_type_size.restype = ctypes.c_size_t

    @property
    def version(self):
        return self._library.ggml_version().decode()

    def sizes(self, kind):
        """Elements and bytes of a block."""
        elements = self._library.ggml_blck_size(kind.number)
        return elements, self._library.ggml_type_size(kind.number)

    def has(self, kind):
        """Whether the library has the type; an older one lacks the newest."""
        return kind.name in _BY_ROW or hasattr(self._library, _decoder(kind))

    def decode(self, kind, blocks):
        """Values of blocks of shape (blocks, bytes)."""
        decoder = getattr(self._library, _decoder(kind))
        decoder.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        decoder.restype = None
        blocks = np.ascontiguousarray(blocks)
        values = np.empty((len(blocks), kind.elements), np.float32)
        decoder(blocks.ctypes.data, values.ctypes.data, values.size)
        return values

    def quantize(self, kind, values, importance=None):
        """Blocks of values of shape (rows, columns), with a weight for each column or none."""
        values = np.ascontiguousarray(values, np.float32)
        blocks = np.empty((values.size // kind.elements, kind.nbytes), np.uint8)
        if kind.name in _BY_ROW:
            quantizer = getattr(self._library, _BY_ROW[kind.name])
            quantizer.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
            quantizer.restype = None
            quantizer(values.ctypes.data, blocks.ctypes.data, values.size)
            return blocks
        quantizer = self._library.ggml_quantize_chunk
        quantizer.argtypes = [
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
            *[ctypes.c_int64] * 3,
            ctypes.c_void_p,
        ]
        quantizer.restype = ctypes.c_size_t
        made = quantizer(
            kind.number,
            values.ctypes.data,
            blocks.ctypes.data,
            0,
            *values.shape,
            None if importance is None else importance.ctypes.data,
        )
        assert made == blocks.nbytes
        return blocks


def _decoder(kind):
    name = kind.name.lower()
    return f"dequantize_row_{name[:-1]}K" if name.endswith("_k") else f"dequantize_row_{name}"


def weights_like(kind, blocks, rng):
    """Values as models have them, and rows of zeros and of one value."""
    scales = np.exp2(rng.integers(-9, 3, (blocks, 1)))
    values = (rng.standard_normal((blocks, kind.elements)) * scales).astype(np.float32)
    values[0] = 0
    values[1] = values[1, 0]
    return values


def digest(values):
    """SHA-256 of values, NaNs alike."""
    return hashlib.sha256(np.where(np.isnan(values), np.float32(np.nan), values)).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path)
    arguments = parser.parse_args()
    library = LibGgml(arguments.library or shipped_library())
    rng = np.random.default_rng(0)
    types = {}
    for kind in BLOCK_TYPES:
        assert library.sizes(kind) == (kind.elements, kind.nbytes), kind
        count = max(4, 256 // kind.elements)
        values = weights_like(kind, count, rng)
        # Some types cannot be quantized without weights, and no other is harmed by equal ones.
        ones = np.ones(values.size, np.float32)
        quantized = library.quantize(kind, values.reshape(1, -1), ones)
        blocks = np.concatenate([quantized, rng.integers(0, 256, quantized.shape, np.uint8)])
        types[kind.name] = {"blocks": blocks.tobytes().hex()}
        if kind.name not in WITHOUT_DECODER:
            types[kind.name]["values"] = digest(library.decode(kind, blocks))
    FIXTURE.parent.mkdir(exist_ok=True)
    FIXTURE.write_text(
        json.dumps({"writer": f"libggml {library.version}", "types": types}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
