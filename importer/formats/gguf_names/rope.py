"""How rotary embeddings are scaled, from metadata and the factors that a file holds."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from importer.formats.gguf_names.facts import Facts, shortest
from store.json import Json

LONG: Final = "rope_factors_long.weight"
SHORT: Final = "rope_factors_short.weight"
FREQUENCIES: Final = "rope_freqs.weight"
FACTORS: Final = (LONG, SHORT, FREQUENCIES)
"""Small F32 tensors that belong to the configuration."""
_LLAMA3: Final = tuple(
    (low, high, context)
    for context in (8192, 4096, 16384, 32768, 2048, 131072)
    for low, high in ((1.0, 4.0), (1.0, 1.0))
)
"""Low and high frequency factors and the original context of models that there are."""
_NUMBERS: Final = {
    "beta_fast": "rope.scaling.yarn_beta_fast",
    "beta_slow": "rope.scaling.yarn_beta_slow",
    "attention_factor": "rope.scaling.attn_factor",
    "llama_4_scaling_beta": "attention.temperature_scale",
}
_ITEM: Final = 4

_UNROTATED: Final = 1e29
"""What Gemma 4's frequencies are at least divided by where nothing is rotated."""

Scaling = tuple[dict[str, Json], tuple[str, ...]]


def rope_of(facts: Facts, theta: Json, factors: Mapping[str, bytes]) -> Scaling:
    """Return what config.json says of it, and what is not known.

    That is `rope_scaling`; `rope_parameters` where blocks with a window differ.

    Args:
        theta: the base of the frequencies, if the file tells it.
        factors: F32 values of the tensors of `FACTORS` that the file holds.
    """
    if facts.architecture in {"gemma4", "mimo2"}:
        return {"rope_parameters": _of_kinds(facts, factors)}, ()
    if LONG in factors and SHORT in factors:
        scaling: dict[str, Json] = {
            "type": "longrope",
            "long_factor": [*_floats(factors[LONG])],
            "short_factor": [*_floats(factors[SHORT])],
        }
        return {"rope_scaling": scaling}, ()
    if FREQUENCIES in factors:
        return _llama3(_floats(factors[FREQUENCIES]), theta)
    kind, factor = facts.text("rope.scaling.type"), facts.number("rope.scaling.factor")
    if factor is None or kind in {None, "none"}:
        return {}, ()
    if kind == "linear" and factor == 1:
        return {}, ()
    scaling = {"rope_type": kind, "factor": shortest(factor)}
    original = facts.integer("rope.scaling.original_context_length")
    if original is not None:
        scaling["original_max_position_embeddings"] = original
    return {"rope_scaling": scaling | _told(facts)}, ()


def _of_kinds(facts: Facts, factors: Mapping[str, bytes]) -> dict[str, Json]:
    """Return the parameters of blocks that attend to everything, and of those that do not."""
    share = _share(facts, "")
    whole: dict[str, Json] = {"rope_type": "default"}
    if FREQUENCIES in factors:
        found = _floats(factors[FREQUENCIES])
        share = sum(factor < _UNROTATED for factor in found) / max(len(found), 1)
        whole = {"rope_type": "proportional"}
    local: dict[str, Json] = {"rope_type": "default"}
    local_share = _share(facts, "_swa") if facts.own("rope.dimension_count_swa") else share
    for kind, suffix, part in ((whole, "", share), (local, "_swa", local_share)):
        theta = facts.number(f"rope.freq_base{suffix}")
        if theta is not None:
            kind["rope_theta"] = shortest(theta)
        if part != 1:
            kind["partial_rotary_factor"] = part
    return {"full_attention": whole, "sliding_attention": local}


def _share(facts: Facts, suffix: str) -> float:
    """Return how much of a head is rotated."""
    rotated = facts.integer(f"rope.dimension_count{suffix}")
    head = facts.integer(f"attention.key_length{suffix}")
    return rotated / head if rotated and head else 1.0


def _told(facts: Facts) -> dict[str, Json]:
    """Return the numbers of yarn's scaling that a file may tell."""
    numbers = {key: facts.number(fact) for key, fact in _NUMBERS.items()}
    found: dict[str, Json] = {
        key: shortest(number) for key, number in numbers.items() if number is not None
    }
    multiplier = facts.number("rope.scaling.yarn_log_multiplier")
    if multiplier is not None:
        # Mistral's is mscale_all_dim; DeepSeek writes a tenth of it.
        times = 1 if facts.architecture == "mistral3" else 10
        found["mscale"] = found["mscale_all_dim"] = shortest(multiplier * times)
    if facts.architecture == "gpt-oss":
        found["truncate"] = False
    return found


class _Llama3(NamedTuple):
    """Parameters of Llama 3's scaling, as transformers' `_compute_llama3_parameters` has them.

    Attributes:
        context: that the model was trained with at first.
    """

    theta: float
    factor: float
    low: float
    high: float
    context: int

    def of(self, index: int, count: int) -> float:
        """Return the factor of one frequency of `count`."""
        wavelength = 2 * math.pi * math.pow(self.theta, index / count)
        if wavelength < self.context / self.high:
            return 1.0
        if wavelength > self.context / self.low or self.low == self.high:
            return self.factor
        smooth = (self.context / wavelength - self.low) / (self.high - self.low)
        return 1 / ((1 - smooth) / self.factor + smooth)


def _llama3(found: list[float], theta: Json) -> Scaling:
    """Return the parameters of which Llama 3's formula makes the factors that were found.

    `LlamaModel.generate_extra_tensors` of llama.cpp's conversion/llama.py made them of the
    parameters, and only the largest stands in the file itself.
    """
    base = float(theta) if isinstance(theta, (int, float)) else 500_000.0
    factor, count = max(found, default=1.0), len(found)
    for low, high, context in _LLAMA3 if base > 0 else ():
        guess = _Llama3(base, factor, low, high, context)
        made = (guess.of(index, count) for index in range(count))
        if all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(made, found, strict=True)):
            scaling: dict[str, Json] = {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": context,
            }
            return {"rope_scaling": scaling}, ()
    told = (
        f"`{FREQUENCIES}` scales rotary frequencies by up to {factor:g} in a way that is not "
        "Llama 3's with known parameters: config.json does not tell it"
    )
    return {}, (told,)


def _floats(data: bytes) -> list[float]:
    whole = data[: len(data) // _ITEM * _ITEM]
    return [shortest(number) for (number,) in struct.iter_unpack("<f", whole)]
