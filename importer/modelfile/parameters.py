"""The parameters of a Modelfile: their types, and their JSON as Ollama's Go writes it."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum, unique
from fractions import Fraction
from typing import Final

from importer.modelfile.grammar import Instruction
from store.json import dumps
from store.text import printable


@unique
class Kind(StrEnum):
    """What a parameter is."""

    INTEGER = "an integer"
    NUMBER = "a number"
    FLAG = "true or false"
    TEXTS = "a text"


_INTEGERS: Final = (
    "draft_num_predict", "main_gpu", "num_batch", "num_ctx", "num_gpu", "num_keep",
    "num_predict", "num_thread", "repeat_last_n", "seed", "top_k",
)  # fmt: skip
_NUMBERS: Final = (
    "frequency_penalty", "min_p", "presence_penalty", "repeat_penalty", "temperature", "top_p",
    "typical_p",
)  # fmt: skip
PARAMETERS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(_INTEGERS, Kind.INTEGER),
    **dict.fromkeys(_NUMBERS, Kind.NUMBER),
    "use_mmap": Kind.FLAG,
    "stop": Kind.TEXTS,
}
"""Every parameter that Ollama 0.33 knows."""

IGNORED: Final = frozenset(
    {
        *("penalize_newline", "low_vram", "f16_kv", "logits_all", "vocab_only", "use_mlock"),
        *("mirostat", "mirostat_tau", "mirostat_eta"),
    }
)
"""Parameters of earlier versions, which Ollama takes and does not use."""


class Number(str):
    """The text of a number in JSON, as Go writes it."""

    __slots__ = ()


Value = int | bool | Number | list[str] | str
"""Of a parameter."""


def read_value(given: Instruction) -> Value:
    """Return the value of a PARAMETER; that of `stop` is a list of one text.

    Raises:
        InputError: there is no such parameter, or its value is of another kind.
    """
    kind, text = PARAMETERS.get(given.key), given.value
    value: Value | None
    match kind:
        case None:
            given.key_place.unknown("there is no parameter", given.key, PARAMETERS)
        case Kind.INTEGER:
            value = _integer(text)
        case Kind.NUMBER:
            value = _number(text)
        case Kind.FLAG:
            value = _FLAGS.get(text)
        case _:
            value = [text]
    if value is None:
        hint = f"Such as PARAMETER {given.key} {_EXAMPLES[kind]}"
        given.value_place.bad(f"`{given.key}` is {kind}, got `{_shown(text)}`", hint)
    return value


_EXAMPLES: Final[Mapping[Kind, str]] = {
    Kind.INTEGER: "64",
    Kind.NUMBER: "0.7",
    Kind.FLAG: "true",
}


def encode(parameters: Mapping[str, object]) -> bytes:
    """Return the document of a parameters layer: sorted keys, compact, one newline."""
    keys = sorted(parameters, key=str.encode)
    members = (dumps(key) + b":" + _encoded(parameters[key]) for key in keys)
    return b"{" + b",".join(members) + b"}\n"


def decode(data: bytes) -> dict[str, Value]:
    """Read a parameters layer of any program; numbers keep their value and get Go's text.

    Raises:
        ValueError: it is not a JSON object of parameters.
    """
    document = json.loads(data, parse_float=_go_double, parse_int=_whole)
    if not isinstance(document, dict):
        raise ValueError("not an object")  # noqa: TRY004 - callers catch one error
    return document


def _encoded(value: object) -> bytes:
    return str(value).encode() if isinstance(value, Number) else dumps(value)


def _integer(text: str) -> int | None:
    # As Go's ParseInt in base 10, with 64 bits.
    if not re.fullmatch(r"[+-]?[0-9]{1,40}", text, re.ASCII):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def _whole(text: str) -> int | Number:
    # Go reads every number of the layer as a float64.
    value = int(text) if len(text) < _EXACT_DIGITS else None
    return _go_double(text) if value is None else value


def _number(text: str) -> Number | None:
    # As Go's ParseFloat with 32 bits, and then what encoding/json makes of it.
    exact = _exact(text)
    if exact is None or abs(exact) >= _INFINITE:
        return None
    bits = _float32_bits(abs(exact))
    short = next(
        short
        for digits in range(_FLOAT32_DIGITS)
        if _float32_bits(Fraction(short := f"{_float32(bits):.{digits}e}")) == bits
    )
    return Number(_go_text(Decimal(short), negative=text.startswith("-")))


def _go_double(text: str) -> Number:
    """Write a number as Go's encoding/json does that has read it as a float64."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return Number(_go_text(abs(Decimal(repr(value))), negative=text.startswith("-")))


def _exact(text: str) -> Fraction | None:
    """Return the exact value of a decimal or hexadecimal number, or None for anything else."""
    if len(text) > _LONGEST or _STRAY.search(text):
        return None
    text = text.replace("_", "")
    if found := _DECIMAL.fullmatch(text):
        mantissa, exponent = Fraction(found[1]), int(found[2] or 0)
        # Beyond any float32, whatever the mantissa: powers of ten of that size take long.
        exponent = max(-_LARGEST_EXPONENT, min(exponent, _LARGEST_EXPONENT))
        return mantissa * Fraction(10) ** exponent
    if found := _HEXADECIMAL.fullmatch(text):
        sign, whole, rest, power = found[1], found[2], found[3] or "", int(found[4])
        if not whole + rest:
            return None
        power = max(-_LARGEST_EXPONENT, min(power, _LARGEST_EXPONENT))
        return int(f"{sign}{whole}{rest}", 16) * Fraction(2) ** (power - 4 * len(rest))
    return None


def _float32_bits(value: Fraction) -> int:
    """Return the bits of the float32 next to a number of 0 or more, ties to even."""
    if value >= _INFINITE:
        return _LARGEST_BITS + 1
    near = min(float(value), _LARGEST)
    bits = int(struct.unpack("<I", struct.pack("<f", near))[0])
    # `float` has rounded once already, so a neighbour may be nearer.
    return min(
        (abs(Fraction(_float32(one)) - value), one & 1, one)
        for one in (bits - 1, bits, bits + 1)
        if 0 <= one <= _LARGEST_BITS
    )[2]


def _float32(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _go_text(value: Decimal, *, negative: bool) -> str:
    """Write a number of 0 or more: with an exponent below 1e-6 and from 1e21 on."""
    sign = "-" if negative else ""
    if not value:
        return f"{sign}0"
    value = value.normalize()
    if Decimal("1e-6") <= value < Decimal("1e21"):
        return f"{sign}{value:f}"
    mantissa, _, exponent = f"{value:e}".partition("e")
    digits = f"{int(exponent):+}"
    return f"{sign}{mantissa}e{digits}"


def _shown(text: str) -> str:
    return printable(text, 80)


_EXACT_DIGITS: Final = 16
_LONGEST: Final = 400
_LARGEST_EXPONENT: Final = 1000
_STRAY: Final = re.compile("(?<![0-9a-fA-FxX])_|_(?![0-9a-fA-F])")
"""An underline that is not between digits."""
_DECIMAL: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?[0-9]+))?", re.ASCII
)
_HEXADECIMAL: Final = re.compile(
    r"([+-]?)0[xX]([0-9a-fA-F]*)(?:\.([0-9a-fA-F]*))?[pP]([+-]?[0-9]+)", re.ASCII
)
_FLOAT32_DIGITS: Final = 9
_LARGEST_BITS: Final = 0x7F7FFFFF
_LARGEST: Final = _float32(_LARGEST_BITS)
_INFINITE: Final = 2**128 - 2**103
"""What rounds to more than the largest float32."""
_FLAGS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
