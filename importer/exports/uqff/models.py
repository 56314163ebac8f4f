"""Which tensors of an architecture are layers in mistral.rs: a table of its classes.

From mistralrs 0.9.5, which wrote UQFF of what transformers saves (tests/clients). Another
architecture has names or layers that would have to be known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from importer.codecs.base import Shape

_EXPERT: Final = re.compile(r"(.*\.experts)\.([0-9]{1,9})\.([^.]+)\.weight", re.DOTALL)
_STACK: Final = re.compile(r".*\.experts\.(gate_proj|up_proj|down_proj)\.weight", re.DOTALL)
_WEIGHT: Final = ".weight"
_BIAS: Final = ".bias"
_MATRIX: Final = 2
EMBEDDING: Final = "model.embed_tokens.weight"
OUTPUT: Final = "lm_head.weight"
_SAME: Final = {name: name for name in ("gate_proj", "up_proj", "down_proj")}
_MIXTRAL: Final = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}


class Name(NamedTuple):
    """What a tensor is called in mistral.rs.

    Attributes:
        expert: its number where it is a slice of a stack.
    """

    text: str
    expert: int | None = None


@dataclass(frozen=True, slots=True)
class UqffModel:
    """What mistral.rs makes of the tensors of one architecture.

    Attributes:
        projections: of numbered experts: their name -> that of the stack.
        routers: ends of matrices that are not layers, and never quantized.
        has_biases: whether its class reads what is added to a layer's outputs.
    """

    projections: Mapping[str, str] = field(default_factory=dict)
    routers: tuple[str, ...] = ()
    has_biases: bool = True

    def name(self, key: str) -> Name:
        """Return what a tensor becomes.

        Args:
            key: in Hugging Face's layout.
        """
        found = _EXPERT.fullmatch(key)
        if found is None or found[3] not in self.projections:
            return Name(key)
        return Name(f"{found[1]}.{self.projections[found[3]]}{_WEIGHT}", int(found[2]))

    def is_layer(self, name: str, shape: Shape) -> bool:
        """Return whether a tensor is a layer, by its name there and its shape."""
        if not name.endswith(_WEIGHT) or name.endswith(self.routers):
            return False
        return len(shape) == _MATRIX or _STACK.fullmatch(name) is not None


def bias_of(layer: str) -> str:
    """Return the name of what is added to a layer's outputs."""
    return layer.removesuffix(_WEIGHT) + _BIAS


_DENSE: Final = UqffModel()
_NO_BIASES: Final = UqffModel(has_biases=False)
_ROUTER: Final = (".mlp.gate.weight",)
_MOE: Final = UqffModel(_SAME, _ROUTER)

MODELS: Final[Mapping[str, UqffModel]] = MappingProxyType(
    {
        "deepseek_v2": _MOE,
        "deepseek_v3": _MOE,
        "gemma": _DENSE,
        "gemma2": _DENSE,
        "glm4_moe": _MOE,
        "hunyuan_v1_dense": _DENSE,
        "lfm2": _NO_BIASES,
        "lfm2_moe": UqffModel(_MIXTRAL, (".feed_forward.gate.weight",), has_biases=False),
        "llama": _NO_BIASES,
        "mistral": _NO_BIASES,
        "mixtral": UqffModel(_MIXTRAL, has_biases=False),
        "phi": _DENSE,
        "phi3": _NO_BIASES,
        "qwen2": _DENSE,
        "qwen3": _NO_BIASES,
        "qwen3_moe": UqffModel(_SAME, _ROUTER, has_biases=False),
        "smollm3": _NO_BIASES,
        "starcoder2": _DENSE,
    }
)
"""By the `model_type` of config.json."""
