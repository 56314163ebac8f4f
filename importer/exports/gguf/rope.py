"""Factors of rotary embeddings that the converter computes and stores as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeGuard

from importer.exports.gguf.hparams import Hparams, is_number
from store.json import Json

_LONGEST: Final = 1 << 20


def llama3_factors(hparams: Hparams) -> bytes:
    """Return by what each frequency is divided, as F32; nothing where none is.

    Source: `LlamaModel.generate_extra_tensors` in llama.cpp's conversion/llama.py, in F32.

    Raises:
        InputError: the configuration lacks a number.
    """
    rope = hparams.flat_rope
    if rope.get("rope_type") != "llama3":
        return b""
    import numpy as np  # noqa: PLC0415 - few models need it

    base, factor = _number(hparams, "rope_theta", 1e4), _number(hparams, "factor", 8)
    low = _number(hparams, "low_freq_factor", 1)
    high = _number(hparams, "high_freq_factor", 4)
    length = _number(hparams, "original_max_position_embeddings", 8192)
    dim = hparams.head_rows
    if dim > _LONGEST or min(base, factor, low, high, length) <= 0 or low == high:
        hparams.bad("rope_parameters", str(dict(rope)), "positive numbers of rotary embeddings")
    with np.errstate(all="ignore"):  # what is not finite is told below
        one = np.float32(1)
        exponents = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
        powers = np.power(np.float64(base), exponents.astype(np.float64)).astype(np.float32)
        # PyTorch divides a number by a tensor as the number times the inverse.
        waves = (one / (one / powers)) * np.float32(2 * np.pi)
        inverses = (one / waves) * np.float32(length)
        smooth = (inverses - np.float32(low)) / np.float32(high - low)
        between = one / ((one - smooth) / np.float32(factor) + smooth)
        slow = np.where(waves > np.float32(length / low), np.float32(factor), between)
        made = np.where(waves < np.float32(length / high), one, slow)
    if not np.isfinite(made).all():
        hparams.bad("rope_parameters", str(dict(rope)), "finite factors of frequencies")
    return made.astype("<f4").tobytes()


def long_factors(hparams: Hparams) -> dict[str, bytes]:
    """Return Phi-3's factors as F32, by `long` and `short`; nothing where there are none.

    Raises:
        InputError: they are not numbers, or not as many as pairs are rotated.
    """
    if not hparams.rope.get("long_factor"):
        return {}
    return {word: _factors(hparams, f"{word}_factor") for word in ("long", "short")}


def _factors(hparams: Hparams, key: str) -> bytes:
    import numpy as np  # noqa: PLC0415 - few models need it

    found = hparams.rope.get(key)
    share = _number(hparams, "partial_rotary_factor", 1.0)
    pairs = int(share * hparams.count("hidden_size", "n_embd")) // hparams.heads // 2
    if not _are_numbers(found) or len(found) != pairs:
        hparams.bad(key, f"{found}"[:80], f"{pairs} numbers")
    return np.array(found, "<f4").tobytes()


def _are_numbers(found: Json) -> TypeGuard[Sequence[float]]:
    return isinstance(found, list) and all(map(is_number, found))


def _number(hparams: Hparams, key: str, usual: float) -> float:
    found = hparams.flat_rope.get(key, usual)
    if not is_number(found):
        hparams.bad(key, found, "a number")
    return float(found)
