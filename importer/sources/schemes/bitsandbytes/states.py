"""What the quantization states of bitsandbytes say, checked against the arrays beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NoReturn

from importer.codecs.base import Decoder, Shape
from importer.codecs.bitsandbytes.decoder import CODES, NESTED_CODES, Bnb4, Bnb8, Nested
from importer.codecs.plain import Plain
from importer.sources.schemes.bitsandbytes.arrays import FORMAT, INT8, SCB, Quantized
from importer.sources.schemes.contents import read_contents
from importer.sources.tensor import SourceTensor
from store.errors import InputError, UnsupportedError
from store.json import Json, JsonError, loads
from store.text import printable

_MATRIX: Final = 2
_TYPES: Final = ("nf4", "fp4")
_DTYPES: Final = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_STATE_BYTES: Final = 4096
_LARGEST_BLOCK: Final = 1 << 16
_MOST: Final = 1 << 48
_RANK: Final = 8
_ROW_MAJOR: Final = b"\0"


def join_weights(found: Sequence[Quantized]) -> dict[str, SourceTensor | None]:
    """Return what becomes of each array: a tensor, or None where it is a part of one.

    Raises:
        InputError: parts are missing, or contradict what the state says.
        UnsupportedError: a type that is not decoded.
    """
    made: dict[str, SourceTensor | None] = {}
    for one in found:
        weight = one.weight
        if weight is None:
            _bad(one, "is not there, and its scales are")
        for part in (weight, *one.others.values()):
            if not isinstance(part.decoder, Plain):
                _unsupported(one, f"has a `{printable(part.name)}` that is a view")
            if part.name in made:
                _bad(one, "is quantized a second time")
        parts, decoder, shape = (
            _int8(one, weight) if one.type_name == INT8 else _bits4(one, weight)
        )
        made |= dict.fromkeys(part.name for part in parts)
        arrays = tuple(part.arrays[0] for part in parts)
        made[weight.name] = SourceTensor(weight.name, shape, arrays, decoder, weight.component)
    return made


_Joined = tuple[list[SourceTensor], Decoder, Shape]


def _int8(one: Quantized, weight: SourceTensor) -> _Joined:
    scales, order = one.others[SCB], one.others.get(FORMAT)
    if weight.dtype != "I8" or len(weight.shape) != _MATRIX:
        _bad(one, f"is {weight.dtype} {list(weight.shape)}, and has the scales of an I8 matrix")
    _check(one, SCB, "F32", weight.shape[:1])
    if order is None:
        return [weight, scales], Bnb8(), weight.shape
    if order.dtype != "U8" or order.nbytes != 1:
        _bad(one, f"has a format of {order.dtype} {list(order.shape)}, expected a byte")
    if (code := read_contents(order)) != _ROW_MAJOR:
        _unsupported(one, f"has format {code[0]}, and only 0, by rows, is decoded")
    return [weight, scales, order], Bnb8(has_format=True), weight.shape


def _bits4(one: Quantized, weight: SourceTensor) -> _Joined:
    state = one.others.get("state")
    if state is None:
        _bad(one, "has no quantization state")
    if one.type_name not in _TYPES:
        _unsupported(one, f"is {printable(one.type_name)}, expected nf4 or fp4")
    told = _read(one, state)
    if told.get("quant_type") != one.type_name:
        _bad(one, f"is {one.type_name} by name, and {told.get('quant_type')!r} in its state")
    shape = _shape(one, told.get("shape"))
    size = _number(one, told, "blocksize", _LARGEST_BLOCK)
    count = math.prod(shape)
    if weight.nbytes != -(-count // 2):
        _bad(
            one,
            f"has {weight.nbytes} bytes, and {list(shape)} of its state takes {-(-count // 2)}",
        )
    blocks = -(-count // size)
    parts = [weight, *_parts(one, ("absmax", "quant_map")), state]
    _check(one, "quant_map", "F32", (CODES,))
    nested = _nested(one, told)
    if nested is None:
        _check(one, "absmax", "F32", (blocks,))
    else:
        parts += _parts(one, ("nested_absmax", "nested_quant_map"))
        _check(one, "absmax", "U8", (blocks,))
        _check(one, "nested_absmax", "F32", (-(-blocks // nested.block_size),))
        _check(one, "nested_quant_map", "F32", (NESTED_CODES,))
    dtype = told.get("dtype")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        _unsupported(one, f"has values of {printable(str(dtype))}")
    decoder = Bnb4(one.type_name, size, _DTYPES[dtype], state.nbytes, nested)
    return parts, decoder, shape


def _read(one: Quantized, state: SourceTensor) -> dict[str, Json]:
    if state.dtype != "U8" or not 0 < state.nbytes <= _STATE_BYTES:
        _bad(one, f"has a state of {state.dtype} {list(state.shape)}")
    try:
        told = loads(read_contents(state), floats=True)
    except JsonError as error:
        _bad(one, f"has a state that is not JSON: {printable(str(error), 200)}")
    if not isinstance(told, dict):
        _bad(one, "has a state that is not a JSON object")
    return told


def _shape(one: Quantized, told: Json) -> Shape:
    sizes = told if isinstance(told, list) else []
    shape = tuple(size for size in sizes if type(size) is int and 0 < size <= _MOST)
    if not 0 < len(shape) == len(sizes) <= _RANK or math.prod(shape) > _MOST:
        _bad(one, f"has shape {printable(str(told), 100)} in its state")
    return shape


def _nested(one: Quantized, told: dict[str, Json]) -> Nested | None:
    if not any(name.startswith("nested") for name in (*told, *one.others)):
        return None
    size = _number(one, told, "nested_blocksize", _LARGEST_BLOCK)
    offset = told.get("nested_offset")
    if type(offset) not in {int, float} or not isinstance(offset, (int, float)):
        _bad(one, f"has `nested_offset` {printable(str(offset), 100)} in its state")
    if abs(offset) > _MOST or told.get("nested_dtype") != "float32":
        _bad(one, "has magnitudes in its state that are not float32")
    return Nested(size, float(offset))


def _number(one: Quantized, told: dict[str, Json], key: str, most: int) -> int:
    value = told.get(key)
    if type(value) is not int or not 0 < value <= most:
        _bad(one, f"has `{key}` {printable(str(value), 100)} in its state")
    return value


def _parts(one: Quantized, names: Sequence[str]) -> list[SourceTensor]:
    found = []
    for name in names:
        if name not in one.others:
            _bad(one, f"has no `{name}`")
        found.append(one.others[name])
    return found


def _check(one: Quantized, name: str, dtype: str, shape: Shape) -> None:
    part = one.others[name]
    if (part.dtype, part.shape) != (dtype, shape):
        _bad(
            one,
            f"has `{name}` of {part.dtype} {list(part.shape)}, expected {dtype} {list(shape)}",
        )


def _bad(one: Quantized, what: str) -> NoReturn:
    raise InputError(
        f"{_where(one)} {what}",
        code="E_QUANT_PAIR",
        hint="The checkpoint is incomplete or damaged: fetch it again",
    )


def _unsupported(one: Quantized, what: str) -> NoReturn:
    raise UnsupportedError(f"{_where(one)} {what}, which is not decoded", code="E_QUANT_FORMAT")


def _where(one: Quantized) -> str:
    file = (one.weight or next(iter(one.others.values()))).file.path
    return f"`{file}`: `{printable(one.name)}`"
