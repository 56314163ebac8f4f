"""The floats of compressed-tensors: FP8 with scales, NVFP4, MXFP4 and MXFP8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from importer.codecs.registry import codec_for
from importer.codecs.scaled.block_fp8 import BlockFp8
from importer.codecs.scaled.global_scaled import GROUPS, GlobalNvfp4, ScaledFp4
from importer.codecs.spec import QUANT_TYPES
from importer.sources.schemes.compressed_tensors.config import CtGroup
from importer.sources.schemes.compressed_tensors.integers import check_order
from importer.sources.schemes.fp8.blocks import Declared, fitting_block, fp8_decoder
from importer.sources.schemes.fp8.scheme import READ, join_weight
from importer.sources.schemes.parts import Parts, contradict, told
from importer.sources.tensor import SourceTensor
from store.text import printable

_FP4: Final = 4
_FP8: Final = 8
_IN_A_BYTE: Final = 2
_NVFP4, _MXFP4 = QUANT_TYPES["nvfp4"], QUANT_TYPES["mxfp4"]


def join_fp8(
    parts: Parts, arrays: tuple[SourceTensor, SourceTensor], groups: Sequence[CtGroup]
) -> None:
    """Make one tensor of FP8 codes and their scales.

    Raises:
        InputError: they do not fit each other or their group.
    """
    weight, scale = arrays
    fitting = [group for group in groups if (group.kind, group.bits) == ("float", _FP8)]
    if groups and not fitting:
        said = " and ".join(map(str, groups))
        contradict(weight, f"is {weight.dtype}, and config.json says {said}")
    declared = Declared(fitting[0].block) if fitting else Declared()
    if len({group.block for group in fitting}) > 1:
        declared = Declared(_one_of(arrays, fitting).block)
    order = parts.get(f"{weight.name}_g_idx")
    if order is None or weight.dtype not in READ:
        join_weight(parts, weight, scale, declared)
        return
    decoder = fp8_decoder(weight, scale, declared, may_be_mx=False)
    assert isinstance(decoder, BlockFp8)
    check_order(order, weight, weight.shape, decoder.block)
    made = replace(decoder, has_order=True)
    parts.join(weight.name, weight.shape, (weight, scale, order), made)


def _one_of(arrays: tuple[SourceTensor, SourceTensor], groups: Sequence[CtGroup]) -> CtGroup:
    """Return the one group that the shapes of FP8 codes and scales tell."""
    weight, scale = arrays
    blocks = {group: fitting_block(weight, scale, group.block) for group in groups}
    fitting = [group for group, block in blocks.items() if block is not None]
    if len({blocks[group] for group in fitting}) != 1:
        which = "fits none" if not fitting else "fits several"
        said = " and ".join(map(str, fitting or groups))
        contradict(
            weight,
            f"{list(weight.shape)} has {told(scale)}, which {which} of the groups that "
            f"config.json allows: {said}",
        )
    return fitting[0]


def join_fp4(
    parts: Parts,
    stem: str,
    arrays: tuple[SourceTensor, SourceTensor],
    groups: Sequence[CtGroup],
    values: Mapping[str, bytes],
) -> None:
    """Make one tensor of FP4 codes and their scales.

    Args:
        stem: of the names.
        arrays: codes and scales.
        groups: that the module may belong to.
        values: of small arrays, by name.

    Raises:
        InputError: they do not fit each other or their group.
    """
    packed, scale = arrays
    if (order := parts.get(f"{stem}.weight_g_idx")) is not None:
        parts.leave(packed, f"`{printable(order.name)}` tells the groups of its columns")
        return
    sizes = {group.bits for group in groups if group.kind == "float"}
    if groups and _FP4 not in sizes:
        if sizes == {6}:
            parts.leave(packed, "the format is mxfp6-pack-quantized")
            return
        said = " and ".join(map(str, groups))
        contradict(packed, f"is {packed.dtype}, and config.json says {said}")
    *rows, nbytes = packed.shape or (0,)
    shape = (*rows, nbytes * _IN_A_BYTE)
    whole = parts.get(f"{stem}.weight_global_scale")
    size = _group_size(packed, scale, shape)
    fitting = [group for group in groups if group.bits == _FP4 and group.block == (1, size)]
    if groups and not fitting:
        said = " and ".join(map(str, groups))
        contradict(
            packed,
            f"{list(packed.shape)} has {told(scale)}, groups of {size}, and config.json "
            f"says {said}",
        )
    name = f"{stem}.weight"
    if whole is None:
        other = parts.get(f"{stem}.global_scale")
        if other is not None:
            parts.leave(packed, f"`{printable(other.name)}` is not compressed-tensors' own")
            return
        if scale.dtype not in {"U8", "F8_E8M0"} or size != _MXFP4.group_size:
            contradict(packed, f"has {told(scale)}, and no `{stem}.weight_global_scale`")
        parts.join(name, shape, arrays, codec_for(_MXFP4, "BF16"))
        return
    decoder = _divided((packed, scale, whole), shape, values.get(whole.name, b""))
    parts.join(name, shape, (*arrays, whole), decoder)


def _divided(
    arrays: tuple[SourceTensor, SourceTensor, SourceTensor],
    shape: tuple[int, ...],
    value: bytes,
) -> ScaledFp4:
    """Return what reads codes whose scales are divided by that of their matrix.

    Args:
        value: of the divisors; all 0 where it cannot be read.
    """
    packed, scale, whole = arrays
    if scale.dtype != "F8_E4M3" or whole.dtype != "F32":
        contradict(packed, f"has {told(scale)} and {told(whole)}, expected F8_E4M3 and F32")
    size = _group_size(packed, scale, shape)
    if size not in GROUPS:
        contradict(packed, f"has {told(scale)}, groups of {size}, expected 16 or 32")
    count, matrices = whole.nbytes // 4, ScaledFp4(size).matrices(shape)
    if count not in {1, matrices}:
        contradict(packed, f"{list(packed.shape)} has {told(whole)}, expected one number")
    if size == _NVFP4.group_size and whole.shape == (1,) == (matrices,):
        from importer.codecs.scaled.scaling import has_way_back  # noqa: PLC0415 - it imports numpy

        if not any(value) or has_way_back(value):
            return GlobalNvfp4(divides=True)
    return ScaledFp4(size, divides=True, is_shared=count < matrices)


def _group_size(packed: SourceTensor, scale: SourceTensor, shape: tuple[int, ...]) -> int:
    *rows, columns = shape
    *outer, groups = scale.shape or (0,)
    if rows != outer or not groups or columns % groups:
        contradict(packed, f"{list(packed.shape)} does not fit {told(scale)}")
    return columns // groups
