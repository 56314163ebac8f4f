"""Weights that MLX or Ollama quantized: weight, scales and biases must fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from importer.sources.schemes.base import Clue
from store.errors import InputError
from store.json import Json
from store.tensorblob import BIAS, SCALE
from store.text import printable

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor

_BITS: Final = (2, 3, 4, 5, 6, 8)
_GROUP_SIZES: Final = (16, 32, 64, 128)
_WORD: Final = 32


class Mlx:
    """Triplets of `weight` (U32), `scales` and `biases`, imported as the arrays they are."""

    decodes: Final = False

    def recognizes(self, clue: Clue) -> bool:
        """Return whether a tensor is a packed weight with scales."""
        is_packed = clue.last == "weight" and clue.dtype == "U32"
        return is_packed and f"{clue.stem}.scales" in clue.dtypes

    def join(
        self, tensors: Sequence[SourceTensor], config: Mapping[str, Json]
    ) -> Sequence[SourceTensor]:
        """Return the arrays as they are, when they could be decoded.

        Args:
            tensors: of one directory.
            config: its `config.json`, in whose `quantization` mlx-lm declares bits and groups.

        Raises:
            InputError: parts are missing, or their shapes or the configuration contradict
                each other.
        """
        _check_triplets(tensors, config)
        return tensors


def _check_triplets(tensors: Sequence[SourceTensor], config: Mapping[str, Json]) -> None:
    declared = config.get("quantization")
    if isinstance(declared, dict):
        for where, table in _tables(declared):
            _check_number(where, table, "group_size", _GROUP_SIZES)
            _check_number(where, table, "bits", _BITS)
    by_name = {tensor.name: tensor for tensor in tensors}
    found = False
    for weight in tensors:
        if weight.dtype != "U32":
            continue
        stem = weight.name.removesuffix(".weight")
        for scales, biases in (
            (f"{stem}.scales", f"{stem}.biases"),
            (weight.name + SCALE, weight.name + BIAS),
        ):
            if scales in by_name:
                found = True
                _check_pair(weight, by_name[scales], by_name.get(biases), biases)
            elif biases in by_name:
                _bad(weight.file.path, f"`{weight.name}` has `{biases}` and no `{scales}`")
    if isinstance(declared, dict) and "bits" in declared and not found:
        _bad("config.json", f"it says {declared['bits']} bits, and no tensor is quantized")


def _tables(declared: Mapping[str, Json]) -> Iterator[tuple[str, Mapping[str, Json]]]:
    yield "quantization", declared
    for name, value in declared.items():
        if isinstance(value, dict):
            yield f"quantization of {printable(name)}", value


def _check_number(
    where: str, table: Mapping[str, Json], key: str, known: tuple[int, ...]
) -> None:
    value = table.get(key)
    if value is not None and (type(value) is not int or value not in known):
        raise InputError(
            f"config.json: {where}: `{key}` is {printable(str(value))}, expected one of "
            f"{', '.join(map(str, known))}",
            code="E_CONFIG",
        )


def _check_pair(
    weight: SourceTensor, scales: SourceTensor, biases: SourceTensor | None, name: str
) -> None:
    *outer, words = weight.shape or (0,)
    *rows, groups = scales.shape or (0,)
    fits = any(words * _WORD == groups * size * bits for bits in _BITS for size in _GROUP_SIZES)
    if outer != rows or not fits:
        _bad(
            weight.file.path,
            f"`{weight.name}` {list(weight.shape)} and `{scales.name}` {list(scales.shape)} do "
            "not fit each other in any number of bits",
        )
    if biases is None:
        # The types with a float scale of 8 bits have no biases; the others cannot do without.
        if scales.dtype != "U8":
            _bad(scales.file.path, f"`{weight.name}` has `{scales.name}` and no `{name}`")
    elif biases.shape != scales.shape:
        _bad(
            biases.file.path,
            f"`{scales.name}` {list(scales.shape)} and `{biases.name}` {list(biases.shape)} "
            "differ in shape",
        )


def _bad(file: str, what: str) -> NoReturn:
    raise InputError(
        f"`{file}`: {what}",
        code="E_QUANT_PAIR",
        hint="The checkpoint is incomplete or damaged: fetch it again",
    )
