"""A model whose files can be kept as they are, because programs load them so."""

from __future__ import annotations

from typing import NamedTuple

from importer.sources.file import SourceFile
from store import MediaType


class WholeLayer(NamedTuple):
    """A file of weights and the layer that it becomes."""

    file: SourceFile
    media_type: MediaType


class WholeModel(NamedTuple):
    """What Ollama's configuration says of such a model.

    Attributes:
        layers: in the order of the manifest.
        format: as `model_format` has it.
        family: the architecture's word.
        parameters: elements of all tensors of the model itself.
        file_type: the type that most of the model is of, as the file says.
        parser: of the model's answers, where Ollama knows one; or empty.
        renderer: of its prompts, likewise.
        why_apart: why nothing loads its files as they are, so that its tensors have to be
            taken out; or empty.
        why_whole: why they cannot be taken out; or empty.
    """

    layers: tuple[WholeLayer, ...]
    format: str
    family: str
    parameters: int
    file_type: str
    parser: str = ""
    renderer: str = ""
    why_apart: str = ""
    why_whole: str = ""

    @property
    def size_label(self) -> str:
        """The number of parameters as Ollama writes it for these: `8B`, `7.6B`, `137.29M`.

        Its rule for models of tensors is another one.
        """
        count = self.parameters
        for unit, letter, digits in ((10**9, "B", 1), (10**6, "M", 2)):
            if count >= unit:
                value = count / unit
                shown = f"{value:.0f}" if value.is_integer() else f"{value:.{digits}f}"
                return f"{shown}{letter}"
        return f"{count / 1000:.0f}K" if count >= 1000 else str(count)  # noqa: PLR2004
