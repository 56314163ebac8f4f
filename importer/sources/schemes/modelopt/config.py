"""What ModelOpt says of itself: in config.json, or in hf_quant_config.json of older exports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate
from typing import Final, NamedTuple

from store.errors import InputError, UnsupportedError
from store.json import Json
from store.text import printable

_METHOD: Final = "modelopt"
_MIXED: Final = "MIXED_PRECISION"
_NONE: Final = ("", "NONE")
_FP4: Final = ("NVFP4", "W4A16_NVFP4", "NVFP4_AWQ", "NVFP4_SVD", "W4A8_NVFP4_FP8")
KINDS: Final = {
    **dict.fromkeys(_FP4, "nvfp4"),
    **dict.fromkeys(("MXFP4", "W4A8_MXFP4_FP8"), "mxfp4"),
    **dict.fromkeys(("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "FP8_PB_REAL"), "fp8"),
    "MXFP8": "mxfp8",
    **dict.fromkeys(("W4A16_AWQ", "W4A8_AWQ", "INT4_AWQ"), "int4"),
    **dict.fromkeys(("W8A16", "W8A8_SQ_PER_CHANNEL", "INT8_SQ", "INT8_WO"), "int8"),
}
"""How the weights of each `quant_algo` are stored; in upper case, as most are spelled."""
_MOST: Final = 1 << 20


class Algorithm(NamedTuple):
    """What is said of one module.

    Attributes:
        name: of the algorithm, `quant_algo`; empty where the module is not quantized.
        group_size: values that share a scale, or None where nothing is said.
    """

    name: str
    group_size: int | None

    @property
    def is_quantized(self) -> bool:
        """Whether it has an algorithm."""
        return self.name not in _NONE

    @property
    def kind(self) -> str:
        """How the weights are stored."""
        return KINDS.get(self.name.upper(), "")

    def __str__(self) -> str:
        if not self.is_quantized:
            return "by its configuration it"
        size = "" if self.group_size is None else f" in groups of {self.group_size}"
        return f"its configuration says {printable(self.name)}{size}"


class Algorithms(NamedTuple):
    """What is said of all modules.

    Attributes:
        general: of those without an entry of their own.
        layers: of others, by name.
        excluded: names of modules that are not quantized, with `*` for anything.
    """

    general: Algorithm
    layers: Mapping[str, Algorithm]
    excluded: re.Pattern[str] | None

    def of(self, module: str) -> Algorithm | None:
        """Return what is said of a module, or None where that is nothing."""
        found = self.layers.get(module)
        if found is not None:
            return found
        if self.general.name.upper() == _MIXED:
            return None
        if self.excluded is not None and self.excluded.match(module):
            return Algorithm("", None)
        return self.general


def read_algorithms(config: Mapping[str, Json]) -> Algorithms | None:
    """Read the configuration of a directory; None where it is not ModelOpt's.

    Raises:
        InputError: something of it is of another type or out of range.
        UnsupportedError: an algorithm is not known.
    """
    said = config.get("quantization_config")
    if not isinstance(said, dict) or said.get("quant_method") != _METHOD:
        return None
    layers = said.get("quantized_layers")
    size = said.get("group_size")
    if size is None:
        size = _size_of_groups(said.get("config_groups"))
    excluded = said.get("exclude_modules", said.get("ignore"))
    return Algorithms(
        _algorithm("quantization_config", said.get("quant_algo"), size),
        {
            name: _algorithm(name, table.get("quant_algo"), table.get("group_size"))
            for name, table in (layers.items() if isinstance(layers, dict) else ())
            if isinstance(table, dict)
        },
        _pattern(excluded if isinstance(excluded, list) else ()),
    )


def _pattern(globs: list[Json] | tuple[()]) -> re.Pattern[str] | None:
    # fnmatch's expressions do not backtrack, however many stars a name has.
    found = [translate(glob) for glob in globs if isinstance(glob, str)]
    return re.compile("|".join(found)) if found else None


def _size_of_groups(groups: Json) -> Json:
    """Return the one group size of all groups, or None."""
    sizes: set[int] = set()
    for table in groups.values() if isinstance(groups, dict) else ():
        weights = table.get("weights") if isinstance(table, dict) else None
        size = weights.get("group_size") if isinstance(weights, dict) else None
        if type(size) is int:
            sizes.add(size)
    return sizes.pop() if len(sizes) == 1 else None


def _algorithm(where: str, name: Json, size: Json) -> Algorithm:
    if name is not None and not isinstance(name, str):
        raise InputError(
            f"config.json: {printable(where)}: `quant_algo` is {printable(str(name))}",
            code="E_CONFIG",
        )
    if name and name.upper() not in {*KINDS, *_NONE, _MIXED}:
        raise UnsupportedError(
            f"config.json: {printable(where)}: `quant_algo` is {printable(name)}, which is "
            f"not read",
            code="E_PREQUANTIZED",
        )
    if size is not None and (type(size) is not int or not 0 <= size <= _MOST):
        raise InputError(
            f"config.json: {printable(where)}: `group_size` is {printable(str(size))}",
            code="E_CONFIG",
        )
    return Algorithm(name or "", size or None)
