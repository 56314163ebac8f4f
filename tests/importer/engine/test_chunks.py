"""Chunks cover a tensor in order, and neither they nor what they decode to is large."""

from __future__ import annotations

import math

import pytest

from importer.codecs.ggml.decoder import Ggml
from importer.codecs.plain import Plain
from importer.codecs.registry import codec_for, transcoder_for
from importer.codecs.spec import QUANT_TYPES
from importer.codecs.transcode import Copy
from importer.engine.chunks import _cut, _Source
from importer.sources.file import Extent
from store.tensorfile import ITEM_BITS

SIZE = 1 << 20
SHAPE = (512, 32768)
INT4 = QUANT_TYPES["int4"]


class File:
    """Stands for a file: chunks carry it along."""


def extents(decoder):
    spans = decoder.spans(SHAPE, range(math.prod(SHAPE)))
    return [Extent(File(), 0, span.nbytes) for span in spans]


@pytest.mark.parametrize(
    ("target", "decoder"),
    [
        (INT4, Ggml("IQ1_S")),
        (INT4, Ggml("Q4_K")),
        (INT4, codec_for(QUANT_TYPES["int2"], "F32")),
        (INT4, Plain("BF16")),
        (None, Plain("F32")),
        (None, codec_for(INT4, "BF16")),
    ],
    ids=str,
)
def test_a_chunk_and_its_values_are_small(target, decoder):
    transcoder = transcoder_for(target, decoder)
    layout = [(0, part.nbytes) for part in transcoder.parts(SHAPE)]

    chunks = list(_cut(None, [transcoder], [_Source(SHAPE, extents(decoder))], layout, SIZE))

    assert [chunk.elements.start for chunk in chunks[1:]] == [
        chunk.elements.stop for chunk in chunks[:-1]
    ]
    assert chunks[0].elements.start == 0
    assert chunks[-1].elements.stop == math.prod(SHAPE)
    assert max(chunk.nbytes for chunk in chunks) <= SIZE
    most = max(len(chunk.elements) for chunk in chunks) * ITEM_BITS[decoder.value_dtype] // 8
    if target is not None:
        assert most <= 4 * SIZE
    # Neither are there more chunks than that takes; what is only copied is read by halves.
    size = SIZE // 2 if isinstance(transcoder, Copy) else SIZE
    assert size * 7 // 8 <= max(most // 4, chunks[0].nbytes) <= size
