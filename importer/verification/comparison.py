"""What comparing a model with its source, or with an export, found."""

from __future__ import annotations

from dataclasses import dataclass

from store.findings import Finding


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared and what differs.

    Attributes:
        notes: what is not wrong, and should be known.
        tensors: that were compared.
        nbytes: that were read from the source.
        against: what the model was compared with: its source, or an export.
        differing: tensors of either side that the other lacks or has otherwise, of a source.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    tensors: int
    files: int
    nbytes: int
    against: str = "source"
    differing: int = 0

    @property
    def is_of_another(self) -> bool:
        """Whether that is the source of another model: most of its tensors differ."""
        return self.differing > self.tensors // 2
