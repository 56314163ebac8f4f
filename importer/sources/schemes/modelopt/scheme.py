"""Weights that NVIDIA's ModelOpt exported: FP8, NVFP4, MXFP4, MXFP8, and integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.dtypes import FP8
from importer.sources.schemes.base import Clue
from importer.sources.schemes.recognized import is_modelopt
from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.schemes.modelopt.config import Algorithm
    from importer.sources.schemes.parts import Parts
    from importer.sources.tensor import SourceTensor

_WEIGHT: Final = ".weight"
_SCALE: Final = ".weight_scale"
_SECOND: Final = ".weight_scale_2"
_PACKED: Final = ("U8", "I8")
_INPUTS: Final = ".pre_quant_scale"
_LOW_RANK: Final = (".svdquant_lora_a", ".svdquant_lora_b")
"""What is added to the weights."""


class ModelOpt:
    """A weight beside `weight_scale` and, of NVFP4, `weight_scale_2`."""

    decodes: Final = True

    def recognizes(self, clue: Clue) -> bool:
        """Return whether an array is a scale of ModelOpt's."""
        return is_modelopt(clue)

    def join(
        self, tensors: Sequence[SourceTensor], config: Mapping[str, Json]
    ) -> Sequence[SourceTensor]:
        """Make one tensor of each weight and its scales.

        Args:
            tensors: of one directory.
            config: its config.json, with what hf_quant_config.json says.

        Raises:
            InputError: scales are missing, or do not fit their weight or the configuration.
        """
        from importer.sources.schemes.modelopt.config import read_algorithms  # noqa: PLC0415

        if not any(tensor.name.endswith(_SCALE) for tensor in tensors):
            return tensors
        said = read_algorithms(config)
        if said is None and not any(tensor.name.endswith(_SECOND) for tensor in tensors):
            return tensors
        from importer.sources.schemes.parts import Parts, contradict  # noqa: PLC0415 - as above

        parts = Parts(tensors)
        for stem, _, scale in list(parts.ending(_SCALE)):
            weight = parts.get(stem + _WEIGHT)
            if weight is None:
                contradict(scale, "is the scale of a weight that is not there")
            if weight.dtype not in FP8 and weight.dtype not in _PACKED:
                continue
            module = stem.removeprefix(f"{scale.component}/") if scale.component else stem
            algorithm = None if said is None else said.of(module)
            beside = [end for end in _LOW_RANK if parts.get(stem + end)]
            if beside:
                for array in (weight, scale):
                    parts.leave(array, f"`{beside[0][1:]}` beside it belongs to its values")
                continue
            self._join(parts, stem, (weight, scale), algorithm)
        return parts.tensors

    def _join(
        self,
        parts: Parts,
        stem: str,
        arrays: tuple[SourceTensor, SourceTensor],
        algorithm: Algorithm | None,
    ) -> None:
        from importer.sources.schemes.modelopt import types  # noqa: PLC0415 - as above
        from importer.sources.schemes.parts import contradict, told  # noqa: PLC0415

        weight, scale = arrays
        second = parts.get(stem + _SECOND)
        inputs = parts.get(stem + _INPUTS)
        if algorithm is not None and not algorithm.is_quantized:
            contradict(weight, f"has {told(scale)}, and {algorithm} is not quantized")
        made: types.Read | None
        if second is not None:
            made = types.nvfp4((weight, scale, second), algorithm)
        elif weight.dtype in FP8:
            made = types.fp8(arrays, algorithm)
        elif scale.dtype in {"U8", "F8_E8M0"}:
            made = types.mxfp4(arrays, algorithm)
        elif weight.dtype == "U8":
            made = types.int4(arrays, algorithm)
        else:
            made = types.int8(arrays, algorithm)
        every = [*arrays, *([] if second is None else [second])]
        if made is None:
            for array in every:
                parts.leave(array, f"{weight.dtype} has other values than the FP8 of the OCP")
            return
        if inputs is not None:
            made = types.with_inputs(made, inputs)
            every.append(inputs)
        parts.join(weight.name, made.shape, every, made.decoder)
