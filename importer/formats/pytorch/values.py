"""What a pickle of weights is made of: storages, tensors, and names that stay names."""

from __future__ import annotations

from typing import Final, NamedTuple

from importer.formats.pytorch.problems import malformed, unread
from store import limits


class Named:
    """A global that is a constant: a dtype, a device, a class of storages.

    Attributes:
        name: as `torch.float16`.
        dtype: of safetensors, of a dtype or of the elements of a storage; or empty.
        is_storage: whether it is a class of storages.
    """

    __slots__ = ("dtype", "is_storage", "name")

    def __init__(self, name: str, dtype: str = "", *, is_storage: bool = False) -> None:
        """Name it."""
        self.name: Final = name
        self.dtype: Final = dtype
        self.is_storage: Final = is_storage


class Storage(NamedTuple):
    """Elements of one type, one after the other, which tensors are views of.

    Attributes:
        key: that tells it from the others of the file.
        dtype: of safetensors; `RAW` for one that counts bytes.
        length: in elements.
        root_length: of the storage that it is a part of, which is itself as a rule.
        begin: its first element in that storage.
    """

    key: str
    dtype: str
    length: int
    root_length: int
    begin: int = 0


class Tensor(NamedTuple):
    """A view of a storage.

    Attributes:
        dtype: of safetensors.
        offset: of its first element in the storage, in elements, as strides are.
    """

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def extent(self) -> int:
        """Elements of the storage from its first to its last."""
        if 0 in self.shape:
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        return 1 + sum((size - 1) * stride for size, stride in steps)

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements follow each other in row-major order."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return 0 in self.shape
            expected *= size
        return True


class Ordered(dict[object, object]):
    """An OrderedDict: the only value that a pickle may give attributes, which are dropped."""

    __slots__ = ()


RAW: Final = "raw"
ITEM_BYTES: Final = {
    RAW: 1,
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F4": 1,  # two of them
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E4M3FNUZ": 1,
    "F8_E5M2FNUZ": 1,
    "F8_E8M0": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
    "C64": 8,
}
"""Of each dtype, in a storage."""


def view(where: str, storage: object, dtype: str, layout: tuple[object, ...]) -> Tensor:
    """Return the tensor that is a view of a storage, if it lies within.

    Args:
        where: what to call the file in a message.
        dtype: of safetensors, or `RAW` for that of the storage.
        layout: offset, shape and strides, not yet checked.

    Raises:
        InputError: it leaves the storage, or is not a view at all.
    """
    if not isinstance(storage, Storage):
        malformed(where, "a tensor is not given a storage", "E_PT_TENSOR")
    offset, shape, strides = layout
    sizes, steps = _numbers(where, shape, "shape"), _numbers(where, strides, "strides")
    (begin,) = _numbers(where, (offset,), "offset")
    if len(sizes) != len(steps):
        message = f"a tensor of {len(sizes)} dimensions has {len(steps)} strides"
        malformed(where, message, "E_PT_TENSOR")
    if (dtype == RAW) == (storage.dtype == RAW):
        malformed(where, "a tensor and its storage do not say one dtype", "E_PT_TENSOR")
    if 0 in sizes:  # torch looks at no element, and takes any offset
        begin = 0
    tensor = Tensor(storage, storage.dtype if dtype == RAW else dtype, begin, sizes, steps)
    there = storage.length * ITEM_BYTES[storage.dtype] // ITEM_BYTES[tensor.dtype]
    needed = begin + tensor.extent
    if needed > there:
        message = f"a tensor {list(sizes)} needs {needed} elements of storage "
        malformed(where, f"{message}`{storage.key}`, which has {there}", "E_PT_TENSOR")
    count = 1
    for size in sizes:
        count *= size
        if count > limits.DIMENSION:
            malformed(where, f"a tensor {list(sizes)} has too many elements", "E_PT_TENSOR")
    if tensor.dtype == "F4" and not (sizes and tensor.is_contiguous):
        unread(where, "a view of values of 4 bits, which ingot does not read yet")
    return tensor


def _numbers(where: str, value: object, what: str) -> tuple[int, ...]:
    if type(value) is not tuple or len(value) > limits.RANK:
        message = f"the {what} of a tensor is not a tuple of at most {limits.RANK} numbers"
        malformed(where, message, "E_PT_TENSOR")
    for number in value:
        if type(number) is not int or not 0 <= number <= limits.DIMENSION:
            message = f"the {what} of a tensor has a value that is not a number from 0 to 2^63"
            malformed(where, message, "E_PT_TENSOR")
    return value
