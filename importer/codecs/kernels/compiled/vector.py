"""Sixteen float32 at a time: a type for numba, with which a kernel says what is a lane.

LLVM finds vectors in innermost loops alone. What finds the scale of a group is a sum over its
elements, whose order counts: groups are the lanes, and so a vector is a value here. Each
operation is that of the float32 in every lane, rounded as it is alone. On processors whose
registers are shorter LLVM takes several of them.
"""

# ruff: noqa: ANN401 - numba has no types

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from importer.codecs.kernels.kinds import Array

LANES: Final = 16

cgutils = cast("Any", untyped_cgutils)

_I32: Final = ir.IntType(32)
_FLOATS: Final = ir.VectorType(ir.FloatType(), LANES)
_INTEGERS: Final = ir.VectorType(_I32, LANES)
_BITS: Final = ir.VectorType(ir.IntType(1), LANES)
_ROUNDER: Final = np.float32(3 << 22)
"""Added to a float32 below 2 ** 22, leaves the nearest integer in the 23 last bits."""


class Mask(Protocol):
    """A truth value in each lane."""

    def __and__(self, other: Mask) -> Mask: ...
    def __or__(self, other: Mask) -> Mask: ...


class Vector(Protocol):
    """A float32 in each lane."""

    def __add__(self, other: Vector) -> Vector: ...
    def __sub__(self, other: Vector) -> Vector: ...
    def __mul__(self, other: Vector) -> Vector: ...
    def __truediv__(self, other: Vector) -> Vector: ...
    def __lt__(self, other: Vector) -> Mask: ...
    def __gt__(self, other: Vector) -> Mask: ...
    def __eq__(self, other: Vector) -> Mask: ...  # type: ignore[override]
    def __hash__(self) -> int: ...


class _VectorType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="vector")


class _MaskType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="mask")


_VECTOR: Final = _VectorType()
_MASK: Final = _MaskType()


@register_model(_VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _FLOATS)  # type: ignore[no-untyped-call]


@register_model(_MaskType)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _BITS)  # type: ignore[no-untyped-call]


