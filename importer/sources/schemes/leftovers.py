"""Codes without scales, and scales without codes, once every scheme has taken its arrays.

Taken for plain tensors they would be a model that is half understood. The configuration tells
them, or what the other weights of the model are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.dtypes import FP8
from importer.sources.schemes.declaration import declaration, is_foreign, method_of
from store.json import Json
from store.text import printable

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor

_WEIGHT: Final = ".weight"
_MATRIX: Final = 2
_STACK: Final = 3
_EXPERTS: Final = "experts"
_MLX: Final = "mlx"
_BNB: Final = "bitsandbytes"
_BYTES: Final = frozenset({"I8", "U8"})
_INTEGERS: Final = frozenset({*_BYTES, "U32", "I32"})
_CODES: Final[Mapping[str, frozenset[str]]] = {
    "fp8": FP8 | {"I8"},
    "fbgemm_fp8": FP8,
    "modelopt": FP8 | _BYTES,
    "compressed-tensors": FP8 | {"I8"},
    _BNB: _BYTES,
    _MLX: frozenset({"U32"}),
}
"""The dtypes of codes, by what a configuration may declare."""
_SCALES: Final = ("_scale", "_scale_inv", "_scales", "_weight_scale")
_OF_WEIGHTS: Final = (".weight_scale", ".weight_scale_inv", ".weight_scale_2")
_OF_GPTQ: Final = (".qzeros", ".scales", ".g_idx")
_OF_BNB: Final = (".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map")
_PARTS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    **dict.fromkeys(("gptq", "awq"), dict.fromkeys(_OF_GPTQ, (".qweight",))),
    **dict.fromkeys(
        ("fp8", "fbgemm_fp8", "modelopt", "compressed-tensors"),
        dict.fromkeys(_OF_WEIGHTS, (_WEIGHT, ".weight_packed")),
    ),
    "mxfp4": {"_scales": ("_blocks",), ".scales": (".blocks",)},
    _MLX: {".scales": (_WEIGHT,)},
    _BNB: dict.fromkeys(_OF_BNB, ("",)),
}
"""Ends of the names of scales, and what the codes have in their place."""
_ENDS: Final = (".qzeros", "_scales", ".scales", ".g_idx", *_OF_WEIGHTS, *_OF_BNB)
_SHOWS: Final = {
    ".qweight": "gptq",
    "_blocks": "mxfp4",
    ".blocks": "mxfp4",
    ".scales": _MLX,
    ".SCB": _BNB,
    ".absmax": _BNB,
    ".weight_packed": "compressed-tensors",
    ".weight_scale_2": "modelopt",
}
"""Ends of the names of arrays that became tensors, and whose they are: the first that fits."""


def check_complete(
    stored: Sequence[SourceTensor],
    made: Sequence[SourceTensor],
    config: Mapping[str, Json],
) -> None:
    """Refuse what is left of quantized weights, unless the configuration leaves them out.

    Args:
        stored: every array of a directory.
        made: what became of them.
        config: the directory's `config.json`.

    Raises:
        InputError: an array of codes has no scales, or scales have no codes.
    """
    left = [tensor for tensor in made if _may_be_left(tensor)]
    if not left or is_foreign(method_of(config)):
        return
    from importer.sources.schemes.not_quantized import NotQuantized  # noqa: PLC0415 - as above
    from importer.sources.schemes.parts import contradict  # noqa: PLC0415

    found = _Found(stored, made, config)
    plain = NotQuantized(config)
    for tensor in left:
        what = found.lacks_scales(tensor) or found.lacks_codes(tensor)
        if what and not plain.has(tensor.own_name.removesuffix(_WEIGHT)):
            contradict(tensor, what)


def _may_be_left(tensor: SourceTensor) -> bool:
    array = tensor.arrays[0]
    is_code = array.dtype in FP8 or array.dtype in _INTEGERS
    is_named = (is_code and len(array.shape) >= _MATRIX) or array.name.endswith(_ENDS)
    return is_named and len(tensor.arrays) == 1 and tensor.is_plain and not tensor.unjoined


class _Found:
    """What is known of a model's weights: their names, and how they are quantized."""

    def __init__(
        self,
        stored: Iterable[SourceTensor],
        made: Iterable[SourceTensor],
        config: Mapping[str, Json],
    ) -> None:
        """Gather it."""
        self._names = {tensor.name for tensor in stored}
        self._config = config
        joined = [tensor.arrays for tensor in made if len(tensor.arrays) > 1]
        self._dtypes = {
            first.dtype
            for first, *_ in joined
            if first.dtype in _INTEGERS and first.name.endswith(_WEIGHT)
        }
        declared = method_of(config)
        if not declared and isinstance(config.get("quantization"), dict):
            declared = _MLX
        self._declared = declared
        shown = {_shown(array.name for array in arrays) for arrays in joined}
        self._methods = sorted({declared, *shown} & _PARTS.keys())

    def lacks_scales(self, tensor: SourceTensor) -> str:
        """Return what is wrong with codes; empty if there is nothing, or they are none."""
        name, dtype = tensor.name, tensor.arrays[0].dtype
        stem = name.removesuffix(_WEIGHT)
        is_stack = len(tensor.shape) == _STACK and _EXPERTS in name
        if len(tensor.shape) < _MATRIX or not (stem != name or is_stack):
            return ""
        if dtype == "I32" and {f"{stem}.scales", f"{stem}.biases"} <= self._names:
            return f"is I32 beside `{printable(stem)}.scales` and biases, expected U32"
        if any(name + end in self._names for end in _SCALES):
            return ""  # of a form that is not known, and is refused as such
        missing, why = self._missing(name, dtype)
        return missing and f"is {dtype} and has no scale (`{printable(missing)}`), and {why}"

    def _missing(self, name: str, dtype: str) -> tuple[str, str]:
        """Return the scale of codes that have none, and what says that they should."""
        stem = name.removesuffix(_WEIGHT)
        if dtype == "I8" and f"{stem}.weight_format" in self._names:
            return f"{stem}.SCB", "`weight_format` beside it says int8"
        if f"{name}.quant_map" in self._names:
            return f"{name}.absmax", "`quant_map` beside it says 4 bits"
        if dtype in _CODES.get(self._declared, ()):
            said = "quantization" if self._declared == _MLX else printable(self._declared)
            return self._scale(name, dtype, self._declared), f"config.json says `{said}`"
        if stem != name and dtype in self._dtypes:
            method = _MLX if dtype == "U32" else next(iter(self._methods), "")
            return self._scale(name, dtype, method), "other weights have"
        return "", ""

    def lacks_codes(self, tensor: SourceTensor) -> str:
        """Return what is wrong with scales; empty if there is nothing, or they are none."""
        name = tensor.name
        for method in self._methods or ("gptq",):
            for end, codes in _PARTS[method].items():
                stem = name.removesuffix(end)
                if stem == name or not self._is_part(tensor, method, stem):
                    continue
                if self._names.isdisjoint(stem + one for one in (*codes, ".bitmask")):
                    return (
                        f"is there, and `{printable(stem + codes[0])}` is not, which it scales"
                    )
        return ""

    def _is_part(self, tensor: SourceTensor, method: str, stem: str) -> bool:
        """Return whether an array is what its name says that it is."""
        dtype = tensor.arrays[0].dtype
        if method == "mxfp4":
            return dtype == "U8" and len(tensor.shape) >= _MATRIX
        if method == _MLX:
            return dtype == "U8" or f"{stem}.biases" in self._names
        return bool(self._methods) or (dtype == "I32" and tensor.name.endswith(".qzeros"))

    def _scale(self, name: str, dtype: str, method: str) -> str:
        """Return the name of the scale that is missing."""
        stem = name.removesuffix(_WEIGHT)
        is_stack = stem == name
        if method == _MLX:
            return f"{stem}.scales"
        if method == _BNB:
            return f"{stem}.SCB" if dtype == "I8" else f"{name}.absmax"
        if method == "fp8" and declaration(self._config).get("weight_block_size") is not None:
            return f"{name}_scale_inv"
        return f"{name}_weight_scale" if is_stack and method == "modelopt" else f"{name}_scale"


def _shown(names: Iterable[str]) -> str:
    """Return whose the arrays of a tensor are."""
    found: Iterator[str] = (
        method for name in names for end, method in _SHOWS.items() if name.endswith(end)
    )
    return next(found, "")
