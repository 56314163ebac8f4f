"""GPT-OSS's experts in Hugging Face's layout: blocks and scales, or floats, turned.

The store has MXFP4 as `[experts, out, in]` under a name with `.weight`. Published checkpoints
have the same codes as `X_blocks`, the same scales as `X_scales`; what transformers has of them
decoded is `X`, `[experts, in, out]`.
"""

from __future__ import annotations

from typing import Final

from importer.codecs.cast import Cast
from importer.codecs.registry import stored_type
from importer.codecs.spec import Mode
from importer.codecs.transcode import Recode
from importer.codecs.views.turned import Turned
from importer.exports.safetensors import Array, Weight
from importer.planning.plan import TensorPlan
from importer.sources.document import Document

_ENDS: Final = (".experts.gate_up_proj.weight", ".experts.down_proj.weight")
_WEIGHT: Final = ".weight"
_STACK: Final = 3
_GROUP: Final = 32
_BYTES: Final = 16
"""Of the codes of a group."""


def is_packed(plan: TensorPlan, config: Document) -> bool:
    """Return whether a tensor is a stack that the source held as blocks, as it says."""
    told = config.get("quantization_config")
    spec = stored_type(plan.sources[0].decoder)
    return (
        isinstance(told, dict)
        and told.get("quant_method") == "mxfp4"
        and spec is not None
        and spec.mode is Mode.MXFP4
        and len(plan.shape) == _STACK
        and plan.key.endswith(_ENDS)
    )


def as_blocks(plan: TensorPlan) -> Weight:
    """Return blocks and scales, with the bytes of the store."""
    *outer, columns = plan.shape
    stem, groups = plan.key.removesuffix(_WEIGHT), columns // _GROUP
    shapes = {f"{stem}_blocks": (*outer, groups, _BYTES), f"{stem}_scales": (*outer, groups)}
    arrays = tuple(
        Array(name, "U8", shape, part.nbytes)
        for (name, shape), part in zip(shapes.items(), plan.parts, strict=True)
    )
    return Weight(plan.name, arrays, plan.sources, plan.transcoder)


def decoded(plan: TensorPlan, dtype: str) -> Weight:
    """Return floats of a dtype, as transformers has what it decodes."""
    (source,) = plan.sources
    experts, rows, columns = plan.shape
    turned = Turned(source.decoder, rows, columns)
    transcoder = Recode(turned, Cast(source.dtype, dtype))
    name, shape = plan.key.removesuffix(_WEIGHT), (experts, columns, rows)
    return Weight.of(plan.name, shape, [name], plan.sources, transcoder)
