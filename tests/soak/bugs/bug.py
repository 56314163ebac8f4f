"""A mistake that a change might make, as a replacement in the text of the code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bug:
    """One mistake: `old` occurs once in the file and is replaced by `new`.

    Attributes:
        layers: that are known to see it (see seeded_bugs.py).
    """

    name: str
    layers: tuple[str, ...]
    file: str
    old: str
    new: str

    def plant(self, root: Path) -> None:
        """Make the mistake in the copy of the code at `root`.

        Raises:
            ValueError: the code is no longer as it was.
        """
        path = root / f"{self.file}.py"
        text = path.read_text("utf-8")
        if text.count(self.old) != 1:
            message = f"{self.name}: {path} has {text.count(self.old)} x {self.old!r}"
            raise ValueError(message)
        path.write_text(text.replace(self.old, self.new), "utf-8")


def bug(name: str, layers: str, file: str, old: str, new: str = "") -> Bug:
    """Describe a mistake; `layers` are separated by spaces."""
    return Bug(name, tuple(layers.split()), file, old, new)
