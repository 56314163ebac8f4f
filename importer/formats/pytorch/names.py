"""The globals that a pickle of weights may name, each with what stands for it here.

Nothing is imported by these names. A constant is an inert value; a function is one of this
file, which checks its arguments and allocates nothing by them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from importer.formats.pytorch.problems import forbidden, malformed, unread
from importer.formats.pytorch.values import RAW, Named, Ordered, Tensor, view
from store.text import printable

Arguments = tuple[object, ...]
Function = Callable[[str, Arguments], object]
"""Takes what to call the file in a message, and the arguments that the pickle gives."""

_STORAGES: Final = {
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "DoubleStorage": "F64",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
    "ComplexFloatStorage": "C64",
}
_DTYPES: Final = {
    "float32": "F32",
    "float": "F32",
    "float64": "F64",
    "double": "F64",
    "float16": "F16",
    "half": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float4_e2m1fn_x2": "F4",
}
_NOT_READ: Final = {
    ("torch._utils", "_rebuild_qtensor"): "a quantized tensor",
    ("torch._utils", "_rebuild_sparse_tensor"): "a sparse tensor",
    ("torch._utils", "_rebuild_sparse_csr_tensor"): "a sparse tensor",
    ("torch._utils", "_rebuild_nested_tensor"): "a nested tensor",
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): "a tensor without data",
    ("torch._utils", "_rebuild_wrapper_subclass"): "a tensor of a class of its own",
    ("torch._utils", "_rebuild_device_tensor_from_numpy"): "a tensor of another device",
    ("torch._tensor", "_rebuild_from_type_v2"): "a tensor of a class of its own",
    ("torch", "ComplexDoubleStorage"): "complex numbers of 128 bits",
    ("torch", "complex128"): "complex numbers of 128 bits",
    ("torch", "QInt8Storage"): "a quantized tensor",
    ("torch", "QUInt8Storage"): "a quantized tensor",
    ("torch", "QInt32Storage"): "a quantized tensor",
    ("torch", "QUInt4x2Storage"): "a quantized tensor",
    ("torch", "QUInt2x4Storage"): "a quantized tensor",
    # A module of torch.ao says its dtype before it gives its weight.
    ("torch", "qint8"): "a quantized tensor",
    ("torch", "quint8"): "a quantized tensor",
    ("torch", "qint32"): "a quantized tensor",
    ("torch", "quint4x2"): "a quantized tensor",
    ("torch", "quint2x4"): "a quantized tensor",
}


def resolve(where: str, module: str, name: str) -> Named | Function:
    """Return what stands for a global.

    Raises:
        InputError: it is not one of those that weights need.
        UnsupportedError: it is a kind of tensor that is not read.
    """
    if (found := _KNOWN.get((module, name))) is not None:
        return found
    if what := _NOT_READ.get((module, name)):
        unread(where, f"it holds {what} (`{module}.{name}`), which ingot does not read")
    return forbidden(
        where,
        f"the pickle names `{printable(f'{module}.{name}')}`, which weights never need and "
        "which could run code; nothing was executed",
        "E_PT_GLOBAL",
    )


def _ordered(where: str, arguments: Arguments) -> object:
    if arguments == ():
        return Ordered()
    pairs = arguments[0] if len(arguments) == 1 else None
    if type(pairs) is not list:
        _wrong(where, "collections.OrderedDict")
    made = Ordered()
    for pair in pairs:
        if type(pair) not in {list, tuple} or len(pair) != 2 or type(pair[0]) is not str:  # noqa: PLR2004
            _wrong(where, "collections.OrderedDict")
        made[pair[0]] = pair[1]
    return made


def _tensor(where: str, arguments: Arguments) -> object:
    if len(arguments) != 4:  # noqa: PLR2004
        _wrong(where, "torch._utils._rebuild_tensor")
    return view(where, arguments[0], RAW, arguments[1:])


def _tensor_v2(where: str, arguments: Arguments) -> object:
    if len(arguments) not in {6, 7}:
        _wrong(where, "torch._utils._rebuild_tensor_v2")
    _check_extras(where, arguments[4], arguments[5], arguments[6:])
    return view(where, arguments[0], RAW, arguments[1:4])


def _tensor_v3(where: str, arguments: Arguments) -> object:
    if len(arguments) not in {7, 8} or not isinstance(arguments[6], Named):
        _wrong(where, "torch._utils._rebuild_tensor_v3")
    _check_extras(where, arguments[4], arguments[5], arguments[7:])
    if not arguments[6].dtype or arguments[6].is_storage:
        _wrong(where, "torch._utils._rebuild_tensor_v3")
    return view(where, arguments[0], arguments[6].dtype, arguments[1:4])


def _parameter(where: str, arguments: Arguments) -> object:
    if len(arguments) not in {3, 4} or not isinstance(arguments[0], Tensor):
        _wrong(where, "torch._utils._rebuild_parameter")
    return arguments[0]


def _size(where: str, arguments: Arguments) -> object:
    if len(arguments) != 1 or type(arguments[0]) not in {tuple, list}:
        _wrong(where, "torch.Size")
    return arguments[0]


def _constant(where: str, arguments: Arguments) -> object:
    if not all(type(argument) in {str, int} for argument in arguments):
        _wrong(where, "torch.device")
    return Named("a device or layout")


def _check_extras(where: str, requires: object, hooks: object, metadata: Arguments) -> None:
    if type(requires) is not bool or not (hooks is None or hooks == Ordered()):
        malformed(where, "a tensor has hooks, or no boolean `requires_grad`", "E_PT_TENSOR")
    if metadata and metadata[0] is not None and metadata[0] != {}:
        # Such as a conjugate or a negative view: the values are not what is stored.
        unread(where, "it holds a tensor with metadata of its own, which ingot does not read")


def _wrong(where: str, name: str) -> NoReturn:
    malformed(where, f"the pickle calls `{name}` with arguments that PyTorch does not give")


def _known() -> dict[tuple[str, str], Named | Function]:
    known: dict[tuple[str, str], Named | Function] = {
        ("collections", "OrderedDict"): _ordered,
        ("torch._utils", "_rebuild_tensor"): _tensor,
        ("torch._utils", "_rebuild_tensor_v2"): _tensor_v2,
        ("torch._utils", "_rebuild_tensor_v3"): _tensor_v3,
        ("torch._utils", "_rebuild_parameter"): _parameter,
        ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
        ("torch", "Size"): _size,
        ("torch", "device"): _constant,
        ("torch.serialization", "_get_layout"): _constant,
        ("torch.storage", "UntypedStorage"): Named(
            "torch.storage.UntypedStorage", RAW, is_storage=True
        ),
    }
    for name, dtype in _STORAGES.items():
        for module in ("torch", "torch.cuda"):
            known[module, name] = Named(f"{module}.{name}", dtype, is_storage=True)
    for name, dtype in _DTYPES.items():
        known["torch", name] = Named(f"torch.{name}", dtype)
    return known


_KNOWN: Final = _known()
