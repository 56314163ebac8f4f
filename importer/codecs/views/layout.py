"""What the decoders of single arrays have in common that hold a tensor and nothing else."""

from __future__ import annotations

from typing import ClassVar


class Layout:
    """A decoder of one array whose elements are the tensor's, in another order or spelling.

    Keeping such a tensor keeps its values, not its bytes.
    """

    __slots__ = ()
    is_plain: ClassVar[bool] = True
