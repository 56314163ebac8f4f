"""The layers of UQFF that tensors become: their arrays, and what lies beside these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from importer.codecs.base import Decoder, Part, Shape, Transcoder
from importer.codecs.cast import Cast, Rounded
from importer.codecs.described import Described
from importer.codecs.ggml.encoder import Quantizer, quantizer
from importer.codecs.ggml.types import NAMED
from importer.codecs.registry import has_blocks, stored_type, transcoder_for, type_held
from importer.codecs.stacked import RecodeStack
from importer.codecs.transcode import Recode
from importer.codecs.uqff.f8q8 import BLOCK_BYTES, F8Q8Encoder
from importer.codecs.uqff.fp8 import VALUES, ToFp8
from importer.codecs.uqff.groups import UqffGroups
from importer.codecs.uqff.to_hqq import GROUP, STEPS, ToHqq
from importer.exports.safetensors import Array, Constant, Weight
from importer.exports.uqff.types import TYPES, UNQUANTIZED, UqffType
from importer.formats.uqff.layers import FORMS, Family
from importer.sources.tensor import SourceTensor
from store.tensorblob import BIAS, SCALE

_E4M3: Final = 9
"""What mistral.rs calls the dtype of FP8 layers, in a table of its own."""
_SIZES: Final = {"U8": 1, "U32": 4}
_WIDE: Final = "F32"
_TAG: Final = ".format"
_ENDS: Final[Mapping[str, str]] = {SCALE: ".scales", BIAS: ".biases"}
"""What UQFF calls the small parts of the store's types."""


