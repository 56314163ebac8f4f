"""Matrices of codes and scales the other way around, whole and tile by tile."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs.registry import codec_for
from importer.codecs.runtime import prepare
from importer.codecs.spec import QUANT_TYPES
from importer.codecs.views import turned
from importer.codecs.views.turned import Turned
from tests.importer.builders import noise

SHAPE = (3, 128, 10)
"""Of three matrices, each of 10 rows of 128."""


def taken(spans, data):
    """The bytes of spans, without gaps."""
    pieces = []
    for span, array in zip(spans, data, strict=True):
        starts = (span.begin + number * span.stride for number in range(span.runs))
        pieces.append(b"".join(array[at : at + span.run] for at in starts))
    return pieces


@pytest.mark.parametrize("kind", ["mxfp4", "int4"])
def test_values_are_turned_however_they_are_cut(monkeypatch, kind):
    codec, runtime = codec_for(QUANT_TYPES[kind], "BF16"), prepare({}, lambda: None)
    parts = codec.parts((3, 10, 128))
    data = [noise(part.suffix, part.nbytes) for part in parts]
    if kind == "mxfp4":
        data[1] = bytes(120 + byte % 8 for byte in data[1])
    values = codec.decode(data, (3, 10, 128), range(3840), runtime)
    expected = np.frombuffer(values, "u2").reshape(3, 10, 128).swapaxes(1, 2).tobytes()
    decoder = Turned(codec, 10, 128)

    for tile, unit in ((1 << 18, 1280), (1, 320), (640, 640)):
        monkeypatch.setattr(turned, "_TILE", tile)
        assert decoder.unit(SHAPE) == unit
        for step in (unit, 1280, 2560, 3840):
            made = b""
            for begin in range(0, 3840, step):
                piece = range(begin, min(begin + step, 3840))
                arrays = taken(decoder.spans(SHAPE, piece), data)
                made += bytes(decoder.decode(arrays, SHAPE, piece, runtime))
            assert made == expected, (tile, step)
