"""The values of tensors as an import would decode them, in chunks of any size."""

from __future__ import annotations

from importer.codecs.base import Encoded, Part
from importer.codecs.runtime import NUMPY
from importer.engine.chunks import cut_source
from importer.engine.reader import ChunkReader


class _Values:
    """A transcoder to the values themselves."""

    def __init__(self, decoder):
        self._decoder = decoder
        self.unit, self.spans = decoder.unit, decoder.spans

    def parts(self, shape):
        return (Part("", self._decoder.value_dtype, shape),)

    def convert(self, arrays, shape, elements, runtime):
        return Encoded((self._decoder.decode(arrays, shape, elements, runtime),))


def values(tensor, size):
    """The bytes of a tensor's values, made in chunks of about `size` bytes."""
    transcoder = _Values(tensor.decoder)
    extents = [array.extent for array in tensor.arrays]
    layout = [(0, part.nbytes) for part in transcoder.parts(tensor.shape)]
    made = b""
    with ChunkReader() as reader:
        for chunk in cut_source(transcoder, tensor.shape, extents, layout, size):
            arrays = reader.read(chunk, memoryview(bytearray(chunk.room)))
            piece = transcoder.convert(arrays, tensor.shape, chunk.elements, NUMPY)
            made += bytes(piece.parts[0])
    return made
