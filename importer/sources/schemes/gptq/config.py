"""What config.json says of GPTQ's and AWQ's quantization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn

from importer.codecs.gptq.form import Layout
from importer.sources.schemes.patterns import Patterns
from store.errors import InputError, UnsupportedError
from store.json import Json
from store.text import printable

WHOLE: Final = -1
"""The group size that says that a row is one group."""

_BITS: Final = range(2, 9)
_MOST: Final = 1 << 30
_VERSIONS: Final = {"gptq": True, "gptq_v2": False, "gptq_p": False}
"""Formats of GPTQ, and whether zero points are stored less one."""
_PLANAR: Final = "gptq_p"
_LAYOUTS: Final = {"gemm": Layout.GEMM, "gemv": Layout.GEMV}
_EXCLUDED: Final = "-:"
_INCLUDED: Final = "+:"


class Said(NamedTuple):
    """What is said of a module; None where nothing is."""

    bits: int | None
    group_size: int | None

    def __str__(self) -> str:
        bits = "" if self.bits is None else f"{self.bits} bits"
        size = "" if self.group_size is None else f"groups of {self.group_size}"
        return " in ".join(filter(None, (bits, size))) or "nothing"


class GptqConfig:
    """The block `quantization_config`.

    Attributes:
        method: `gptq` or `awq`, or None where nothing is said.
        layout: of all arrays, or None.
        less_one: whether GPTQ's zero points are stored less one, or None.
        is_planar: whether codes of 3 bits are cut to planes; those of 5 to 7 always are.
        is_reordered: whether the order of columns is said to be another.
    """

    def __init__(self, config: Mapping[str, Json]) -> None:
        """Read it.

        Raises:
            InputError: a number is not one that there can be, or two keys contradict.
            UnsupportedError: a method or format that is not decoded.
        """
        block = config.get("quantization_config")
        declared = block if isinstance(block, dict) else {}
        self.method = _method(declared)
        self.layout, self.less_one, self.is_planar = _format(declared, self.method)
        _check_packing(declared)
        self.is_reordered = declared.get("desc_act") is True
        self._all = _said("quantization_config", declared, Said(None, None))
        self._modules = _overrides(declared, self._all)
        self._patterns = Patterns()

    def of(self, module: str) -> tuple[Said, ...]:
        """Return what is said of a module: by the first pattern that matches, or of all.

        A pattern that cannot be decided, because it needs more than a regular language has,
        may match or not: then there are several answers, of which one must be right.

        Raises:
            InputError: a pattern says that it is not quantized.
        """
        answers: list[Said] = []
        for pattern, said in self._modules:
            matches = self._patterns.match(pattern, module)
            if matches is False:
                continue
            if matches and said is None and not answers:
                raise InputError(
                    f"`{printable(module)}` is quantized, and config.json excludes it: "
                    f"`{printable(pattern)}`",
                    code="E_QUANT_PAIR",
                )
            if said is not None:
                answers.append(said)
            if matches:
                return tuple(answers)
        return (*answers, self._all)


def _method(declared: Mapping[str, Json]) -> str | None:
    told = declared.get("quant_method", declared.get("method"))
    if told is None:
        return None
    method = str(told).lower()
    if method not in {"gptq", "awq"}:
        raise _unsupported("`quant_method`", told)
    return method


def _format(
    declared: Mapping[str, Json], method: str | None
) -> tuple[Layout | None, bool | None, bool]:
    keys = ("checkpoint_format", "format", "version")
    told = {key: declared[key] for key in keys if declared.get(key) is not None}
    named = {str(value).lower() for value in told.values()}
    if declared.get("is_marlin_format") is True:
        named.add("marlin")
    if len(named) > 1:
        both = " and ".join(f"`{key}` {printable(str(value))}" for key, value in told.items())
        raise InputError(f"config.json: {both} contradict each other", code="E_CONFIG")
    name = next(iter(named), "gptq" if method == "gptq" else None)
    if name is None:
        return None, None, False
    if method != "awq" and name in _VERSIONS:
        return Layout.GPTQ, _VERSIONS[name], name == _PLANAR
    if method != "gptq" and name in _LAYOUTS:
        return _LAYOUTS[name], None, False
    raise _unsupported(f"the format of {method or 'its arrays'}", name)


def _check_packing(declared: Mapping[str, Json]) -> None:
    if declared.get("pack_dtype") not in {None, "int32"}:
        raise _unsupported("`pack_dtype`", declared["pack_dtype"])
    if declared.get("backend") == "llm-awq":
        raise _unsupported("`backend`", "llm-awq")
    if declared.get("rotation"):
        raise _unsupported("`rotation`", declared["rotation"])


def _overrides(declared: Mapping[str, Json], default: Said) -> list[tuple[str, Said | None]]:
    dynamic = declared.get("dynamic")
    if not isinstance(dynamic, dict):
        return []
    found: list[tuple[str, Said | None]] = []
    for text, value in dynamic.items():
        own = text.removeprefix(_EXCLUDED).removeprefix(_INCLUDED)
        if text.startswith(_EXCLUDED) or value is False:
            found.append((own, None))
        elif isinstance(value, dict):
            where = f"`dynamic` for `{printable(text)}`"
            found.append((own, _said(where, value, default)))
    # As GPTQModel sorts them: what excludes comes first.
    return sorted(found, key=lambda one: one[1] is not None)


def _said(where: str, table: Mapping[str, Json], default: Said) -> Said:
    bits = _number(where, table, ("bits", "w_bit", "wbits"))
    if bits is not None and bits not in _BITS:
        _bad(where, "bits", bits, "2 to 8")
    size = _number(where, table, ("group_size", "q_group_size"))
    if size is not None and size != WHOLE and not 1 <= size <= _MOST:
        _bad(where, "group_size", size, "-1 or a number of columns")
    return Said(
        default.bits if bits is None else bits,
        default.group_size if size is None else size,
    )


def _number(where: str, table: Mapping[str, Json], keys: tuple[str, ...]) -> int | None:
    told = {key: table[key] for key in keys if table.get(key) is not None}
    for key, value in told.items():
        if type(value) is not int:
            _bad(where, key, value, "an integer")
    values = {value for value in told.values() if isinstance(value, int)}
    if len(values) > 1:
        raise InputError(
            f"config.json: {where}: {' and '.join(told)} contradict each other", code="E_CONFIG"
        )
    return next(iter(values), None)


def _bad(where: str, key: str, value: Json, expected: str) -> NoReturn:
    raise InputError(
        f"config.json: {where}: `{key}` is {printable(str(value))}, expected {expected}",
        code="E_CONFIG",
    )


def _unsupported(what: str, value: Json) -> UnsupportedError:
    return UnsupportedError(
        f"config.json: {what} is {printable(str(value))}, which is not decoded",
        code="E_QUANT_FORMAT",
    )
