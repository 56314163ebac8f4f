"""GPT-OSS's MXFP4: `X_blocks` and `X_scales`, or `X.blocks` and `X.scales` of OpenAI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.schemes.base import Clue
from importer.sources.schemes.recognized import is_mxfp4
from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.schemes.parts import Parts
    from importer.sources.tensor import SourceTensor

_NAMES: Final = (("_blocks", "_scales", ".weight"), (".blocks", ".scales", ""))
"""Ends of the codes and of the scales, and what the weight has instead."""
_LEAST: Final = 2


class Mxfp4:
    """Blocks of 32 codes of four bits, each with a power of two."""

    decodes: Final = True

    def recognizes(self, clue: Clue) -> bool:
        """Return whether an array is such blocks, beside which are scales."""
        return is_mxfp4(clue)

    def join(
        self, tensors: Sequence[SourceTensor], config: Mapping[str, Json]
    ) -> Sequence[SourceTensor]:
        """Make one tensor of the blocks and the scales of a weight.

        Its shape is `[experts, out, in]`: as the blocks are, and not as transformers turns
        what it decodes of them. Hence the `.weight` at the end of its name, which the
        transposed tensor of transformers does not have.

        Raises:
            InputError: the shapes do not fit each other, or the scales are missing.
        """
        ends = tuple(end for end, _, _ in _NAMES)
        if not any(one.name.endswith(ends) and one.dtype == "U8" for one in tensors):
            return tensors
        from importer.sources.schemes.parts import Parts, contradict  # noqa: PLC0415 - as above

        parts = Parts(tensors)
        declared = config.get("quantization_config")
        is_said = isinstance(declared, dict) and declared.get("quant_method") == "mxfp4"
        for of_blocks, of_scales, of_weight in _NAMES:
            for stem, _, blocks in list(parts.ending(of_blocks)):
                if blocks.dtype != "U8":
                    continue
                scales = parts.get(stem + of_scales)
                if scales is not None and scales.dtype == "U8":
                    self._join(parts, stem + of_weight, blocks, scales)
                elif is_said:
                    contradict(blocks, f"has no `{stem}{of_scales}` of U8, which scales it")
        return parts.tensors

    def _join(
        self, parts: Parts, name: str, blocks: SourceTensor, scales: SourceTensor
    ) -> None:
        from importer.codecs.registry import codec_for  # noqa: PLC0415 - as above
        from importer.codecs.spec import QUANT_TYPES  # noqa: PLC0415
        from importer.sources.schemes.parts import contradict, told  # noqa: PLC0415

        spec = QUANT_TYPES["mxfp4"]
        nbytes = spec.group_size * spec.bits // 8
        *rows, groups = scales.shape or (0,)
        fits = blocks.shape in {(*rows, groups, nbytes), (*rows, groups * nbytes)}
        if not fits or len(scales.shape) < _LEAST:
            expected = [*scales.shape, nbytes]
            contradict(blocks, f"is {list(blocks.shape)}, and {told(scales)} needs {expected}")
        shape = (*rows, groups * spec.group_size)
        parts.join(name, shape, (blocks, scales), codec_for(spec, "BF16"))
