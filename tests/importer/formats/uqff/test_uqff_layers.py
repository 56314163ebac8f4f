"""The pure parsers of UQFF: names, and layers whose small entries are read once checked."""

from __future__ import annotations

import pytest

from importer.formats.uqff.layers import FORMS, Entry, Family, is_number, is_tag, read_layers
from importer.formats.uqff.names import ShardName, parse_shard
from store.errors import InputError
from tests.importer.sources.schemes.uqff_sources import LAYERS, entries, scalar, u8, u32


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("q4k-0.uqff", ShardName("q4k", 0)),
        ("q4k-12.UQFF", ShardName("q4k", 12)),
        ("my-model-q8_0-3.uqff", ShardName("my-model-q8_0", 3)),
        ("q4k.uqff", ShardName("q4k", None)),
        ("q4k-x.uqff", ShardName("q4k-x", None)),
        ("-1.uqff", ShardName("-1", None)),
        ("q4k-0123456789.uqff", ShardName("q4k-0123456789", None)),
        ("q4k-٣.uqff", ShardName("q4k-٣", None)),
        ("q4k-0.safetensors", None),
        ("uqff", None),
    ],
)
def test_names_are_taken_apart(name, found):
    assert parse_shard(name) == found


class Shard:
    """The entries of a shard, and what was read of it."""

    def __init__(self, found):
        self.found = found
        self.entries = {name: Entry("`x`", one[0], one[1]) for name, one in found.items()}
        self.asked = []

    def read(self, name):
        self.asked.append(name)
        return self.found[name][2]

    def layers(self):
        return list(read_layers(self.entries, self.read))


@pytest.mark.parametrize("family", LAYERS)
def test_a_layer_is_its_family_and_numbers(family):
    shard = Shard(entries(family, "a") | {"a.bias": ("F32", (2,)), "ab": ("F32", ())})

    (layer,) = shard.layers()

    assert layer.key == "a"
    assert layer.family == LAYERS[family]["format"][2][0]
    numbers = FORMS[layer.family].numbers
    assert layer.numbers.keys() == numbers.keys()
    assert set(shard.asked) == {"a.weight.format", *(f"a.weight.{name}" for name in numbers)}
    # What a plan over the Hub fetches is what is read here.
    small = {name for name, entry in shard.entries.items() if is_number(name, entry)}
    assert small == set(shard.asked)


def test_numbers_are_little_endian():
    changes = {"shape": u32(0x01020304, 64), "dtype": scalar(0xFFFEFDFC)}
    (layer,) = Shard(entries("q8_0", "a", **changes)).layers()

    assert layer.shape == (0x01020304, 64)
    assert layer.number("dtype") == 0xFFFEFDFC


@pytest.mark.parametrize(
    "changes",
    [
        {"format": ("U8", (1 << 40,), b"")},
        {"shape": ("U32", (1 << 40,), b"")},
        {"dtype": ("U32", (1 << 40,), b"")},
        {"shape": ("U8", (2,), b"ab")},
    ],
)
def test_nothing_is_read_whose_size_is_not_that_of_a_number(changes):
    shard = Shard(entries("q8_0", "a", **changes))

    with pytest.raises(InputError):
        shard.layers()
    assert not {f"a.weight.{name}" for name in changes} & set(shard.asked)


def test_layers_come_in_the_order_of_their_tags():
    shard = Shard(entries("plain", "b") | entries("mxfp4", "a") | entries("plain", "b2"))

    assert [(layer.key, layer.family) for layer in shard.layers()] == [
        ("b", Family.PLAIN),
        ("a", Family.MXFP4),
        ("b2", Family.PLAIN),
    ]


def test_every_family_has_a_form():
    assert FORMS.keys() == set(Family)
    assert is_tag("a.weight.format")
    assert not is_tag("a.weight_format")
    assert not is_number("a.weight.format", Entry("x", *u8(1)[:1], (5,)))
