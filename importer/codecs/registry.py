"""Which codec makes what: from a type's name in `spec.QUANT_TYPES` to the module that has it."""

from __future__ import annotations

import functools
import importlib
from typing import cast

from importer.codecs.base import Codec, Decoder, Transcoder
from importer.codecs.cast import Cast
from importer.codecs.plain import Plain
from importer.codecs.spec import Downcast, QuantSpec, Target
from importer.codecs.transcode import Copy, Recode


@functools.cache
def codec_for(spec: QuantSpec, dtype: str) -> Codec:
    """Return the codec of a quantization type for values of `dtype`.

    Raises:
        UnsupportedError: values of `dtype` cannot be quantized, or not in such groups.
    """
    module = importlib.import_module(spec.codec)
    return cast("Codec", module.codec(spec, dtype))


@functools.cache
def transcoder_for(target: Target, decoder: Decoder) -> Transcoder:
    """Return what makes `target` of values that are stored as `decoder` reads them.

    Args:
        target: a type, or None to keep the bytes of a plain array.

    Raises:
        UnsupportedError: such values cannot become the target.
    """
    dtype = decoder.value_dtype
    if target is None:
        assert isinstance(decoder, Plain), "arrays of a scheme are kept one by one"
        return Copy(dtype)
    if isinstance(target, Downcast):
        return Recode(decoder, Cast(dtype, target.dtype))
    return Recode(decoder, codec_for(target, dtype))
