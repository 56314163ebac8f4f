"""Sources whose files are written again for each input, and listed once."""

from __future__ import annotations

import os
from dataclasses import replace

from importer.sources.file import Identity
from importer.sources.inventory import Inventory, take_inventory
from importer.sources.tree import read_tree
from tests.fuzz.scratch import SCRATCH


class Rewritten:
    """A directory of files that keep their names: to list it is most of what a scan costs.

    What the names decide does not depend on the input; everything after that is done anew.
    """

    def __init__(self, name: str, *paths: str) -> None:
        directory = SCRATCH / f"{name}-{os.getpid()}"
        directory.mkdir()
        self._descriptors = [
            os.open(directory / path, os.O_RDWR | os.O_CREAT) for path in sorted(paths)
        ]
        self._tree = read_tree(directory)

    def write(self, *contents: bytes) -> None:
        """Give the files their content, in the order of their paths."""
        files = []
        for file, descriptor, content in zip(
            self._tree.files, self._descriptors, contents, strict=True
        ):
            os.pwrite(descriptor, content, 0)
            os.ftruncate(descriptor, len(content))
            files.append(replace(file, identity=Identity.of(os.fstat(descriptor))))
        self._tree = self._tree._replace(files=tuple(files))

    def inventory(self, *, as_arrays: bool = False) -> Inventory:
        """Read what is in the directory."""
        return take_inventory(self._tree, as_arrays=as_arrays)
