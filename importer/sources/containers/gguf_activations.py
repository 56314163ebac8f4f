"""Tensors that a converter wrote into the metadata: numbers of Apertus's activation, xIELU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from importer.codecs.base import Shape
from importer.codecs.views.swapped import Swapped
from importer.formats.gguf.header import Header
from importer.formats.gguf.metadata import Array
from importer.sources.file import SourceFile
from importer.sources.tensor import SourceTensor, StoredArray

_SHAPES: Final[Mapping[str, Shape]] = {"alpha_p": (1,), "alpha_n": (1,), "beta": (), "eps": ()}
"""The number of each block, by its key below `xielu.`; the shape of Hugging Face's tensor."""
_ITEM: Final = 4


def activations_of(file: SourceFile, header: Header) -> Iterator[SourceTensor]:
    """Yield the tensors of every block: each is four bytes of an array of the metadata.

    Source: `ApertusModel.modify_tensors` of llama.cpp's conversion/llama.py.
    """
    blocks = header.integer("apertus.block_count")
    for key, shape in _SHAPES.items():
        found = header.metadata.get(f"xielu.{key}")
        if not isinstance(found, Array) or (found.kind, found.length) != ("f32", blocks):
            continue
        for number in range(found.length):
            name = f"model.layers.{number}.mlp.act_fn.{key}"
            offset = found.offset + number * _ITEM
            array = StoredArray(name, "F32", shape, file, offset, _ITEM)
            if header.is_big:
                array = array._replace(decoder=Swapped("F32"))
            yield SourceTensor.plain(array)
