"""Which codec makes a type, and which transcoder makes a tensor what it is to become."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Protocol, cast

from importer.codecs.base import Blocks, Codec, Coded, Decoder, Shape, Transcoder
from importer.codecs.cast import Cast
from importer.codecs.plain import Plain, is_plain
from importer.codecs.spec import FloatType, Mode, QuantSpec, Target
from importer.codecs.transcode import (
    Copy,
    CopyParts,
    Gather,
    KeepBlocks,
    Recode,
    Repack,
)

if TYPE_CHECKING:
    from importer.codecs.grouped import Grouped


class Kept(Decoder, Protocol):
    """A decoder of a type of the store, in a form that the type's own codec does not make.

    Example: NVFP4 with a scale of the whole tensor.
    """

    @property
    def spec(self) -> QuantSpec:
        """The type."""
        ...

    @property
    def keeping(self) -> Transcoder:
        """What keeps its codes and scales."""
        ...


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
    if hasattr(decoder, "keeping"):
        return cast("Kept", decoder).spec
    spec = getattr(decoder, "spec", None)
    if not isinstance(spec, QuantSpec) or codec_for(spec, decoder.value_dtype) != decoder:
        return None
    return spec


def has_blocks(decoder: Decoder) -> bool:
    """Return whether the store keeps the blocks that a decoder reads, under its name."""
    return (
        hasattr(decoder, "stored_shape") or getattr(decoder, "blocks_moved", None) is not None
    )


def type_held(decoder: Decoder, shape: Shape) -> QuantSpec | None:
    """Return the type of the store that holds the codes of a decoder exactly, or None.

    Args:
        shape: of the tensor, in elements.
    """
    if (stored := stored_type(decoder)) is not None:
        return stored
    return cast("Coded", decoder).holds(shape) if hasattr(decoder, "holds") else None


@functools.cache
def transcoder_for(target: Target, decoder: Decoder, *, exact: bool = False) -> Transcoder:
    """Return the transcoder that makes `target` of arrays that `decoder` reads.

    Args:
        target: a type, or None to keep what is stored: the values of a plain array, or the
            codes and scales of a type of the store.
        exact: whether `type_held` gave the target, so that codes and values stay.

    Raises:
        UnsupportedError: values of that dtype cannot become the target.
    """
    dtype = decoder.value_dtype
    wanted = target.stored if isinstance(target, QuantSpec) else target
    if wanted is None or wanted == stored_type(decoder):
        return _keeping(decoder)
    if isinstance(target, FloatType):
        decoder = _exact_in(target.dtype, decoder)
        return Recode(decoder, Cast(decoder.value_dtype, target.dtype))
    assert isinstance(target, QuantSpec), "what a tensor becomes has been decided"
    if exact:
        return Repack(cast("Coded", decoder), codec_for(target.stored, dtype))
    return Recode(decoder, codec_for(target, dtype))


def _exact_in(dtype: str, decoder: Decoder) -> Decoder:
    """Return what decodes to F32 where the dtype that MLX decodes to would round values.

    The least ones of MXFP8 are 2 ** -136; those of types of 4 bits are all in BF16.
    """
    spec = stored_type(decoder)
    if dtype != "F32" or spec is None or decoder.value_dtype == dtype:
        return decoder
    if spec.mode is Mode.MXFP8:
        return codec_for(spec, dtype)
    if spec.mode is Mode.AFFINE:
        from importer.codecs.widened import Widened  # noqa: PLC0415 - few ask for it

        return Widened(cast("Grouped", decoder))
    return decoder


def _keeping(decoder: Decoder) -> Transcoder:
    """Return what keeps values, blocks, or the codes and scales of a type of the store."""
    dtype, stored = decoder.value_dtype, stored_type(decoder)
    if hasattr(decoder, "keeping"):
        return cast("Kept", decoder).keeping
    if stored is not None:
        return CopyParts(codec_for(stored, dtype))
    if is_plain(decoder):
        return Copy(dtype) if isinstance(decoder, Plain) else Gather(decoder)
    assert has_blocks(decoder), "the arrays of a scheme are kept one by one"
    if hasattr(decoder, "stored_shape"):
        return KeepBlocks(cast("Blocks", decoder))
    from importer.codecs.views.moved import MoveBlocks, Rearranged  # noqa: PLC0415 - few need it

    return MoveBlocks(cast("Rearranged", decoder))
