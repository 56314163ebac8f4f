"""A tensor in a source, and where its bytes are."""

from __future__ import annotations

from dataclasses import dataclass

from importer.sources.file import SourceFile


@dataclass(frozen=True, slots=True)
class SourceTensor:
    """A tensor in a source, and where its bytes are.

    Attributes:
        name: in the model, component included.
        component: the directory that it belongs to, empty for the source itself.
        shape: in elements, outermost first.
        offset: of the first byte in the file.
        nbytes: of the data.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: SourceFile
    offset: int
    nbytes: int
    component: str = ""

    @property
    def own_name(self) -> str:
        """The name in its file."""
        return self.name.removeprefix(f"{self.component}/") if self.component else self.name
