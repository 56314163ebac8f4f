"""Weights that compressed-tensors (llm-compressor) packed: integers, FP8, FP4 and MX types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.dtypes import FP8
from importer.sources.schemes.base import Clue
from importer.sources.schemes.recognized import is_compressed_tensors
from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.schemes.compressed_tensors.config import CtConfig
    from importer.sources.schemes.parts import Parts
    from importer.sources.tensor import SourceTensor

_PACKED: Final = ".weight_packed"
_WEIGHT: Final = ".weight"
_SCALE: Final = ".weight_scale"
_SPARSE: Final = (".scale_packed", ".meta", ".bitmask")
"""What stands beside the weights of formats that are not read: marlin-24, sparse-bitmask."""


class CompressedTensors:
    """Codes beside `weight_scale`, and what else its formats have."""

    decodes: Final = True

    def recognizes(self, clue: Clue) -> bool:
        """Return whether an array is packed by compressed-tensors, or declared to be."""
        return is_compressed_tensors(clue)

    def join(
        self, tensors: Sequence[SourceTensor], config: Mapping[str, Json]
    ) -> Sequence[SourceTensor]:
        """Make one tensor of the arrays of each quantized weight.

        Raises:
            InputError: arrays are missing, or contradict each other or config.json.
        """
        is_packed = any(tensor.name.endswith(_PACKED) for tensor in tensors)
        keys = ("quantization_config", "compression_config")
        if not is_packed and not any(key in config for key in keys):
            return tensors
        from importer.sources.schemes.compressed_tensors.config import read_config  # noqa: PLC0415 - as above
        from importer.sources.schemes.parts import Parts  # noqa: PLC0415

        said = read_config(config)
        if not (is_packed or said.is_declared):
            return tensors
        parts = Parts(tensors)
        if said.transforms:
            _leave_all(parts, said.transforms[0])
            return parts.tensors
        self._join_packed(parts, said)
        if said.is_declared:
            self._join_whole(parts, said)
            _check_scales(parts)
        return parts.tensors

    def _join_packed(self, parts: Parts, said: CtConfig) -> None:
        from importer.sources.schemes.compressed_tensors import floats as ct_float  # noqa: PLC0415 - as above
        from importer.sources.schemes.compressed_tensors import integers as ct_int  # noqa: PLC0415 - as above
        from importer.sources.schemes.parts import contradict, read_small  # noqa: PLC0415

        found = list(parts.ending(_PACKED))
        small = (".weight_shape", ".weight_global_scale")
        values = read_small(
            tensor
            for stem, _, _ in found
            for end in small
            if (tensor := parts.get(stem + end)) is not None and tensor.nbytes <= 64  # noqa: PLR2004
        )
        for stem, _, packed in found:
            if any(parts.get(stem + end) is not None for end in _SPARSE):
                parts.leave(packed, "the format is marlin-24 or another sparse one")
                continue
            scale = parts.get(stem + _SCALE)
            if scale is None:
                contradict(packed, f"has no `{stem}{_SCALE}`")
            module = _module(stem, packed)
            _check_not_ignored(packed, module, said)
            if packed.dtype == "I32":
                ct_int.join_words(parts, stem, (packed, scale), said.groups_of(module), values)
            elif packed.dtype == "U8":
                ct_float.join_fp4(parts, stem, (packed, scale), said.groups_of(module), values)
            else:
                contradict(packed, f"is {packed.dtype}, expected I32 or U8")

    def _join_whole(self, parts: Parts, said: CtConfig) -> None:
        from importer.sources.schemes.compressed_tensors import floats as ct_float  # noqa: PLC0415 - as above
        from importer.sources.schemes.compressed_tensors import integers as ct_int  # noqa: PLC0415 - as above

        for stem, _, weight in list(parts.ending(_WEIGHT)):
            if weight.dtype not in FP8 and weight.dtype != "I8":
                continue
            scale = parts.get(stem + _SCALE)
            module = _module(stem, weight)
            if scale is None:
                continue  # what is left over is refused later
            _check_not_ignored(weight, module, said)
            groups = said.groups_of(module)
            if weight.dtype == "I8":
                ct_int.join_bytes(parts, stem, (weight, scale), groups)
            else:
                ct_float.join_fp8(parts, (weight, scale), groups)


def _leave_all(parts: Parts, transform: str) -> None:
    """Leave weights as they are, quantized or not: they are not those of the model."""
    from store.text import printable  # noqa: PLC0415 - as above

    why = (
        "config.json's `transform_config` multiplies inputs or outputs by a matrix when the "
        f"model runs (`{printable(transform)}`)"
    )
    for stem, _, weight in list(parts.ending(_PACKED, _WEIGHT)):
        # The matrix itself is `X.<transform>_input.weight`.
        if len(weight.shape) > 1 and not stem.endswith(("_input", "_output")):
            parts.leave(weight, why)


def _module(stem: str, array: SourceTensor) -> str:
    """Return the module as config.json calls it: without the component."""
    return stem.removeprefix(f"{array.component}/") if array.component else stem


def _check_not_ignored(array: SourceTensor, module: str, said: CtConfig) -> None:
    from importer.sources.schemes.parts import contradict  # noqa: PLC0415 - as above

    if said.ignores(module):
        contradict(
            array, f"is {array.dtype}, and config.json says (`ignore`) that it is not quantized"
        )


def _check_scales(parts: Parts) -> None:
    """Refuse scales whose weight is not there."""
    from importer.sources.schemes.parts import contradict  # noqa: PLC0415 - as above

    for stem, _, scale in list(parts.ending(_SCALE)):
        if parts.arrays.keys().isdisjoint(stem + end for end in (_WEIGHT, _PACKED, *_SPARSE)):
            contradict(scale, "is the scale of a weight that is not there")
