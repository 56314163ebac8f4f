"""Which decoder reads the arrays of a layer: by their shapes, and what config.json says."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Container, Mapping, Sequence
from typing import Final, NoReturn

from importer.codecs.gptq.decoder import MOST_COLUMNS, Gptq
from importer.codecs.gptq.form import Layout
from importer.codecs.plain import Plain
from importer.sources.schemes.contents import read_contents, read_start
from importer.sources.schemes.gptq.arrays import Arrays
from importer.sources.schemes.gptq.config import WHOLE, GptqConfig, Said
from importer.sources.schemes.gptq.shapes import Fit, fits
from importer.sources.tensor import SourceTensor
from store.errors import InputError, UnsupportedError
from store.json import Json
from store.text import printable

_MATRIX: Final = 2
_FLOATS: Final = ("F16", "BF16", "F32")
_WORDS: Final = ("I32",)
_PLANAR: Final = (5, 6, 7)
_EMBEDDINGS: Final = frozenset(
    {"embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embed_in", "embedding"}
)
"""Layers whose rows GPTQModel packs, and not their columns."""


def join_layers(
    layers: Sequence[Arrays], config: Mapping[str, Json], names: Container[str]
) -> dict[str, SourceTensor | None]:
    """Return what becomes of each array: a tensor, or None where it is a part of one.

    Raises:
        InputError: parts are missing or contradict each other or the configuration.
        UnsupportedError: a layout that is not decoded, or that nothing decides.
    """
    declared = GptqConfig(config)
    is_ordered = any(layer.g_idx is not None for layer in layers) or declared.is_reordered
    made: dict[str, SourceTensor | None] = {}
    for layer in layers:
        name = f"{layer.stem}.weight"
        parts = _checked(layer)
        decoder, shape = _decoder(layer, declared)
        if layer.g_idx is None and decoder.layout is Layout.GPTQ and is_ordered:
            _bad(layer, "has no `g_idx`, and there is an order of columns")
        if name in names:
            _bad(layer, f"is there a second time, as `{printable(name)}`")
        arrays = tuple(part.arrays[0] for part in parts)
        made |= dict.fromkeys(part.name for part in parts)
        made[layer.qweight.name] = SourceTensor(
            name, shape, arrays, decoder, layer.qweight.component
        )
    return made


def _checked(layer: Arrays) -> list[SourceTensor]:
    """Return the arrays of a layer, whose dtypes and dimensions are those of such arrays."""
    if layer.stem.rpartition(".")[2] in _EMBEDDINGS:
        raise _unsupported(layer, "is a quantized embedding, which is not decoded")
    found = [
        ("qweight", layer.qweight, _WORDS, _MATRIX),
        ("qzeros", layer.qzeros, _WORDS, _MATRIX),
        ("scales", layer.scales, _FLOATS, _MATRIX),
    ]
    if layer.g_idx is not None:
        found.append(("g_idx", layer.g_idx, _WORDS, 1))
    parts = []
    for name, part, dtypes, rank in found:
        if part is None:
            _bad(layer, f"has no `{name}`")
        dtype = part.arrays[0].dtype
        if not isinstance(part.decoder, Plain):
            raise _unsupported(layer, f"has a `{name}` that is a view of another array")
        if dtype not in dtypes:
            expected = ", ".join(dtypes)
            raise _unsupported(layer, f"has `{name}` of {dtype}, decoded is {expected}")
        if len(part.shape) != rank or 0 in part.shape:
            _bad(layer, f"has `{name}` of shape {list(part.shape)}")
        parts.append(part)
    return parts


def _decoder(layer: Arrays, declared: GptqConfig) -> tuple[Gptq, tuple[int, ...]]:
    """Return the only decoder that shapes, groups of columns and configuration allow."""
    qzeros, scales = layer.qzeros, layer.scales
    assert qzeros is not None
    assert scales is not None
    columns = None if layer.g_idx is None else layer.g_idx.shape[0]
    found = list(fits(layer.qweight.shape, qzeros.shape, scales.shape, columns))
    shapes = ", ".join(
        f"`{part.name.rpartition('.')[2]}` {list(part.shape)}"
        for part in (layer.qweight, qzeros, scales, layer.g_idx)
        if part is not None
    )
    if not found:
        _bad(layer, f"has shapes that do not fit each other: {shapes}")
    if declared.layout is not None:
        same = [fit for fit in found if fit.layout is declared.layout]
    elif declared.method is not None:
        is_gptq = declared.method == "gptq"
        same = [fit for fit in found if (fit.layout is Layout.GPTQ) == is_gptq]
    else:
        same = found
    if not same:
        said = declared.layout or declared.method
        _bad(layer, f"is {said} in config.json, and its shapes fit {_listed(found)}: {shapes}")
    module = layer.qweight.own_name.removesuffix(".qweight")
    said_of = declared.of(module)
    order = _Order(layer)
    chosen = {
        (fit, size)
        for said in said_of
        for fit in same
        if said.bits in {None, fit.bits}
        for size in _group_sizes(fit, said, order)
    }
    if not chosen:
        said_all = " or ".join(map(str, said_of))
        _bad(
            layer,
            f"has {said_all} in config.json, and its shapes fit {_listed(same)}: {shapes}",
        )
    if len(chosen) > 1:
        listed = " and ".join(f"{fit} in groups of {size}" for fit, size in sorted(chosen))
        raise _unsupported(layer, f"fits {listed}, and nothing decides: {shapes}")
    (((fit, size),)) = chosen
    if fit.columns > MOST_COLUMNS:
        raise _unsupported(layer, f"has {fit.columns} columns, the limit is {MOST_COLUMNS}")
    return _made(layer, declared, fit, size, order), (fit.rows, fit.columns)


def _made(layer: Arrays, declared: GptqConfig, fit: Fit, size: int, order: _Order) -> Gptq:
    assert layer.scales is not None
    is_gptq = fit.layout is Layout.GPTQ
    is_planar = is_gptq and (declared.is_planar or fit.bits in _PLANAR)
    is_planar = is_planar and fit.bits in {3, *_PLANAR}
    less_one = is_gptq and fit.bits not in _PLANAR and _is_less_one(layer, declared, fit.bits)
    block = 32 if is_planar or (is_gptq and fit.bits == 3) else 1  # noqa: PLR2004 - a case
    if fit.rows % block or fit.columns % block:
        _bad(
            layer,
            f"is {fit.rows} x {fit.columns} in {fit.bits} bits, expected multiples of {block}",
        )
    is_reordered = not order.is_trivial(size)
    if is_reordered and order.highest >= fit.groups:
        _bad(
            layer,
            f"has a `g_idx` of up to {order.highest}, and {fit.groups} groups",
        )
    return Gptq(
        "gptq" if is_gptq else "awq",
        fit.layout,
        fit.bits,
        size,
        fit.groups,
        layer.scales.arrays[0].dtype,
        is_planar=is_planar,
        less_one=less_one,
        has_groups=layer.g_idx is not None,
        is_reordered=is_reordered,
    )


def _group_sizes(fit: Fit, said: Said, order: _Order) -> tuple[int, ...]:
    """Return the sizes of groups that are possible: the one that is said, or by the shapes."""
    if said.group_size is not None:
        size = fit.columns if said.group_size == WHOLE else said.group_size
        return (size,) if fit.has_group(size) else ()
    if order.first is not None and fit.has_group(order.first) and order.is_trivial(order.first):
        return (order.first,)
    return fit.group_sizes


class _Order:
    """The groups of a layer's columns, if it has g_idx."""

    def __init__(self, layer: Arrays) -> None:
        """Read them.

        Raises:
            InputError: one is negative.
        """
        self._data = b"" if layer.g_idx is None else read_contents(layer.g_idx)
        self._groups = memoryview(self._data).cast("i")
        self.highest = max(self._groups, default=0)
        if min(self._groups, default=0) < 0:
            _bad(layer, f"has a `g_idx` of {min(self._groups)}")

    @functools.cached_property
    def first(self) -> int | None:
        """The columns before the second group, or None without g_idx."""
        if not self._groups:
            return None
        return next((i for i, group in enumerate(self._groups) if group), len(self._groups))

    def is_trivial(self, size: int) -> bool:
        """Whether each column is in the group that its place says."""
        return not self._data or self._data == _places(len(self._groups), size)


