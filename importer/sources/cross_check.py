"""The second opinion on headers: the safetensors library, audited, must see what we see."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from importer.sources.file import SourceFile, opened
from importer.sources.inventory import Inventory
from store.errors import InputError, StorageError
from store.text import printable

_DESCRIPTORS: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


def check_reference(inventory: Inventory, is_known: Callable[[SourceFile], bool]) -> None:
    """Compare the names that two parsers see in each file of weights.

    Args:
        is_known: whether a file was imported as it is now, and so compared, before. The
            library needs numpy, whose import takes longer than all else when nothing changed.

    Raises:
        InputError: the library refuses a file, or sees other tensors.
        StorageError: it cannot read one.
    """
    unknown = {file.path: file for file in inventory.weights if not is_known(file)}
    if not unknown:
        return
    names: dict[str, set[str]] = {path: set() for path in unknown}
    for tensor in inventory.tensors:
        if tensor.file.path in names:
            names[tensor.file.path].add(tensor.own_name)
    for path, file in unknown.items():
        _check(file, names[path])


def _check(file: SourceFile, names: set[str]) -> None:
    # Here, because numpy should not be imported where nothing is checked.
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    where = f"`{file.path}`"
    try:
        with (
            opened(file) as descriptor,
            safe_open(f"{_DESCRIPTORS}/{descriptor}", framework="np") as reference,
        ):
            seen = set(reference.keys())
    except OSError as error:
        raise StorageError(
            f"{where}: the safetensors library cannot read it: {printable(str(error), 300)}",
            code="E_IO",
        ) from error
    except SafetensorError as error:
        raise InputError(
            f"{where}: the safetensors library refuses it: {printable(str(error), 300)}",
            code="E_ST_REFERENCE",
        ) from error
    if seen != names:
        odd = printable(min(seen ^ names))
        raise InputError(
            f"{where}: two parsers see different tensors, such as `{odd}`",
            code="E_ST_REFERENCE",
        )
