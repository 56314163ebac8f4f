"""What a decoder has in common with the one that it reads through."""

from __future__ import annotations

from dataclasses import dataclass

from importer.codecs.base import Decoder, KernelSpec, Operation, Shape, Span, Transcoder
from importer.codecs.plain import is_plain


def can_read(reader: Decoder | Transcoder, shape: Shape) -> bool:
    """Return whether all of a tensor of this shape can be read, in bounded memory.

    What reads across rows says so itself: `can_read`. Others read any shape.
    """
    own = getattr(reader, "can_read", None)
    return own is None or bool(own(shape))


@dataclass(frozen=True, slots=True)
class View:
    """Reads the values of another decoder, in another order, changed, or some of them.

    Attributes:
        inner: the other decoder.
    """

    inner: Decoder

    @property
    def value_dtype(self) -> str:
        """The dtype of the inner decoder's values."""
        return self.inner.value_dtype

    @property
    def is_plain(self) -> bool:
        """Whether the values are stored as they are."""
        return is_plain(self.inner)

    def can_read(self, shape: Shape) -> bool:
        """Return whether the inner decoder can read this shape."""
        return can_read(self.inner, shape)

    def unit(self, shape: Shape) -> int:
        """Return the inner decoder's unit."""
        return self.inner.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what the inner decoder needs."""
        return self.inner.spans(shape, elements)

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the inner decoder's."""
        return self.inner.kernels(operation)

    def __str__(self) -> str:
        return str(self.inner)