@functools.lru_cache(16)
def _places(columns: int, size: int) -> bytes:
    return array("i", (column // size for column in range(columns))).tobytes()


def _is_less_one(layer: Arrays, declared: GptqConfig, bits: int) -> bool:
    """Return whether zero points are stored less one.

    Where no configuration says so, symmetric zero points do: of all groups they are the
    middle of the codes, or one less.
    """
    if declared.less_one is not None:
        return declared.less_one
    assert layer.qzeros is not None
    data = read_start(layer.qzeros)
    middle = 1 << (bits - 1)
    for less in (1, 0):
        # As many codes of as many bits as fill whole words, and all alike.
        pattern = sum((middle - less) << at for at in range(0, 32 * bits, bits))
        line = pattern.to_bytes(4 * bits, "little")
        if data == (line * (len(data) // len(line) + 1))[: len(data)]:
            return bool(less)
    raise _unsupported(
        layer,
        "has no configuration that says how its zero points are stored, and they are not "
        "symmetric",
        "Keep config.json, or quantize_config.json, beside the weights",
    )


def _listed(found: Sequence[Fit]) -> str:
    return " or ".join(map(str, found))


def _bad(layer: Arrays, what: str) -> NoReturn:
    raise InputError(
        f"`{layer.qweight.file.path}`: `{printable(layer.stem)}` {what}",
        code="E_QUANT_PAIR",
        hint="The checkpoint is incomplete or damaged, or config.json belongs to another",
    )


def _unsupported(layer: Arrays, what: str, hint: str | None = None) -> UnsupportedError:
    return UnsupportedError(
        f"`{layer.qweight.file.path}`: `{printable(layer.stem)}` {what}",
        code="E_QUANT_FORMAT",
        hint=hint,
    )
