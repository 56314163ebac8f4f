"""Arrays of the programs that pack weights, made again of types of the store.

The store has the codes and scales of ModelOpt, compressed-tensors, DeepSeek and transformers
under its own names. What they were called, and which dtypes they had, follows from the
configuration, which a model keeps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from importer.codecs.base import Transcoder
from importer.codecs.registry import stored_type
from importer.codecs.scaled.global_scaled import CopyScaled, GlobalNvfp4
from importer.codecs.spec import Mode, QuantSpec
from importer.codecs.transcode import CopyParts
from importer.exports.safetensors import Array, Weight
from importer.sources.document import Document
from importer.sources.schemes.compressed_tensors.config import read_config
from importer.sources.schemes.fp8 import deepseek, transformers
from importer.sources.schemes.modelopt.config import read_algorithms
from importer.sources.tensor import SourceTensor
from store.tensorfile import data_bytes

_WEIGHT: Final = ".weight"
_MATRIX: Final = 2
_CODES_IN_A_BYTE: Final = {4: 2, 8: 1}


class _Form(NamedTuple):
    """How a program calls the arrays of a weight, and what they are.

    Attributes:
        ends: in place of `.weight`: of codes, scales, and the scale of the matrix.
        codes: dtype of a byte of codes.
        scales: dtype of a byte that is a scale.
        divides: whether the scale of the matrix is a divisor, an array of one number.
    """

    ends: tuple[str, ...]
    codes: str = "U8"
    scales: str = "U8"
    divides: bool = False


_MODELOPT: Final = _Form((".weight", ".weight_scale", ".weight_scale_2"))
_MODELOPT_STACK: Final = _Form(("", "_weight_scale", "_weight_scale_2"))
_PACKED: Final = _Form(
    (".weight_packed", ".weight_scale", ".weight_global_scale"), divides=True
)
_WHOLE: Final = _Form((".weight", ".weight_scale"))
_DEEPSEEK: Final = _Form((".weight", ".scale"), codes="I8", scales="F8_E8M0")
_BLOCKS: Final = _Form((_WEIGHT, _WEIGHT + transformers.END), scales=transformers.SCALES)
_BLOCKS_STACK: Final = _Form(("", transformers.END), scales=transformers.SCALES)


class SourceForms:
    """What a configuration says of how its program has packed weights."""

    def __init__(self, config: Document, *, is_requantized: bool = False) -> None:
        """Read the configuration of a component, and what older programs have beside it.

        Args:
            config: of the component.
            is_requantized: whether some weights may have types that the source had not.

        Raises:
            InputError: something of it is malformed.
            UnsupportedError: it names an algorithm that is not known.
        """
        self._modelopt = read_algorithms(config)
        self._compressed = read_config(config)
        said = config.get("quantization_config")
        method = said.get("quant_method") if isinstance(said, dict) else None
        self._is_fp8 = method == "fp8"
        self._is_requantized = is_requantized
        self._config = config

    def restored(self, tensor: SourceTensor) -> Weight | None:
        """Return a tensor in the arrays that the source had; None of what it had otherwise.

        Args:
            tensor: of a type of the store.
        """
        spec = stored_type(tensor.decoder)
        form = None if spec is None else self._form(tensor, spec)
        if form is None or spec is None:
            return None
        *outer, columns = tensor.shape
        is_scaled = isinstance(tensor.decoder, GlobalNvfp4)
        whole = (1,) if form.divides else tuple(outer[:-1])
        found = (
            (
                "F8_E4M3" if spec.mode is Mode.MXFP8 else form.codes,
                (*outer, columns // _CODES_IN_A_BYTE[spec.bits]),
            ),
            (
                "F8_E4M3" if spec.mode is Mode.NVFP4 else form.scales,
                (*outer, columns // spec.group_size),
            ),
            *([("F32", whole)] if is_scaled else []),
        )
        stem = tensor.own_name.removesuffix(_WEIGHT)
        arrays = tuple(
            Array(stem + end, dtype, shape, data_bytes(dtype, shape))
            for end, (dtype, shape) in zip(form.ends, found, strict=False)
        )
        return Weight(tensor.name, arrays, (tensor,), _moving(tensor, divides=form.divides))

    def _form(self, tensor: SourceTensor, spec: QuantSpec) -> _Form | None:
        """Return how the program that packed a tensor calls its arrays."""
        name = tensor.own_name
        module = name.removesuffix(_WEIGHT)
        if spec.mode is Mode.AFFINE or isinstance(tensor.decoder, GlobalNvfp4) != (
            spec.mode is Mode.NVFP4
        ):
            return None  # these programs have a scale of the matrix beside NVFP4, and no other
        if self._modelopt is not None:
            algorithm = self._modelopt.of(module)
            if algorithm is None or algorithm.kind != spec.name:
                return None
            return _MODELOPT if name.endswith(_WEIGHT) else _MODELOPT_STACK
        if self._is_fp8:
            return self._of_fp8(module, spec, is_stack=not name.endswith(_WEIGHT))
        if not name.endswith(_WEIGHT) or not self._compressed.is_declared:
            return None
        return self._of_groups(module, tensor, spec)

    def _of_fp8(self, module: str, spec: QuantSpec, *, is_stack: bool) -> _Form | None:
        if spec.mode is Mode.MXFP4:
            is_theirs = not self._is_requantized or deepseek.has_fp4(self._config, module)
            return _DEEPSEEK if is_theirs and not is_stack else None
        if spec.mode is not Mode.MXFP8 or not transformers.converts(self._config, module):
            return None
        return _BLOCKS_STACK if is_stack else _BLOCKS

    def _of_groups(self, module: str, tensor: SourceTensor, spec: QuantSpec) -> _Form | None:
        wanted = "float", spec.bits, (1, spec.group_size)
        groups = self._compressed.groups_of(module)
        if (
            len(tensor.shape) != _MATRIX
            or self._compressed.ignores(module)
            or wanted not in {(one.kind, one.bits, one.block) for one in groups}
        ):
            return None
        return _WHOLE if spec.mode is Mode.MXFP8 else _PACKED


def _moving(tensor: SourceTensor, *, divides: bool) -> Transcoder:
    """Return what moves codes and scales; the way back from a reciprocal is another one."""
    decoder = tensor.decoder
    if isinstance(decoder, GlobalNvfp4):
        return CopyScaled(replace(decoder, divides=divides != decoder.divides))
    return CopyParts(decoder)  # type: ignore[arg-type]  # of a type of the store: a codec
