"""Small arrays that say how others are stored: the only ones that schemes read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from store.errors import InputError
from store.text import printable

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor

LIMIT: Final = 1 << 20
"""Bytes of such an array."""

_ENDS: Final = (
    *(".g_idx", ".weight_format", ".weight_shape", ".weight_global_scale"),
    ".comfy_quant",
)
_STATE: Final = ".quant_state.bitsandbytes__"


def is_needed(name: str, nbytes: int) -> bool:
    """Return whether a scheme reads an array before any weight, so that a plan needs it.

    A dry run over the Hub fetches such arrays along with the headers.

    Example:
        >>> is_needed("model.layers.0.mlp.up_proj.g_idx", 16384)
        True
    """
    return nbytes <= LIMIT and (name.endswith(_ENDS) or _STATE in name)


def read_contents(tensor: SourceTensor) -> bytes:
    """Return the bytes of a plain tensor of at most `LIMIT` bytes.

    Raises:
        InputError: it is larger, or its file has changed.
        StorageError: the device failed.
    """
    (array,) = tensor.arrays
    if array.nbytes > LIMIT:
        raise InputError(
            f"`{array.file.path}`: `{printable(tensor.name)}` has {array.nbytes} bytes, the "
            f"limit is {LIMIT}",
            code="E_LIMIT",
        )
    return read_start(tensor)


def read_start(tensor: SourceTensor) -> bytes:
    """Return the bytes of a plain tensor, at most the first `LIMIT`.

    Raises:
        InputError: its file has changed.
        StorageError: the device failed.
    """
    from importer.sources.file import opened, read_bytes  # noqa: PLC0415 - as above

    (array,) = tensor.arrays
    with opened(array.file) as descriptor:
        end = array.offset + min(array.nbytes, LIMIT)
        return read_bytes(array.file, descriptor, array.offset, end)