def _instruction(signature: Any, build: Callable[..., Any]) -> Any:
    """Return what numba compiles to instructions: `build(builder, *arguments)` emits them."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return build(builder, *arguments)

    match len(signature.args):
        case 1:
            return intrinsic(lambda _context, a: (signature, generate))  # noqa: ARG005
        case 2:
            return intrinsic(lambda _context, a, b: (signature, generate))  # noqa: ARG005
        case _:
            return intrinsic(lambda _context, a, b, c: (signature, generate))  # noqa: ARG005


def _operator(operation: Callable[..., Any], kind: Any, build: Callable[..., Any]) -> None:
    """Let an operator of two vectors, or masks, be instructions."""
    two = kind.args[0]

    def choose(_context: Any) -> Any:
        # Not by an overload, which is a function that takes 0.1 s to compile.
        return lambda left, right: kind.return_type if left is right is two else None

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return build(builder, *arguments)

    cast("Any", type_callable)(operation)(choose)
    cast("Any", lower_builtin)(operation, two, two)(generate)


def _compare(sign: str) -> Callable[..., Any]:
    return lambda builder, left, right: builder.fcmp_ordered(sign, left, right)


_operator(operator.add, _VECTOR(_VECTOR, _VECTOR), ir.IRBuilder.fadd)
_operator(operator.sub, _VECTOR(_VECTOR, _VECTOR), ir.IRBuilder.fsub)
_operator(operator.mul, _VECTOR(_VECTOR, _VECTOR), ir.IRBuilder.fmul)
_operator(operator.truediv, _VECTOR(_VECTOR, _VECTOR), ir.IRBuilder.fdiv)
_operator(operator.lt, _MASK(_VECTOR, _VECTOR), _compare("<"))
_operator(operator.gt, _MASK(_VECTOR, _VECTOR), _compare(">"))
_operator(operator.eq, _MASK(_VECTOR, _VECTOR), _compare("=="))
_operator(operator.and_, _MASK(_MASK, _MASK), ir.IRBuilder.and_)
_operator(operator.or_, _MASK(_MASK, _MASK), ir.IRBuilder.or_)


def _constant(kind: Any, value: Any) -> Any:
    return ir.Constant(kind, [value] * LANES)


def _build_splat(builder: Any, number: Any) -> Any:
    empty = ir.Constant(_FLOATS, ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, empty, _constant(_INTEGERS, 0))


def _build_magnitude(builder: Any, vector: Any) -> Any:
    bits = builder.bitcast(vector, _INTEGERS)
    return builder.bitcast(builder.and_(bits, _constant(_INTEGERS, 0x7FFF_FFFF)), _FLOATS)


def _build_root(builder: Any, vector: Any) -> Any:
    kind = ir.FunctionType(_FLOATS, [_FLOATS])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f32")
    return builder.call(function, [vector])


def _build_nearest(builder: Any, vector: Any, low: Any, high: Any) -> Any:
    total = builder.fadd(vector, _constant(_FLOATS, float(_ROUNDER)))
    fraction = builder.and_(builder.bitcast(total, _INTEGERS), _constant(_INTEGERS, 0x7F_FFFF))
    number = builder.sub(fraction, _constant(_INTEGERS, 1 << 22))
    for limit, sign in ((low, "<"), (high, ">")):
        bound = builder.fptosi(limit, _INTEGERS)
        number = builder.select(builder.icmp_signed(sign, number, bound), bound, number)
    return builder.sitofp(number, _FLOATS)


def _build_any(builder: Any, mask: Any) -> Any:
    bits = ir.IntType(LANES)
    return builder.icmp_unsigned("!=", builder.bitcast(mask, bits), ir.Constant(bits, 0))


splat = cast(
    "Callable[[np.float32], Vector]", _instruction(_VECTOR(types.float32), _build_splat)
)
"""Return a number in every lane."""
where = cast(
    "Callable[[Mask, Vector, Vector], Vector]",
    _instruction(_VECTOR(_MASK, _VECTOR, _VECTOR), ir.IRBuilder.select),
)
"""Return the first vector's number where the mask is true, and the second's elsewhere."""
magnitude = cast("Callable[[Vector], Vector]", _instruction(_VECTOR(_VECTOR), _build_magnitude))
"""Return numbers without their signs."""
root = cast("Callable[[Vector], Vector]", _instruction(_VECTOR(_VECTOR), _build_root))
"""Return square roots."""
nearest = cast(
    "Callable[[Vector, Vector, Vector], Vector]",
    _instruction(_VECTOR(_VECTOR, _VECTOR, _VECTOR), _build_nearest),
)
"""Round as `reference.ggml.quantize.rounding.nearest`, and move integers between two."""
inverse = cast("Callable[[Mask], Mask]", _instruction(_MASK(_MASK), ir.IRBuilder.not_))
"""Return the opposite of a mask."""
is_any = cast("Callable[[Mask], bool]", _instruction(types.boolean(_MASK), _build_any))
"""Return whether a mask is true in any lane."""


def _place(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    """Emit the address of a row of sixteen in an array of two dimensions."""
    start = cgutils.create_struct_proxy(kind)(context, builder, array).data
    offset = builder.mul(row, ir.Constant(ir.IntType(64), LANES))
    return builder.bitcast(builder.gep(start, [offset]), _FLOATS.as_pointer())


@intrinsic
def _load(_context: Any, array: Any, row: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        found = builder.load(_place(context, builder, array, *arguments))
        found.align = 4
        return found

    return _VECTOR(array, types.int64), generate


@intrinsic
def _store(_context: Any, array: Any, row: Any, vector: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        *place, value = arguments
        builder.store(value, _place(context, builder, array, *place)).align = 4
        return context.get_dummy_value()

    return types.void(array, types.int64, _VECTOR), generate


load = cast("Callable[[Array, int], Vector]", _load)
"""Return a row of a float32 array of shape (rows, 16)."""
store = cast("Callable[[Array, int, Vector], None]", _store)
"""Write a row of a float32 array of shape (rows, 16)."""
