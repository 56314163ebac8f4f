"""Which codec makes a type, and which transcoder makes a tensor what it is to become."""

from __future__ import annotations

import functools
import importlib
from typing import cast

from importer.codecs.base import Codec, Decoder, Transcoder
from importer.codecs.cast import Cast
from importer.codecs.plain import Plain
from importer.codecs.spec import Downcast, QuantSpec, Target
from importer.codecs.strided import Strided
from importer.codecs.transcode import Copy, Gather, Recode, Repack


@functools.cache
def codec_for(spec: QuantSpec, dtype: str) -> Codec:
    """Return the codec of a quantization type for values of `dtype`.

    Raises:
        UnsupportedError: values of `dtype` cannot be quantized, or not in such groups.
    """
    module = importlib.import_module(spec.codec)
    return cast("Codec", module.codec(spec, dtype))


def stored_type(decoder: Decoder) -> QuantSpec | None:
    """Return the type of the store whose arrays a decoder reads, or None for others."""
    spec = getattr(decoder, "spec", None)
    if not isinstance(spec, QuantSpec) or codec_for(spec, decoder.value_dtype) != decoder:
        return None
    return spec


@functools.cache
def transcoder_for(target: Target, decoder: Decoder) -> Transcoder:
    """Return the transcoder that makes `target` of arrays that `decoder` reads.

    Args:
        target: a type, or None to keep what is stored: the values of a plain array, or the
            codes and scales of a type of the store.

    Raises:
        UnsupportedError: values of that dtype cannot become the target.
    """
    dtype, stored = decoder.value_dtype, stored_type(decoder)
    if stored is not None and target in {None, stored}:
        return Repack(codec_for(stored, dtype))
    if target is None:
        if isinstance(decoder, Strided):
            return Gather(decoder)
        assert isinstance(decoder, Plain), "the arrays of a scheme are kept one by one"
        return Copy(dtype)
    if isinstance(target, Downcast):
        return Recode(decoder, Cast(dtype, target.dtype))
    return Recode(decoder, codec_for(target, dtype))
