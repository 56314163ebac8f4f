"""Codecs: what becomes of a tensor's rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from importer.codecs.affine import Affine
from importer.codecs.base import Codec, Operation
from importer.codecs.cast import Cast
from importer.codecs.grouped import Grouped
from importer.codecs.mxfp import Mxfp
from importer.codecs.nvfp4 import Nvfp4
from importer.codecs.plain import Plain
from importer.codecs.spec import VALUE_DTYPES, Downcast, Mode, Target
from store.errors import UnsupportedError

_WORTH_LOADING: Final = 16 << 20
"""Below, numpy alone on two cores is done before kernels are loaded, which takes 40 ms."""

_FAMILIES: Final[Mapping[Mode, type[Grouped]]] = MappingProxyType(
    {
        Mode.AFFINE: Affine,
        Mode.NVFP4: Nvfp4,
        Mode.MXFP4: Mxfp,
        Mode.MXFP8: Mxfp,
    }
)


@functools.cache
def codec_for(target: Target, dtype: str) -> Codec:
    """The codec that turns rows of `dtype` into `target`, or keeps them.

    Raises:
        UnsupportedError: values of `dtype` cannot be quantized, or not in such groups.
    """
    if target is None:
        return Plain(dtype)
    if isinstance(target, Downcast):
        return Cast(dtype, target.dtype)
    quant = target
    if dtype not in VALUE_DTYPES:
        raise UnsupportedError(
            f"quantizing {dtype} to {quant.name}: expected {', '.join(VALUE_DTYPES)}",
            code="E_QUANT_DTYPE",
        )
    family = _FAMILIES[quant.mode]
    if quant.group_size not in family.GROUP_SIZES:
        sizes = ", ".join(map(str, sorted(family.GROUP_SIZES)))
        raise UnsupportedError(
            f"{quant.name} in groups of {quant.group_size}: expected {sizes}",
            code="E_QUANT_GROUP",
        )
    return family(quant, dtype)


def prepare(
    work: Mapping[Codec, int],
    announce: Callable[[], None],
    operations: Collection[Operation] = (Operation.ENCODE,),
) -> str | None:
    """Make codecs fast, where that is worth the time: they are right without.

    To be called once, before threads use the codecs.

    Args:
        work: for each codec the bytes of the source that it will quantize, or of the values
            that it will decode to.
        announce: called at most once, before kernels are compiled, which takes seconds. They
            are kept on disk, so that this happens once on a machine.
        operations: that will be needed.

    Returns:
        Why kernels cannot be had, which makes this some twenty times slower, or None.
    """
    families = {codec: n for codec, n in work.items() if isinstance(codec, Grouped)}
    if sum(families.values()) < _WORTH_LOADING:
        return None
    from importer.codecs import runtime  # noqa: PLC0415 - it imports numpy

    return runtime.prepare(families, announce, operations)
