"""FP8 weights with scales, under any of their usual names: DeepSeek's, fbgemm's, diffusers'."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.dtypes import FP8
from importer.sources.schemes.base import Clue
from importer.sources.schemes.declaration import is_foreign, method_of
from importer.sources.schemes.fp8.stacked import stacked_scale
from store.errors import InputError
from store.json import Json
from store.text import printable

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.schemes.fp8.blocks import Declared
    from importer.sources.schemes.parts import Parts
    from importer.sources.tensor import SourceTensor

_BLOCK_SCALES: Final = (".weight_scale_inv",)
_SCALES: Final = (".weight_scale", ".scale", ".scale_weight", ".qscale_weight")
READ: Final = ("F8_E4M3", "F8_E5M2")
"""The dtypes of FP8 that are decoded."""
_FP4: Final = 2
"""Codes of E2M1 in a byte."""
_SIDES: Final = 2
_LARGEST_BLOCK: Final = 1 << 20


class Fp8:
    """A weight of 8 bits, and beside it a scale."""

    decodes: Final = True

    def __init__(self, recognizes: Callable[[Clue], bool], *, is_block: bool) -> None:
        """Take the names of DeepSeek's scales of blocks, or all others."""
        self.recognizes: Final = recognizes
        self._ends = _BLOCK_SCALES if is_block else _SCALES
        self._after = ("_scale_inv",) if is_block else ("_scale", "_weight_scale")
        self._is_last = not is_block

    def join(
        self, tensors: Sequence[SourceTensor], config: Mapping[str, Json]
    ) -> Sequence[SourceTensor]:
        """Make one tensor of each weight and its scale.

        Raises:
            InputError: a scale does not fit its weight or the configuration.
        """
        if not any(tensor.dtype in FP8 and tensor.is_plain for tensor in tensors) and not any(
            tensor.name.endswith(self._ends) for tensor in tensors
        ):
            return tensors
        if self._is_last and is_foreign(method_of(config)):
            return tensors
        from importer.sources.schemes.parts import Parts  # noqa: PLC0415 - as above

        parts, declared = Parts(tensors), declared_block(config)
        for weight in list(parts.arrays.values()):
            if (scale := self._scale_of(weight, parts)) is not None:
                may_be_mx = _may_be_mx(weight, scale, declared, config)
                join_weight(parts, weight, scale, declared, may_be_mx=may_be_mx)
        return parts.tensors

    def _scale_of(self, weight: SourceTensor, parts: Parts) -> SourceTensor | None:
        if weight.dtype not in {*FP8, "I8", "U8"}:
            return None
        if weight.name.endswith(".weight"):
            stem = weight.name.removesuffix(".weight")
            found = [scale for end in self._ends if (scale := parts.get(stem + end))]
        else:
            found = [scale for end in self._after if (scale := parts.get(weight.name + end))]
        if not found and not self._is_last and (scale := stacked_scale(weight, parts)):
            found = [scale]
        if weight.dtype not in FP8:
            # Two codes of four bits in a byte, as DeepSeek's experts may have them.
            found = [scale for scale in found if scale.dtype == "F8_E8M0"]
        if len(found) > 1:
            from importer.sources.schemes.parts import contradict  # noqa: PLC0415 - as above

            names = " and ".join(f"`{printable(one.name)}`" for one in found)
            contradict(weight, f"has two scales, {names}")
        return found[0] if found else None


def join_weight(
    parts: Parts,
    weight: SourceTensor,
    scale: SourceTensor,
    declared: Declared,
    *,
    may_be_mx: bool = True,
) -> None:
    """Make one tensor of a weight and its scale.

    Args:
        may_be_mx: as for `fp8_decoder`.

    Raises:
        InputError: they do not fit each other or what is declared.
    """
    from importer.codecs.registry import codec_for  # noqa: PLC0415 - as above
    from importer.codecs.spec import QUANT_TYPES  # noqa: PLC0415
    from importer.sources.schemes.fp8.blocks import fp8_decoder  # noqa: PLC0415
    from importer.sources.schemes.parts import contradict, told  # noqa: PLC0415

    if weight.dtype in READ:
        decoder = fp8_decoder(weight, scale, declared, may_be_mx=may_be_mx)
        parts.join(weight.name, weight.shape, (weight, scale), decoder)
    elif weight.dtype in FP8:
        parts.leave(weight, f"{weight.dtype} has other values than the FP8 of the OCP")
        parts.leave(scale, f"it is the scale of `{weight.name}`")
    else:
        spec = QUANT_TYPES["mxfp4"]
        *outer, nbytes = weight.shape or (0,)
        shape = (*outer, nbytes * _FP4)
        groups = (*outer, shape[-1] // spec.group_size)
        if scale.shape != groups or shape[-1] % spec.group_size:
            contradict(
                weight, f"{weight.dtype} {list(weight.shape)} does not fit {told(scale)}"
            )
        parts.join(weight.name, shape, (weight, scale), codec_for(spec, "BF16"))


def declared_block(config: Mapping[str, Json]) -> Declared:
    """Return the blocks that config.json declares, as transformers reads it.

    Raises:
        InputError: they are not two positive numbers.
    """
    from importer.sources.schemes.fp8.blocks import NOTHING, Declared  # noqa: PLC0415 - as above

    said = config.get("quantization_config")
    if not isinstance(said, dict) or said.get("quant_method") != "fp8":
        return NOTHING
    size = said.get("weight_block_size")
    if size is None:
        return NOTHING
    where = "config.json (`weight_block_size`)"
    if isinstance(size, list) and len(size) == _SIDES:
        down, across = size
        is_number = type(down) is int and type(across) is int
        if is_number and 0 < down <= _LARGEST_BLOCK and 0 < across <= _LARGEST_BLOCK:  # type: ignore[operator]
            return Declared((down, across), where)  # type: ignore[arg-type]
    raise InputError(
        f"{where} is {printable(str(size))}, expected two positive numbers", code="E_CONFIG"
    )


def _may_be_mx(
    weight: SourceTensor, scale: SourceTensor, declared: Declared, config: Mapping[str, Json]
) -> bool:
    """Return whether an export can name the arrays again, where MXFP8's block is declared."""
    from importer.sources.schemes.fp8 import transformers  # noqa: PLC0415 - as above

    if declared.block is None or list(declared.block) != transformers.BLOCK:
        return True
    is_known = (
        scale.name == weight.name + transformers.END and scale.dtype == transformers.SCALES
    )
    return is_known and transformers.converts(config, weight.own_name.removesuffix(".weight"))
