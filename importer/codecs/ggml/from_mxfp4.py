"""MXFP4 of the store, and of GPT-OSS, as GGML's blocks: codes and scales stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from importer.codecs.base import Encoded, KernelSpec, Part, Runtime, Shape, Span
from importer.codecs.ggml.types import NAMED
from importer.codecs.transcode import CopyParts, Repack
from store.fs import Buffer
from store.tensorblob import WEIGHT

_TYPE: Final = NAMED["MXFP4"]
_HALF: Final = 16


@dataclass(frozen=True, slots=True)
class Mxfp4Blocks:
    """Moves codes whose neighbors share a byte into blocks whose halves do.

    A block is its scale, and 16 bytes of which each has an element of the first half in its
    low bits and one of the second half above (docs/formats/ggml.md).

    Attributes:
        inner: gives codes and scales as the store has them.
    """

    inner: CopyParts | Repack

    @property
    def is_lossless(self) -> bool:
        """Return True: codes and scales stay."""
        return True

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return one part, an array of bytes."""
        *outer, columns = shape
        return (Part(WEIGHT, "U8", (*outer, _TYPE.row_nbytes(columns))),)

    def unit(self, shape: Shape) -> int:
        """Return the unit of what gives codes."""
        return self.inner.unit(shape)

    def spans(self, shape: Shape, elements: range) -> tuple[Span, ...]:
        """Return what gives codes needs."""
        return self.inner.spans(shape, elements)

    def convert(
        self, arrays: Sequence[Buffer], shape: Shape, elements: range, runtime: Runtime
    ) -> Encoded:
        """Return whole blocks."""
        import numpy as np  # noqa: PLC0415 - a plan needs no numpy

        made = self.inner.convert(arrays, shape, elements, runtime)
        packed, scales = (np.frombuffer(part, "u1") for part in made.parts)
        pairs = packed.reshape(-1, _HALF)
        codes = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1, 2, _HALF)
        blocks = np.empty((len(pairs), _TYPE.nbytes), "u1")
        blocks[:, 0] = scales
        blocks[:, 1:] = codes[:, 0] | codes[:, 1] << 4
        return Encoded((blocks.reshape(-1).data,), made.nonfinite)

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return those of what gives codes."""
        return self.inner.kernels()
