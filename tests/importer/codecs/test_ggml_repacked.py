"""Blocks of GGML as types of the store have the values that they had."""

from __future__ import annotations

import numpy as np
import pytest

from importer.codecs.ggml.decoder import Ggml
from importer.codecs.ggml.types import NAMED
from importer.codecs.reference.ggml.blocks import LAYOUTS
from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY
from tests.importer.codecs import libggml, oracle

SHAPE, NO_ELEMENTS = (1, 256), range(0)
"""Blocks tell the rest."""
KINDS = [kind for kind in libggml.BLOCK_TYPES if Ggml(kind.name).holds(SHAPE) is not None]
SIGNED = {"Q1_0", "Q2_0", "TQ1_0", "TQ2_0", "Q4_0", "Q5_0", "Q8_0", "Q8_1", "MXFP4", "NVFP4"}
"""Types in which a zero may have a sign on one side only."""
COUNT = 600

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def finite_blocks(kind, count=COUNT, seed=0):
    """Any blocks with any finite scales."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (count, kind.nbytes), np.uint8)
    layout = LAYOUTS[kind.name]
    for field in {"d", "dmin", "m", "e"} & set(layout.names):
        if layout[field] == np.float16:
            halves = rng.integers(0, 0x7C00, count) | rng.integers(0, 2, count) << 15
            blocks.view(layout)[field][:, 0] = halves.astype("<u2").view(np.float16)
        elif field == "e":
            blocks.view(layout)[field][:, 0] = rng.integers(0, 255, count)
        else:
            blocks.view(layout)[field][:, 0] = rng.integers(0, 127, (count, 4))
    return blocks


def both(kind, blocks):
    """Values of blocks, decoded from them and from what they are repacked to."""
    decoder, shape = Ggml(kind.name), (len(blocks), kind.elements)
    whole = range(len(blocks) * kind.elements)
    given = decoder.decode([blocks.reshape(-1).data], shape, whole, NUMPY)
    made = decoder.repack([blocks.reshape(-1).data], SHAPE, NO_ELEMENTS, NUMPY)
    codec = codec_for(decoder.holds(SHAPE), "F32")
    kept = codec.decode(made.parts, shape, whole, NUMPY)
    return np.frombuffer(given, np.float32), np.frombuffer(kept, np.float32), made


@each_kind
def test_values_are_kept(kind):
    given, kept, made = both(kind, finite_blocks(kind))

    assert made.nonfinite == 0
    assert np.array_equal(given, kept)
    if kind.name not in SIGNED:
        assert np.array_equal(given.view(np.uint32), kept.view(np.uint32))
    assert np.array_equal(given.view(np.uint32)[given != 0], kept.view(np.uint32)[kept != 0])


@each_kind
def test_mlx_reads_the_same_values(kind):
    given, _, made = both(kind, finite_blocks(kind, 64, seed=1))
    spec = Ggml(kind.name).holds(SHAPE)
    parts = [bytes(part) for part in made.parts]

    theirs = np.frombuffer(oracle.dequantize(spec, "F32", parts, 64), np.float32)

    assert np.array_equal(given, theirs)


@each_kind
def test_parts_are_those_of_the_stores_type(kind):
    blocks = finite_blocks(kind, 8)
    decoder = Ggml(kind.name)

    made = decoder.repack([blocks.reshape(-1).data], SHAPE, NO_ELEMENTS, NUMPY)

    promised = codec_for(decoder.holds(SHAPE), "F32").parts((8, kind.elements))
    assert [memoryview(part).nbytes for part in made.parts] == [
        part.nbytes for part in promised
    ]


@each_kind
def test_pieces_are_the_whole(kind):
    # More than numpy works on at a time.
    count = 2 * (1 << 15) // kind.elements + 3
    blocks, decoder = finite_blocks(kind, count), Ggml(kind.name)

    whole = decoder.repack([blocks.reshape(-1).data], SHAPE, NO_ELEMENTS, NUMPY)
    pieces = [
        decoder.repack([part.reshape(-1).data], SHAPE, NO_ELEMENTS, NUMPY)
        for part in (blocks[:5], blocks[5:])
    ]

    for part, joined in zip(
        whole.parts, zip(*(p.parts for p in pieces), strict=True), strict=True
    ):
        assert bytes(part) == b"".join(map(bytes, joined))


@pytest.mark.parametrize(
    ("name", "field", "number", "lost"),
    [
        ("Q4_0", "d", np.float16(np.inf), 32),
        ("Q8_0", "d", np.array(0x7C01, np.uint16).view(np.float16), 32),
        ("Q4_1", "m", np.float16(np.nan), 32),
        ("Q5_K", "dmin", np.float16(-np.inf), 256),
        ("TQ2_0", "d", np.float16(np.nan), 256),
        ("MXFP4", "e", 255, 32),
        ("NVFP4", "d", [0xFF, 1, 2, 3], 16),
    ],
)
def test_groups_that_are_not_kept_are_counted(name, field, number, lost):
    kind = NAMED[name]
    blocks = finite_blocks(kind, 10)
    blocks.view(LAYOUTS[name])[field][4, 0] = number

    assert both(kind, blocks)[2].nonfinite == lost


def test_nvfp4_scales_are_what_libggml_takes_them_for():
    kind = NAMED["NVFP4"]
    blocks = finite_blocks(kind, 64)
    blocks[:, :4] = np.arange(256, dtype=np.uint8).reshape(64, 4)

    given, kept, made = both(kind, blocks)

    assert np.array_equal(given[: 255 * 16], kept[: 255 * 16])
    assert made.nonfinite == 16  # 0xFF, which is 480 there


@pytest.mark.parametrize("name", ["Q2_K", "Q3_K", "Q6_K", "Q8_K", "IQ4_NL", "IQ1_S"])
def test_other_types_are_not_repacked(name):
    assert Ggml(name).holds(SHAPE) is None
    with pytest.raises(AssertionError, match="no type of the store holds"):
        Ggml(name).repack([b""], SHAPE, NO_ELEMENTS, NUMPY)