class Form(NamedTuple):
    """How a layer is stored, and what makes it so."""

    kind: UqffType
    transcoder: Transcoder

    def weight(self, name: str, shape: Shape, sources: Sequence[SourceTensor]) -> Weight:
        """Return the layer of some sources.

        Args:
            name: of its data, which ends in `.weight`.
            shape: of all sources together.
        """
        arrays = tuple(_arrays(self, name, shape))
        numbers = [
            _number(f"{name}.{suffix}", FORMS[self.kind.family].numbers[suffix], values)
            for suffix, values in self._numbers(shape).items()
        ]
        tag = _number(name + _TAG, "U8", int(self.kind.family))
        return Weight(name, arrays, tuple(sources), self.transcoder, (*numbers, tag))

    @property
    def weighs(self) -> bool:
        """Whether it is made by how much columns count: of K types, as in mistral.rs."""
        is_made = isinstance(getattr(self.transcoder, "encoder", None), Quantizer)
        return is_made and self.kind.is_weighed

    def weighted(self, numbers: Sequence[bytes]) -> Transcoder:
        """Return what makes it by the importance of columns.

        Args:
            numbers: a float32 for each column, of each matrix of a source.
        """
        made = self.transcoder
        assert isinstance(made, Recode)
        encoder = made.encoder
        assert isinstance(encoder, Quantizer)
        encoders = tuple(replace(encoder, importance=one) for one in numbers)
        if len(encoders) == 1:
            return Recode(made.decoder, encoders[0])
        return RecodeStack(made.decoder, encoders)

    def _numbers(self, shape: Shape) -> dict[str, int | Shape]:
        match self.kind.family:
            case Family.GGML:
                return {"dtype": NAMED[self.kind.kind].number, "shape": shape}
            case Family.HQQ:
                return {
                    "shape": shape,
                    "bits": self.kind.bits,
                    "group_size": GROUP,
                    "axis": 0,
                    "optimization_steps": STEPS,
                    "round_zeros": 0,
                    "channel_wise": 1,
                }
            case Family.FP8:
                return {"dtype": _E4M3}
            case Family.AFQ:
                spec = self.kind.spec
                return {"bits": spec.bits, "group_size": spec.group_size}
            case Family.F8Q8:
                (data,) = self.transcoder.parts(shape)
                return {"num_blocks": data.nbytes // BLOCK_BYTES, "shape": shape}
            case _:
                return {}


def made_form(kind: UqffType, decoder: Decoder, dtype: str) -> Form:
    """Return the form that quantizes values.

    Args:
        decoder: of values.
        dtype: that they are rounded to before.
    """
    values = decoder if decoder.value_dtype == dtype else Rounded(decoder, dtype)
    wide = values if dtype == _WIDE else Rounded(values, _WIDE)
    transcoder: Transcoder
    match kind.family:
        case Family.AFQ | Family.MXFP4:
            transcoder = Recode(values, UqffGroups(kind.spec, dtype))
        case Family.GGML:
            transcoder = Recode(values, quantizer(kind.kind, dtype))
        case Family.HQQ:
            transcoder = ToHqq(wide, kind.bits)
        case Family.FP8:
            narrow = values if dtype == VALUES else Rounded(values, VALUES)
            transcoder = ToFp8(narrow)
        case Family.F8Q8:
            transcoder = Recode(wide, F8Q8Encoder())
        case _:
            return plain_form(Recode(decoder, Cast(decoder.value_dtype, dtype)))
    return Form(kind, transcoder)


def stored_form(decoder: Decoder, shape: Shape) -> Form | None:
    """Return the form that keeps codes and scales, or None where UQFF has none for them."""
    if isinstance(decoder, Described):
        return None
    if has_blocks(decoder) and str(decoder) in NAMED:
        ggml = _TYPES.get((Family.GGML, str(decoder)))
        return None if ggml is None else Form(ggml, transcoder_for(None, decoder))
    spec = type_held(decoder, shape)
    if spec is None or hasattr(decoder, "keeping"):
        return None
    family = Family.AFQ if spec.has_bias else Family.MXFP4
    if (kind := _TYPES.get((family, spec.name))) is None:
        return None
    if spec.has_bias:
        kind = replace(kind, group_size=spec.group_size)
    return Form(kind, transcoder_for(spec, decoder, exact=stored_type(decoder) != spec))


def plain_form(transcoder: Transcoder) -> Form:
    """Return the form of a layer that is not quantized."""
    return Form(TYPES[UNQUANTIZED], transcoder)


_TYPES: Final = {(one.family, one.kind): one for one in TYPES.values()}


def _arrays(form: Form, name: str, shape: Shape) -> list[Array]:
    """Return the arrays of a layer, in the order of the transcoder's parts."""
    parts = form.transcoder.parts(shape)
    data, small = parts[0], parts[1:]
    *outer, columns = shape
    match form.kind.family:
        case Family.GGML | Family.F8Q8:
            nbytes = sum(part.nbytes for part in parts)
            return [Array(name, "U8", (nbytes,), nbytes)]
        case Family.MXFP4:
            packed = Array(name, "U8", (*outer, columns // 2), data.nbytes)
            return [packed, *(_array(name, part, ".scales") for part in small)]
        case Family.HQQ:
            rows, width = len(parts) - 2, math.prod(shape) // GROUP
            packed = Array(name, "U8", (rows, width), rows * width, rows)
            return [packed, *(_array(name, part, part.suffix) for part in parts[rows:])]
        case _:
            ends = (_ENDS.get(part.suffix, part.suffix) for part in small)
            return [
                _array(name, data, ""),
                *(_array(name, part, end) for part, end in zip(small, ends, strict=True)),
            ]


def _array(name: str, part: Part, suffix: str) -> Array:
    return Array(name + suffix, part.dtype, part.shape, part.nbytes)


def _number(name: str, dtype: str, values: int | Shape) -> Constant:
    """Return a small entry: a scalar, or a list."""
    numbers = (values,) if isinstance(values, int) else values
    data = b"".join(number.to_bytes(_SIZES[dtype], "little") for number in numbers)
    return Constant(name, dtype, () if isinstance(values, int) else (len(numbers),), data)
