"""Codecs: what becomes of a tensor's rows."""

from __future__ import annotations

from importer.codecs.base import Codec, Part
from importer.codecs.plain import Plain
from importer.quant import QuantSpec
from store.errors import UnsupportedError

__all__ = ["Codec", "Part", "Plain", "codec_for"]


def codec_for(quant: QuantSpec | None, dtype: str) -> Codec:
    """The codec that turns rows of `dtype` into `quant`, or keeps them.

    Raises:
        UnsupportedError: there is none.
    """
    if quant is None:
        return Plain(dtype)
    raise UnsupportedError(f"quantizing {dtype} to {quant.name}", code="E_QUANT")
