"""What mlx-lm makes of each architecture's names: a table of its classes' `sanitize`.

From mlx-lm 0.32.2, run on what transformers writes (tests/clients). An architecture that is not
here is renamed, or its values are changed, in ways that would have to be copied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

_SAME: Final[Mapping[str, str]] = {
    "gate_proj": "gate_proj",
    "up_proj": "up_proj",
    "down_proj": "down_proj",
}
_MIXTRAL: Final[Mapping[str, str]] = {
    "w1": "gate_proj",
    "w2": "down_proj",
    "w3": "up_proj",
}
_EXPERT: Final = re.compile(r"(.*)\.experts\.([0-9]{1,9})\.([^.]+)\.(.+)", re.DOTALL)
_FREQUENCIES: Final = ("rotary_emb.inv_freq",)
_ROUTER: Final = re.compile(r".*\.mlp\.gate\.weight")
_CORRECTION: Final = "e_score_correction_bias"


class Name(NamedTuple):
    """What an array is called in MLX.

    Attributes:
        expert: its number where it is a slice of a stack.
    """

    text: str
    expert: int | None = None


@dataclass(frozen=True, slots=True)
class MlxModel:
    """What mlx-lm does to the names of one architecture.

    Attributes:
        projections: of numbered experts: their name -> that of the stack.
        stack: the module of the stacks, in place of `experts`.
        drops: parts of names that the class has no place for.
        ties: whether the output layer is left out where config.json says that it is tied:
            what holds where it says nothing, or None where it is never left out.
        keeps_router: whether the router is not a linear layer, and so never quantized.
        extra_layers: whether layers after the last are left out (multi-token prediction).
        in_8_bits: ends of modules that the class wants in 8 bits, whatever is asked for.
    """

    projections: Mapping[str, str] | None = None
    stack: str = "switch_mlp"
    drops: tuple[str, ...] = ()
    ties: bool | None = None
    keeps_router: bool = False
    extra_layers: bool = False
    in_8_bits: tuple[str, ...] = ()

    def name(self, key: str, *, is_tied: bool | None, layers: int | None) -> Name | None:
        """Return what an array becomes, or None where it is left out.

        Args:
            key: in Hugging Face's layout.
            is_tied: as config.json says.
            layers: that it counts.
        """
        if any(part in key for part in self.drops):
            return None
        tied = self.ties if is_tied is None else is_tied
        if self.ties is not None and tied and key == "lm_head.weight":
            return None
        extra = f"model.layers.{layers}."
        if self.extra_layers and layers is not None and key.startswith(extra):
            return None
        found = _EXPERT.fullmatch(key)
        projections = self.projections or {}
        if found is None or found[3] not in projections:
            return Name(key)
        stacked = f"{found[1]}.{self.stack}.{projections[found[3]]}.{found[4]}"
        return Name(stacked, int(found[2]))

    def is_plain(self, key: str) -> bool:
        """Whether the class has a plain parameter here, which cannot be quantized."""
        return self.keeps_router and _ROUTER.fullmatch(key) is not None

    def is_cast(self, key: str) -> bool:
        """Whether a float gets the dtype that config.json names."""
        return not (self.extra_layers and _CORRECTION in key)


_UNCHANGED: Final = MlxModel()
_TIES: Final = MlxModel(ties=False)
_TIES_BY_DEFAULT: Final = MlxModel(ties=True)
_GRANITE: Final = ("self_attn.o_proj", "mlp.down_proj", "lm_head")
_GATE: Final = ("mlp.gate",)
_LLAMA: Final = MlxModel(ties=True, drops=_FREQUENCIES)
_NO_FREQUENCIES: Final = MlxModel(drops=_FREQUENCIES)
_QWEN_MOE: Final = MlxModel(_SAME)

MODELS: Final[Mapping[str, MlxModel]] = MappingProxyType(
    {
        "cohere": _UNCHANGED,
        "cohere2": _UNCHANGED,
        "deepseek": MlxModel(_SAME, keeps_router=True),
        "deepseek_v2": MlxModel(_SAME, keeps_router=True),
        "dots1": MlxModel(_SAME, "experts", drops=_FREQUENCIES, ties=False, keeps_router=True),
        "ernie4_5": _UNCHANGED,
        "ernie4_5_moe": MlxModel(
            _SAME,
            drops=(
                "mtp_block.",
                "mtp_linear_proj.",
                "mtp_hidden_norm.",
                "mtp_emb_norm.",
                _CORRECTION,
            ),
        ),
        "exaone4": _UNCHANGED,
        "gemma": _UNCHANGED,
        "gemma2": _UNCHANGED,
        "gemma3_text": _UNCHANGED,
        "glm": _LLAMA,
        "glm4": _UNCHANGED,
        "glm4_moe": MlxModel(_SAME, keeps_router=True, extra_layers=True),
        "gpt_bigcode": _UNCHANGED,
        "granite": MlxModel(ties=True, in_8_bits=_GRANITE),
        "helium": _UNCHANGED,
        "hunyuan_v1_dense": _TIES,
        "llama": _LLAMA,
        "mellum": MlxModel(_SAME, ties=False, in_8_bits=_GATE),
        "minicpm3": _UNCHANGED,
        "mistral": _LLAMA,
        "mixtral": MlxModel(_MIXTRAL, ties=False),
        "nemotron": _UNCHANGED,
        "olmo": _UNCHANGED,
        "olmo2": _NO_FREQUENCIES,
        "olmo3": _UNCHANGED,
        "olmoe": _QWEN_MOE,
        "phi": _UNCHANGED,
        "phi3": _UNCHANGED,
        "phimoe": MlxModel(_MIXTRAL),
        "qwen2": _LLAMA,
        "qwen2_moe": _QWEN_MOE,
        "qwen3": _TIES,
        "qwen3_moe": MlxModel(_SAME, ties=False, in_8_bits=_GATE),
        "seed_oss": _TIES_BY_DEFAULT,
        "smollm3": _LLAMA,
        "stablelm": _UNCHANGED,
        "starcoder2": _UNCHANGED,
    }
)
"""By the `model_type` of config.json."""
