"""Encoders, decoders and transcoders under test, and tensors for each; later ones join."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from importer.codecs.base import Decoder, Encoder, Shape, Span, Transcoder
from importer.codecs.cast import Cast
from importer.codecs.ggml.decoder import Ggml
from importer.codecs.ggml.encoder import QUANTIZED, quantizer
from importer.codecs.ggml.types import NAMED
from importer.codecs.plain import Plain
from importer.codecs.registry import codec_for, transcoder_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES, FloatType, with_group_size
from importer.codecs.views.swapped import FIELDS, Swapped, SwappedBlocks
from store.tensorfile import ITEM_BITS, data_bytes
from tests.importer.codecs import corpus, libggml, scaled_cases


class Case(NamedTuple):
    """What is tested, and what it takes.

    Attributes:
        stored: makes the arrays of a tensor of a shape: of an encoder, its values.
        multiple: of what the last dimension must be one.
    """

    name: str
    subject: Encoder | Decoder | Transcoder
    stored: Callable[[Shape, np.random.Generator], list[bytes]]
    multiple: int = 1


def case_id(case):
    """What pytest calls a case."""
    return case.name


# What is stored.


def plain(dtype):
    """Values of `dtype`: as models have them up to some place, and any bytes from there."""

    def stored(shape, rng):
        nbytes = data_bytes(dtype, shape)
        if dtype not in corpus.DTYPES:
            return [rng.bytes(nbytes)]
        rows = -(-math.prod(shape) // corpus.ROW)
        return [_spoilt(corpus.ordinary(dtype, rows, rng).tobytes()[:nbytes], rng)]

    return stored


def quantized(spec, dtype):
    """Parts of a type: as we make them up to some place, and any bytes from there."""
    codec = codec_for(spec, dtype)

    def stored(shape, rng):
        (values,) = plain(codec.dtype)(shape, rng)
        parts = codec.encode(memoryview(values), NUMPY).parts
        return [_spoilt(bytes(part), rng) for part in parts]

    return stored


def _spoilt(content, rng):
    kept = min(len(content), int(rng.integers(0, 2 * len(content) + 1)))
    return content[:kept] + rng.bytes(len(content) - kept)


def blocks(kind):
    """Blocks of GGML: any bytes."""

    def stored(shape, rng):
        return [rng.bytes(math.prod(shape) // kind.elements * kind.nbytes)]

    return stored


# Cases.


def encoder(spec, dtype):
    """A type, for values of a dtype."""
    name = f"{corpus.spec_id(spec)}-{dtype}"
    return Case(name, codec_for(spec, dtype), plain(dtype), spec.group_size)


def fitted(spec, dtype):
    """A type whose scales are searched for."""
    case = encoder(spec, dtype)
    return case._replace(name=f"{case.name}-{str(spec.calibration).replace(', ', '-')}")


def decoder(spec, dtype):
    """A type, as it is stored."""
    name = f"{corpus.spec_id(spec)}-{dtype}"
    return Case(name, codec_for(spec, dtype), quantized(spec, dtype), spec.group_size)


def ggml(kind):
    """A type of GGML, as it is stored."""
    return Case(kind.name, Ggml(kind.name), blocks(kind), kind.elements)


def ggml_quantizer(name, dtype):
    """A type of GGML that values become; rows of any length, so all columns count alike."""
    subject, kind = quantizer(name, dtype), NAMED[name]
    return Case(f"{dtype}-to-{name}", subject, plain(dtype), kind.elements)


def kept_blocks(name):
    """A type of GGML whose blocks stay as they are."""
    case = ggml(NAMED[name])
    return case._replace(name=f"{name}-kept", subject=transcoder_for(None, Ggml(name)))


def swapped(dtype):
    """Plain values in big-endian order."""
    return Case(f"swapped-{dtype}", Swapped(dtype), plain(dtype))


def swapped_blocks(name):
    """Blocks in big-endian order."""
    case = ggml(NAMED[name])
    return case._replace(name=f"{name}-swapped", subject=SwappedBlocks(Ggml(name)))


def repacked(name):
    """A type of GGML as the type of the store that holds its codes."""
    held = Ggml(name).holds(())
    case = ggml(NAMED[name])
    return case._replace(
        name=f"{name}-as-{held}", subject=transcoder_for(held, Ggml(name), exact=True)
    )


def from_plain(target, dtype):
    """From values of a dtype to a type."""
    multiple = getattr(target, "group_size", 1)
    name = f"{dtype}-to-{target}"
    return Case(name, transcoder_for(target, Plain(dtype)), plain(dtype), multiple)


def from_type(source, target, dtype="BF16"):
    """From one type to another."""
    codec = codec_for(source, dtype)
    multiple = math.lcm(source.group_size, getattr(target, "group_size", 1))
    subject = transcoder_for(target, codec)
    return Case(f"{source}-to-{target}-{dtype}", subject, quantized(source, dtype), multiple)


INT4, INT8 = QUANT_TYPES["int4"], QUANT_TYPES["int8"]
_PLAIN = {"F32": 1, "BF16": 1, "F16": 1, "F8_E4M3": 1, "I64": 1, "BOOL": 1} | {
    "F4": 2,
    "F6_E2M3": 4,
}
"""Dtypes, and how many elements are whole bytes."""

ENCODERS = [
    *(
        Case(f"{dtype}-cast-to-{to}", Cast(dtype, to), plain(dtype))
        for to in ("BF16", "F16")
        for dtype in ("F64", "F32", "BF16", "F16")
        if dtype != to
    ),
    *(encoder(spec, "BF16") for spec in corpus.SPECS),
    *(
        encoder(QUANT_TYPES[name], dtype)
        for name in ("int4", "nvfp4", "mxfp8")
        for dtype in ("F16", "F32", *corpus.CONVERTED)
    ),
    *(ggml_quantizer(name, "F32") for name in QUANTIZED),
    *(ggml_quantizer("Q4_0", dtype) for dtype in ("BF16", "F16", *corpus.CONVERTED)),
    *(fitted(spec, dtype) for spec, dtype in corpus.FITTED),
]

DECODERS = [
    *(
        Case(f"plain-{dtype}", Plain(dtype), plain(dtype), multiple)
        for dtype, multiple in _PLAIN.items()
    ),
    *(decoder(spec, "BF16") for spec in corpus.SPECS),
    *(
        decoder(QUANT_TYPES[name], dtype)
        for name in ("int3", "int8", "nvfp4", "mxfp4")
        for dtype in ("F16", "F32")
    ),
    *map(ggml, libggml.BLOCK_TYPES),
    *map(swapped, ("F64", "F32", "BF16", "I16")),
    *map(swapped_blocks, FIELDS),
    *(Case(*case) for case in scaled_cases.CASES),
]

TRANSCODERS = [
    *(
        Case(f"copy-{dtype}", transcoder_for(None, Plain(dtype)), plain(dtype), multiple)
        for dtype, multiple in _PLAIN.items()
    ),
    from_plain(FloatType("BF16"), "F32"),
    from_plain(FloatType("F16"), "BF16"),
    from_plain(FloatType("F16"), "F64"),
    *(from_plain(spec, "BF16") for spec in QUANT_TYPES.values()),
    from_plain(INT4, "F64"),
    from_plain(QUANT_TYPES["nvfp4"], "F8_E4M3"),
    from_type(INT8, INT4),
    from_type(with_group_size(INT8, 128), INT4, "F16"),
    from_type(INT4, INT8, "F32"),
    from_type(QUANT_TYPES["mxfp8"], QUANT_TYPES["nvfp4"]),
    from_type(QUANT_TYPES["nvfp4"], with_group_size(INT4, 128)),
    from_type(QUANT_TYPES["int3"], FloatType("F16"), "F32"),
    from_type(INT4, INT4),
    from_type(QUANT_TYPES["nvfp4"], None),
    ggml(NAMED["Q4_K"])._replace(subject=transcoder_for(INT4, Ggml("Q4_K"))),
    *map(repacked, ("Q4_0", "Q5_K", "TQ1_0", "MXFP4", "NVFP4")),
    *map(kept_blocks, ("Q8_0", "Q6_K", "IQ1_S")),
    *(
        case._replace(subject=transcoder_for(None, case.subject))
        for case in (swapped("F32"), swapped_blocks("Q4_K"), swapped_blocks("MXFP4"))
    ),
]


@dataclass(frozen=True, slots=True)
class ByColumns:
    """Reads values stored column by column; what packs along columns has such spans."""

    value_dtype: str

    def unit(self, shape):
        return max(shape[-1], 1)

    def spans(self, shape, elements):
        size = ITEM_BITS[self.value_dtype] // 8
        columns = max(shape[-1], 1)
        rows = range(elements.start // columns, elements.stop // columns)
        height = math.prod(shape) // columns
        return (
            Span(rows.start * size, shape[-1] * len(rows) * size, shape[-1], height * size),
        )

    def decode(self, arrays, shape, elements, runtime):
        del runtime
        (array,) = arrays
        kind = np.dtype(f"V{ITEM_BITS[self.value_dtype] // 8}")
        rows = len(elements) // max(shape[-1], 1)
        return memoryview(np.frombuffer(array, kind).reshape(shape[-1], rows).T.tobytes())

    def kernels(self, operation):
        del operation
        return ()


def by_columns(shape, rng):
    return [rng.bytes(data_bytes("BF16", shape))]


COLUMNS = Case("columns", ByColumns("BF16"), by_columns, 32)


@st.composite
def tensors(draw, case):
    """A shape that a case takes, and the stored arrays of such a tensor."""
    outer = draw(st.lists(st.integers(0, 6), max_size=3))
    last = case.multiple * draw(st.integers(0, 5))
    shape = (*outer, last) if outer or case.multiple > 1 or last else ()
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    return shape, case.stored(shape, rng)
