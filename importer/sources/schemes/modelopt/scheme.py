"""Weights that NVIDIA's ModelOpt exported: FP8, NVFP4, MXFP4, MXFP8, and integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.dtypes import FP8
from importer.sources.schemes.base import Clue
from importer.sources.schemes.declaration import is_foreign, method_of
from importer.sources.schemes.recognized import is_modelopt
from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.schemes.modelopt.config import Algorithm
    from importer.sources.schemes.parts import Parts
    from importer.sources.tensor import SourceTensor

_SCALE: Final = "weight_scale"
_SECOND: Final = "weight_scale_2"
_ROUNDED: Final = "W4A8_AWQ"
_PACKED: Final = ("U8", "I8")
_INPUTS: Final = "pre_quant_scale"
_LOW_RANK: Final = ("svdquant_lora_a", "svdquant_lora_b")
"""What is added to the weights."""
_ENDS: Final = (f".{_SCALE}", f"_{_SCALE}")
"""Of the scales of a module's `weight`, and of stacked experts, which are not modules."""
_MODULE: Final = "."
_SIDES: Final = 3


class ModelOpt:
    """A weight beside `weight_scale` and, of NVFP4, `weight_scale_2`.

    Of stacked experts `X` these are `X_weight_scale` and `X_weight_scale_2`.
    """

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

        if not any(tensor.name.endswith(_ENDS) for tensor in tensors):
            return tensors
        if is_foreign(method_of(config)):
            return tensors
        said = read_algorithms(config)
        if said is None and not any(tensor.name.endswith(_SECOND) for tensor in tensors):
            return tensors
        from importer.sources.schemes.parts import Parts, contradict  # noqa: PLC0415 - as above

        parts = Parts(tensors)
        for stem, end, scale in list(parts.ending(*_ENDS)):
            joint = end[0]
            weight = parts.get(stem + ".weight" if joint == _MODULE else stem)
            if weight is None and joint == _MODULE:
                contradict(scale, "is the scale of a weight that is not there")
            if weight is None or weight.dtype not in {*FP8, *_PACKED}:
                continue
            module = stem.removeprefix(f"{scale.component}/") if scale.component else stem
            algorithm = None if said is None else said.of(module)
            why = self._unread(parts, stem + joint, weight, scale)
            if why:
                for array in (weight, scale):
                    parts.leave(array, why)
                continue
            self._join(parts, stem + joint, (weight, scale), algorithm)
        return parts.tensors

    def _unread(
        self, parts: Parts, base: str, weight: SourceTensor, scale: SourceTensor
    ) -> str:
        """Return why a weight is not decoded; empty if it is."""
        beside = [end for end in _LOW_RANK if parts.get(base + end)]
        if beside:
            return f"`{beside[0]}` beside it belongs to its values"
        if base.endswith(_MODULE):
            return ""
        if parts.get(base + _INPUTS):
            return f"`{_INPUTS}` of stacked experts is not read"
        is_power = scale.dtype in {"U8", "F8_E8M0"} or parts.get(base + _SECOND) is not None
        if len(weight.shape) != _SIDES or len(scale.shape) > _SIDES:
            return f"its scales have {len(scale.shape)} dimensions"
        return (
            ""
            if is_power or weight.dtype in FP8
            else "integers of stacked experts are not read"
        )

    def _join(
        self,
        parts: Parts,
        base: str,
        arrays: tuple[SourceTensor, SourceTensor],
        algorithm: Algorithm | None,
    ) -> None:
        from importer.sources.schemes.modelopt import types  # noqa: PLC0415 - as above
        from importer.sources.schemes.parts import contradict, told  # noqa: PLC0415

        weight, scale = arrays
        # Of integers it is what their products are rounded to FP8 with: not of their values.
        is_rounded = algorithm is not None and algorithm.name.upper() == _ROUNDED
        second = None if is_rounded else parts.get(base + _SECOND)
        inputs = parts.get(base + _INPUTS)
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
