"""A tensor in a source: the arrays that hold it, where these are, and how to read them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from importer.codecs.base import Decoder, Shape
from importer.codecs.plain import Plain, is_plain
from importer.codecs.registry import has_blocks, stored_type
from importer.sources.file import Extent, SourceFile


class StoredArray(NamedTuple):
    """One array as it stands in a file.

    Attributes:
        name: in the file.
        dtype: of safetensors, or the nearest to what the container calls it.
        shape: in elements of `dtype`, outermost dimension first.
        offset: of the first byte in the file.
        nbytes: of the data.
        decoder: reads the elements where they are not there one after the other.
        whole: the array in the file that this is a part of, where it is one: the scales of
            all experts may be one array.
    """

    name: str
    dtype: str
    shape: Shape
    file: SourceFile
    offset: int
    nbytes: int
    decoder: Decoder | None = None
    whole: StoredArray | None = None

    @property
    def extent(self) -> Extent:
        """Where its bytes are."""
        return Extent(self.file, self.offset, self.nbytes)


class SourceTensor(NamedTuple):
    """One logical tensor: what a model's code would call a weight.

    Attributes:
        name: in the model, component included.
        shape: logical, in elements, outermost dimension first: of a quantized linear layer
            `[out, in]`, however it is packed.
        arrays: that hold it, at least one, in the order that the decoder wants.
        decoder: reads the values from the arrays.
        component: the directory that it belongs to, empty for the source itself.
        unjoined: why a scheme that decodes left this array as it is, or empty.
        is_computed: whether that is because only a graph knows the values: such an array may
            stay as it is.

    Example:
        >>> SourceTensor.plain(StoredArray("norm.weight", "BF16", (64,), file, 4096, 128))
    """

    name: str
    shape: Shape
    arrays: tuple[StoredArray, ...]
    decoder: Decoder
    component: str = ""
    unjoined: str = ""
    is_computed: bool = False

    @classmethod
    def plain(cls, array: StoredArray, component: str = "") -> SourceTensor:
        """Take an array for a tensor of its own."""
        name = f"{component}/{array.name}" if component else array.name
        decoder = array.decoder or _plain(array.dtype)
        return cls(name, array.shape, (array,), decoder, component)

    @property
    def dtype(self) -> str:
        """The dtype of the values; of a plain tensor that of its array."""
        return self.decoder.value_dtype

    @property
    def is_plain(self) -> bool:
        """Whether its values are stored as they are, in whatever order or spelling."""
        return is_plain(self.decoder)

    @property
    def is_ours(self) -> bool:
        """Whether the store has a form of its own for what is stored."""
        is_type = stored_type(self.decoder) is not None or has_blocks(self.decoder)
        return self.is_plain or is_type

    @property
    def stored_as(self) -> str:
        """The type that the values are packed in; empty where they are stored as they are."""
        return "" if self.is_plain else str(self.decoder)

    @property
    def own_name(self) -> str:
        """The name without the component."""
        return self.name.removeprefix(f"{self.component}/") if self.component else self.name

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def file(self) -> SourceFile:
        """The file of its first array."""
        return self.arrays[0].file

    def stored(self) -> Iterator[SourceTensor]:
        """Give each array as a tensor of its own, as it is stored; of a part the whole."""
        for array in self.arrays:
            yield SourceTensor.plain(array.whole or array, self.component)


@functools.cache
def _plain(dtype: str) -> Plain:
    return Plain(dtype)
