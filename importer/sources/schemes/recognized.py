"""Schemes that are recognized and not decoded: they are refused by name.

Facts: docs/formats/prequantized.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.dtypes import FP8, is_plain
from importer.sources.schemes.base import Clue
from importer.sources.schemes.declaration import is_foreign
from importer.sources.schemes.fp8.stacked import place_of
from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor

_OF_STACK: Final = "_weight_scale"
"""What ModelOpt puts after the name of stacked experts, which is not a module's."""
_PACKED: Final = ("I8", "U8", "I16", "U16", "I32", "U32")


class Recognized:
    """A scheme that is named, and whose arrays are left as they are.

    Attributes:
        recognizes: whether an array shows that weights are stored by this scheme.
    """

    decodes: Final = False

    def __init__(self, recognizes: Callable[[Clue], bool]) -> None:
        self.recognizes: Final = recognizes

    def join(
        self, tensors: Sequence[SourceTensor], _: Mapping[str, Json]
    ) -> Sequence[SourceTensor]:
        """Return the arrays as they are."""
        return tensors


def is_mxfp4(clue: Clue) -> bool:
    """Return whether it is GPT-OSS's MXFP4, with Hugging Face's names or OpenAI's."""
    if clue.dtype != "U8":
        return False
    if clue.last.endswith("_blocks"):
        return clue.dtypes.get(f"{clue.name[:-7]}_scales") == "U8"
    return clue.last == "blocks" and clue.dtypes.get(f"{clue.stem}.scales") == "U8"


def is_fp8_block(clue: Clue) -> bool:
    """Return whether it is FP8 in blocks, as DeepSeek has it, stacked experts included."""
    if clue.last == "weight_scale_inv":
        return clue.dtypes.get(f"{clue.stem}.weight") in FP8
    if clue.dtype not in FP8:
        return False
    if clue.last == "weight" and place_of(clue.name, clue.dtypes) is not None:
        return True
    return f"{clue.name}_scale_inv" in clue.dtypes


def is_modelopt(clue: Clue) -> bool:
    """Return whether it is ModelOpt, whose older exports are not named in config.json."""
    if is_foreign(clue.method):
        return False
    if clue.last == "weight_scale" and f"{clue.stem}.weight_scale_2" in clue.dtypes:
        return True
    stacked, end = clue.name.removesuffix(_OF_STACK), clue.name.endswith(_OF_STACK)
    if end and clue.dtypes.get(stacked) in _PACKED:
        return True
    return _is_declared(clue, "modelopt")


def is_comfyui(clue: Clue) -> bool:
    """Return whether it is a weight with ComfyUI's marker, in a form of its own."""
    if clue.last != "weight" or f"{clue.stem}.comfy_quant" not in clue.dtypes:
        return False
    scales = clue.dtypes.get(f"{clue.stem}.weight_scale")
    return clue.dtype in _PACKED or scales in {"U8", "F8_E8M0"}


def is_compressed_tensors(clue: Clue) -> bool:
    """Return whether it is packed by compressed-tensors, or declared to have its scales."""
    return clue.last == "weight_packed" or _is_declared(clue, "compressed-tensors")


def is_bitnet(clue: Clue) -> bool:
    """Return whether it is declared to be BitNet."""
    return _is_declared(clue, "bitnet")


def is_fp8(clue: Clue) -> bool:
    """Return whether it is FP8 with scales under any of their usual names.

    What a program that is not known declares may have other values.
    """
    if is_foreign(clue.method):
        return False
    if clue.last == "weight_scale":
        return clue.dtypes.get(f"{clue.stem}.weight") in FP8
    if clue.dtype not in FP8:
        return False
    if clue.last != "weight":
        # Stacked experts, Llama 4's for one; the second is ModelOpt's.
        return not clue.dtypes.keys().isdisjoint((f"{clue.name}_scale", clue.name + _OF_STACK))
    # fbgemm's, DeepSeek's own checkpoints, diffusion models in single files, Mistral's own.
    scales = ("weight_scale", "scale", "scale_weight", "qscale_weight")
    return any(f"{clue.stem}.{scale}" in clue.dtypes for scale in scales)


def is_unknown(clue: Clue) -> bool:
    """Return whether it is the scales of a weight that is not an ordinary float.

    Or numbers of few bits, where config.json says that a program that we do not know quantized,
    or that any did, and scales of the same name are there.
    """
    if clue.dtype in {*FP8, *_PACKED} and is_foreign(clue.method):
        return True
    if clue.method and clue.dtype in {*FP8, *_PACKED} and _has_scale(clue):
        return True
    weight = clue.dtypes.get(f"{clue.stem}.weight")
    is_scale = clue.last == "weight_scale"
    # Under the other name powers of two are the scales of DeepSeek's FP4, whose codes are I8.
    is_block_scale = clue.last == "weight_scale_inv" and clue.dtype != "F8_E8M0"
    return (is_scale or is_block_scale) and weight is not None and not is_plain(weight)


def _has_scale(clue: Clue) -> bool:
    """Return whether codes stand beside scales of their name: stacked experts' may."""
    stem = clue.name.removesuffix("_packed")
    return any(f"{stem}{end}" in clue.dtypes for end in ("_scale", "_scales", _OF_STACK))


def is_named(*lasts: str) -> Callable[[Clue], bool]:
    """Return what recognizes arrays of codes by the end of their names.

    Example:
        >>> is_named("W_q")(Clue("a.W_q", "U8", "a", "W_q", {}, ""))
        True
    """

    def recognizes(clue: Clue) -> bool:
        return clue.last in lasts and not is_plain(clue.dtype)

    return recognizes


def is_beside(last: str, other: str) -> Callable[[Clue], bool]:
    """Return what recognizes arrays of codes by their name and that of a neighbor.

    Example:
        >>> is_beside("B", "s")(Clue("a.B", "I32", "a", "B", {"a.s": "F16"}, ""))
        True
    """

    def recognizes(clue: Clue) -> bool:
        is_there = f"{clue.stem}.{other}" in clue.dtypes
        return clue.last == last and is_there and not is_plain(clue.dtype)

    return recognizes


def _is_declared(clue: Clue, method: str) -> bool:
    """Return whether it is the scales of a packed or FP8 weight of a declared method."""
    return clue.method == method and is_unknown(clue)
