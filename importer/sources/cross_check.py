"""A second opinion on headers: another parser must see the arrays that ours saw."""

from __future__ import annotations

from collections.abc import Callable

from importer.sources.containers import FORMATS
from importer.sources.file import SourceFile
from importer.sources.inventory import Inventory


def check_reference(inventory: Inventory, is_known: Callable[[SourceFile], bool]) -> None:
    """Compare the names that two parsers see in each file of weights.

    Args:
        inventory: of the source, as our parser saw it.
        is_known: whether a file was imported as it is now, and so compared, before. The
            second parser may need numpy, whose import takes longer than all else when
            nothing changed.

    Raises:
        InputError: the second parser refuses a file, or sees other arrays.
        StorageError: it cannot read one.
    """
    unknown = {file.path: file for file in inventory.weights if not is_known(file)}
    if not unknown:
        return
    names: dict[str, set[str]] = {path: set() for path in unknown}
    for tensor in inventory.tensors:
        for array in tensor.arrays:
            if array.file.path in names:
                names[array.file.path].add(array.name)
    for path, file in unknown.items():
        if not file.role.format:
            continue  # data beside an ONNX graph: it has no names of its own
        FORMATS[file.role.format].cross_check(file, names[path])
