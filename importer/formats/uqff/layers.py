"""The layers of UQFF's shards: which entries each family has, and what their numbers say.

Every layer `<key>` has its data in `<key>.weight`, the tag of its family in
`<key>.weight.format`, and beside them exactly the entries of that family. Sources: the
`inspect_uqff_header` functions of mistralrs-quant/src/{gguf,unquantized,hqq,fp8,afq,f8q8,mxfp4}
of mistral.rs, and what its wheel 0.9.5 writes (docs/formats/uqff.md).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum, unique
from types import MappingProxyType
from typing import Final, NamedTuple

from importer.formats.uqff.problems import malformed, unread

_WEIGHT: Final = ".weight"
_FORMAT: Final = "format"
_END: Final = f"{_WEIGHT}.{_FORMAT}"
_RANKS: Final = (2, 3)
"""Of a layer: a matrix, or those of all experts."""
_SIZES: Final[Mapping[str, int]] = MappingProxyType({"U8": 1, "U32": 4})


@unique
class Family(IntEnum):
    """How a layer is stored; the values are the tags in files."""

    GGML = 0
    PLAIN = 1
    HQQ = 2
    FP8 = 3
    AFQ = 4
    F8Q8 = 5
    MXFP4 = 6


class _Form(NamedTuple):
    """The entries of a family, by what follows `<key>.weight.`.

    Attributes:
        arrays: that grow with the layer.
        numbers: dtype of each scalar; of `shape`, of a list.
    """

    arrays: tuple[str, ...]
    numbers: Mapping[str, str]


FORMS: Final[Mapping[Family, _Form]] = MappingProxyType(
    {
        Family.GGML: _Form((), {"dtype": "U32", "shape": "U32"}),
        Family.PLAIN: _Form((), {}),
        Family.HQQ: _Form(
            ("scales", "zeros"),
            {
                "shape": "U32",
                "bits": "U8",
                "group_size": "U32",
                "axis": "U8",
                "optimization_steps": "U32",
                "round_zeros": "U8",
                "channel_wise": "U8",
            },
        ),
        Family.FP8: _Form(
            ("dequant_w_scale", "dequant_x_scale", "quant_scale"), {"dtype": "U32"}
        ),
        Family.AFQ: _Form(("scales", "biases"), {"bits": "U8", "group_size": "U8"}),
        Family.F8Q8: _Form((), {"num_blocks": "U32", "shape": "U32"}),
        Family.MXFP4: _Form(("scales",), {}),
    }
)
"""The entries of each family besides `<key>.weight` and its tag."""
_SHAPE: Final = "shape"
_NUMBERS: Final = frozenset().union({_FORMAT}, *(form.numbers for form in FORMS.values()))


class Entry(NamedTuple):
    """An array of a shard, as its header has it.

    Attributes:
        where: the file, for messages.
        shape: in elements of `dtype`.
    """

    where: str
    dtype: str
    shape: tuple[int, ...]


class Layer(NamedTuple):
    """A layer, whose entries are all there and of the family's dtypes.

    Attributes:
        key: its name without `.weight`.
        numbers: what its small entries say, one number each, of `shape` two or three.
    """

    key: str
    family: Family
    numbers: Mapping[str, tuple[int, ...]]

    def number(self, name: str) -> int:
        """Return what a scalar says."""
        (value,) = self.numbers[name]
        return value

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape, of families that have an entry for it."""
        return self.numbers[_SHAPE]


def is_tag(name: str) -> bool:
    """Return whether an entry is a layer's tag, by its name."""
    return name.endswith(_END)


def is_number(name: str, entry: Entry) -> bool:
    """Return whether an entry is one whose bytes `read_layers` reads."""
    stem, _, last = name.rpartition(".")
    is_small = entry.dtype in _SIZES and _elements(entry.shape) in {1, *_RANKS}
    return last in _NUMBERS and stem.endswith(_WEIGHT) and is_small


def read_layers(entries: Mapping[str, Entry], read: Callable[[str], bytes]) -> Iterator[Layer]:
    """Yield the layers among some entries, in the order of their tags.

    Args:
        entries: of all shards, by name.
        read: gives the bytes of a small entry, by name.

    Raises:
        InputError: entries are missing, too many, or of another dtype or shape.
        UnsupportedError: the tag is of a family that is not known.
    """
    names = sorted(entries)
    for name, entry in entries.items():
        if not is_tag(name):
            continue
        key = name.removesuffix(_END)
        tag = _read(f"{key}{_WEIGHT}", _FORMAT, "U8", entries, read)[0]
        if tag not in set(Family):
            known = f"0 to {max(Family)}"
            unread(entry.where, f"layer `{key}` is of family {tag}, expected {known}")
        family = Family(tag)
        form = FORMS[family]
        _check_entries(key, family, entry, names)
        yield Layer(
            key,
            family,
            {
                suffix: _read(f"{key}{_WEIGHT}", suffix, dtype, entries, read)
                for suffix, dtype in form.numbers.items()
            },
        )


def _check_entries(key: str, family: Family, entry: Entry, names: list[str]) -> None:
    """Refuse a layer whose entries are not exactly those of its family."""
    start = f"{key}{_WEIGHT}."
    at = bisect.bisect_left(names, start)
    there = {_FORMAT}
    while at < len(names) and names[at].startswith(start):
        there.add(names[at].removeprefix(start))
        at += 1
    form = FORMS[family]
    expected = {_FORMAT, *form.arrays, *form.numbers}
    weight = f"{key}{_WEIGHT}"
    at = bisect.bisect_left(names, weight)
    if at == len(names) or names[at] != weight:
        malformed(entry.where, f"layer `{key}` has no `{weight}`")
    if missing := sorted(expected - there):
        malformed(entry.where, f"layer `{key}` ({family.name}) has no `{start}{missing[0]}`")
    if more := sorted(there - expected):
        message = f"layer `{key}` ({family.name}) has `{start}{more[0]}`, which is not of it"
        malformed(entry.where, message)


def _read(
    weight: str,
    suffix: str,
    dtype: str,
    entries: Mapping[str, Entry],
    read: Callable[[str], bytes],
) -> tuple[int, ...]:
    """Return the numbers of a small entry, whose size is checked before it is read."""
    name = f"{weight}.{suffix}"
    entry = entries[name]
    is_list = suffix == _SHAPE
    fits = len(entry.shape) == 1 and entry.shape[0] in _RANKS if is_list else not entry.shape
    if entry.dtype != dtype or not fits:
        expected = f"{dtype} with {_RANKS[0]} or {_RANKS[1]} elements"
        expected = expected if is_list else f"a scalar of {dtype}"
        message = f"`{name}` is {entry.dtype} {list(entry.shape)}, expected {expected}"
        malformed(entry.where, message)
    size = _SIZES[dtype]
    data = read(name)
    numbers = tuple(
        int.from_bytes(data[start : start + size], "little")
        for start in range(0, _elements(entry.shape) * size, size)
    )
    if is_list and 0 in numbers:
        malformed(entry.where, f"`{name}` is {list(numbers)}, expected no zero")
    return numbers


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for dimension in shape:
        count *= dimension
    return count
