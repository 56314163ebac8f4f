"""JSON, read strictly and written as Go writes it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NoReturn, TypeAlias, TypeVar

from store import limits
from store.text import printable

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
_T = TypeVar("_T")


class JsonError(ValueError):
    """The bytes are not JSON that we accept; `code` is a stable word."""

    def __init__(self, message: str, code: str = "E_JSON") -> None:
        super().__init__(message)
        self.code = code


def loads(data: bytes, *, floats: bool = False, constants: bool = False) -> Json:
    """Parse one JSON document, refusing what parsers disagree about.

    Args:
        data: the whole document, UTF-8 without a byte order mark.
        floats: accept numbers with a fraction or an exponent.
        constants: accept `NaN` and `Infinity`, which configurations of real models hold, and
            `-0`.

    Raises:
        JsonError: not UTF-8, malformed, a duplicate key, a number that is not accepted, a
            lone surrogate, or nesting beyond `limits.JSON_DEPTH`.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"invalid UTF-8 at byte {error.start}", "E_JSON_UTF8") from error
    parse_float = _reject_float if not floats else None if constants else _finite_float
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=_reject_duplicates,
            parse_constant=None if constants else _reject_constant,
            parse_float=parse_float,
            # Only then, because a function in Python for each number takes ten times as long.
            parse_int=_not_minus_zero if "-0" in text and not constants else None,
        )
    except JsonError:
        raise
    except RecursionError as error:
        message = f"nested deeper than {limits.JSON_DEPTH}"
        raise JsonError(message, "E_JSON_DEPTH") from error
    except ValueError as error:
        # An integer of more than 4300 digits is a ValueError and not a JSONDecodeError.
        code = "E_JSON" if isinstance(error, json.JSONDecodeError) else "E_JSON_NUMBER"
        raise JsonError(str(error).split(";")[0], code) from error
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
                raise JsonError(f"duplicate key `{printable(key)}`", "E_JSON_DUPLICATE")
            seen.add(key)
    return value


def _reject_constant(text: str) -> NoReturn:
    raise JsonError(f"`{text}` is not a JSON number", "E_JSON_NUMBER")


def _finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):  # `1e999` is Infinity in other letters
        _reject_constant(text[:40])
    return value


def _not_minus_zero(text: str) -> int:
    # To python an integer; to the reference reader of headers a float.
    if text == "-0":
        _reject_float(text)
    return int(text)


def _reject_float(text: str) -> NoReturn:
    raise JsonError(f"`{text[:40]}` is not an integer", "E_JSON_NUMBER")


def _check_depth(value: Json) -> None:
    level: list[Json] = [value]
    for _ in range(limits.JSON_DEPTH):
        level = [child for parent in level for child in _containers(parent)]
        if not level:
            return
    raise JsonError(f"nested deeper than {limits.JSON_DEPTH}", "E_JSON_DEPTH")


def _containers(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return [child for child in value.values() if isinstance(child, (dict, list))]
    if isinstance(value, list):
        return [child for child in value if isinstance(child, (dict, list))]
    return []


def _check_surrogates(value: Json) -> None:
    # A lone surrogate parses, and then no print and no file name can hold it.
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise JsonError("lone surrogate in a string", "E_JSON_UTF8") from error


def _check_no_float(value: object) -> None:
    if isinstance(value, float):
        kind = "finite" if math.isfinite(value) else "non-finite"
        message = f"{kind} float in a document that must be the same everywhere"
        raise ValueError(message)  # noqa: TRY004 - the value, not the type, is refused
    if isinstance(value, dict):
        for child in value.values():
            _check_no_float(child)
    elif isinstance(value, (list, tuple)):
        for child in value:
            _check_no_float(child)
