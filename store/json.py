"""JSON, read strictly and written as Go writes it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import StrEnum, unique
from typing import NoReturn, TypeAlias, TypeVar

from store import limits
from store.text import printable

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
_T = TypeVar("_T")


@unique
class Fault(StrEnum):
    """What is wrong with bytes that are not JSON as we accept it."""

    SYNTAX = "syntax"
    UTF8 = "UTF-8"
    DUPLICATE = "duplicate key"
    NUMBER = "number"
    DEPTH = "depth"


class JsonError(ValueError):
    """The bytes are not JSON that we accept; `fault` says why."""

    def __init__(self, message: str, fault: Fault = Fault.SYNTAX) -> None:
        super().__init__(message)
        self.fault = fault


def loads(data: bytes, *, floats: bool = False, constants: bool = False) -> Json:
    """Parse one JSON document, refusing what parsers disagree about.

    Args:
        data: the whole document, UTF-8 without a byte order mark.
        floats: accept numbers with a fraction or an exponent, and `-0`, which is one: -0.0.
        constants: accept `NaN` and `Infinity`, which configurations of real models hold.

    Raises:
        JsonError: not UTF-8, malformed, a duplicate key, a number that is not accepted, a
            lone surrogate, or nesting beyond `limits.JSON_DEPTH`.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"invalid UTF-8 at byte {error.start}", Fault.UTF8) from error
    parse_int = _float_minus_zero if floats else _not_minus_zero
    parse_float = _reject_float if not floats else None if constants else _finite_float
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=_reject_duplicates,
            parse_constant=None if constants else _reject_constant,
            parse_float=parse_float,
            # Only then, because a function in Python for each number takes ten times as long.
            parse_int=parse_int if "-0" in text else None,
        )
    except JsonError:
        raise
    except RecursionError as error:
        message = f"nested deeper than {limits.JSON_DEPTH}"
        raise JsonError(message, Fault.DEPTH) from error
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError):
            raise JsonError(_in_words(error)) from error
        raise JsonError("an integer of more than 4300 digits", Fault.NUMBER) from error
    if text.count("{") + text.count("[") > limits.JSON_DEPTH:
        _check_depth(value)
    if "\\u" in text:
        _check_surrogates(value)
    return value


def dumps(value: object) -> bytes:
    """Serialize as Go's `json.Marshal`: compact, UTF-8, `<>&` and U+2028/9 escaped.

    Mappings keep their order: sort keys with `sorted_keys` where Go would marshal a map.

    Raises:
        ValueError: a float, whose text would not be the same everywhere.
    """
    _check_no_float(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_GO_ESCAPED).encode("utf-8")


def sorted_keys(mapping: Mapping[str, _T]) -> dict[str, _T]:
    """Order keys bytewise, as Go orders the keys of a map."""
    return dict(sorted(mapping.items(), key=lambda pair: pair[0].encode()))


# `<>&` and the two separators, which Go escapes; DEL and everything else stay as they are.
_GO_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def _reject_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonError(f"duplicate key `{printable(key)}`", Fault.DUPLICATE)
            seen.add(key)
    return value


def _reject_constant(text: str) -> NoReturn:
    raise JsonError(f"`{text}` is not a JSON number", Fault.NUMBER)


def _finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):  # `1e999` is Infinity in other letters
        _reject_constant(text[:40])
    return value


def _float_minus_zero(text: str) -> int | float:
    # A parameter of -0 has to be written as Go writes it, and 0 is another number.
    return -0.0 if text == "-0" else int(text)


def _not_minus_zero(text: str) -> int:
    # To python an integer; to the reference reader of headers a float.
    if text == "-0":
        _reject_float(text)
    return int(text)


def _reject_float(text: str) -> NoReturn:
    raise JsonError(f"`{text[:40]}` is not an integer", Fault.NUMBER)


def _check_depth(value: Json) -> None:
    level: list[Json] = [value]
    for _ in range(limits.JSON_DEPTH):
        level = [child for parent in level for child in _containers(parent)]
        if not level:
            return
    raise JsonError(f"nested deeper than {limits.JSON_DEPTH}", Fault.DEPTH)


def _containers(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return [child for child in value.values() if isinstance(child, (dict, list))]
    if isinstance(value, list):
        return [child for child in value if isinstance(child, (dict, list))]
    return []


def _in_words(error: json.JSONDecodeError) -> str:
    """Return what the library says of malformed text, in a sentence of ours."""
    if not error.doc.strip():
        return "it is empty, expected JSON"
    said = error.msg.removesuffix(" at").replace("Expecting", "expected")
    what = said[:1].lower() + said[1:]
    return f"not JSON at line {error.lineno}, column {error.colno}: {what}"


def _check_surrogates(value: Json) -> None:
    # A lone surrogate parses, and then no print and no file name can hold it.
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise JsonError("lone surrogate in a string", Fault.UTF8) from error


def _check_no_float(value: object) -> None:
    # A loop, which looks at the type alone where it can: a call for each value took longer
    # than writing the text.
    left = [value]
    for one in left:
        kind = type(one)
        if kind is str or kind is int:
            continue
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, (list, tuple)):
            left += one
        elif isinstance(one, float):
            what = "finite" if math.isfinite(one) else "non-finite"
            message = f"{what} float in a document that must be the same everywhere"
            raise ValueError(message)  # noqa: TRY004 - the value, not the type, is refused
