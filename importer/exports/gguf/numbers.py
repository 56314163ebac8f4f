"""Scalars among the tensors of a model that become keys of a GGUF file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from importer.exports.gguf.parameters import Metadata
from importer.formats.gguf.writer import Values
from importer.sources.schemes.parts import read_small
from importer.sources.tensor import SourceTensor
from store.errors import InputError
from store.text import printable

_BLOCK: Final = re.compile(r"layers\.(\d+)\.")
_FLOATS: Final = ("F32", "BF16", "F16")


def numbers_of(keys: Mapping[str, str], sources: Sequence[SourceTensor]) -> Metadata:
    """Return a list for each key, in the order of the blocks; the scalars are read for it.

    Args:
        keys: by the end of the names of the scalars.
        sources: tensors of the model.

    Raises:
        InputError: one is not a number, or their file changed.
    """
    made: Metadata = {}
    for end, key in keys.items():
        scalars = {_block(one): one for one in sources if one.own_name.endswith(end)}
        data = read_small(scalars.values())
        numbers = [_number(one, data[one.name]) for _, one in sorted(scalars.items())]
        if numbers:
            made[key] = Values("f32", numbers)
    return made


def _block(source: SourceTensor) -> int:
    found = _BLOCK.search(source.own_name)
    if (
        found is None
        or source.dtype not in _FLOATS
        or not source.is_plain
        or _size(source) != 1
    ):
        raise InputError(
            f"`{printable(source.name)}` is {source.dtype} {list(source.shape)}, expected a "
            "number of a block",
            code="E_GGUF_CONFIG",
        )
    return int(found[1])


def _size(source: SourceTensor) -> int:
    count = 1
    for side in source.shape:
        count *= side
    return count


def _number(source: SourceTensor, data: bytes) -> float:
    from importer.codecs.reference.matrices import to_f32  # noqa: PLC0415 - it imports numpy

    return float(to_f32(data, source.dtype).view("<f4")[0])
