"""Files of a split whose keys and names contradict each other, a row each: refused."""

from __future__ import annotations

import pytest

from importer.sources.inventory import read_inventory
from store.errors import InputError
from tests.importer.builders import write
from tests.importer.formats.gguf.builders import gguf

COUNT = 3
TENSORS = [("token_embd.weight", "F32", (2, 8)), ("output_norm.weight", "F32", (8,))]
SAID = {
    "split.no": ("u16", 2),
    "split.count": ("u16", COUNT),
    "split.tensors.count": ("i32", 2),
}


def name_of(number, count=COUNT, stem="x-F32"):
    return f"{stem}-{number:05}-of-{count:05}.gguf"


def split(change=None, numbers=range(COUNT), last=TENSORS[1:]):
    """The files of a split; the keys of its last file are changed."""
    files = {}
    for number in numbers:
        said = SAID | {"split.no": ("u16", number)}
        tensors = TENSORS[:1] if number == 1 else ()
        if number == COUNT - 1:
            said, tensors = said | (change or {}), last
        keys = [(key, *value) for key, value in said.items() if value is not None]
        if number == 0:
            keys.append(("general.architecture", "string", "llama"))
        files[name_of(number + 1)] = gguf(tensors, keys)
    return files


def renamed(change):
    return {change.get(name, name): data for name, data in split().items()}


ROWS = {
    "another number": split({"split.no": ("u16", 1)}),
    "a number beyond the last": split({"split.no": ("u16", 3)}),
    "the largest number": split({"split.no": ("u64", 2**64 - 1)}),
    "a negative number": split({"split.no": ("i32", -2)}),
    "a number that is a word": split({"split.no": ("string", "2")}),
    "a number that is a float": split({"split.no": ("f32", 2.0)}),
    "a number that is an array": split({"split.no": (("array", "u16"), [2])}),
    "a number that is true": split({"split.no": ("bool", 1)}),
    "no number": split({"split.no": None}),
    "another count": split({"split.count": ("u16", 4)}),
    "a count of 0": split({"split.count": ("u16", 0)}),
    "a count of 1": split({"split.count": ("u16", 1)}),
    "a negative count": split({"split.count": ("i64", -3)}),
    "the largest count": split({"split.count": ("u64", 2**64 - 1)}),
    "a count that is a word": split({"split.count": ("string", "3")}),
    "no count": split({"split.count": None}),
    "no keys at all": split(dict.fromkeys(SAID)),
    "more tensors": split({"split.tensors.count": ("i32", 3)}),
    "fewer tensors": split({"split.tensors.count": ("i32", 1)}),
    "a negative number of tensors": split({"split.tensors.count": ("i32", -1)}),
    "2^63 tensors": split({"split.tensors.count": ("u64", 2**63)}),
    "a tensor that another file has": split(last=TENSORS[:1]),
    "a tensor too many": split(last=[*TENSORS[1:], ("more", "F32", (8,))]),
    "no last file": split(numbers=(0, 1)),
    "no first file": split(numbers=(1, 2)),
    "the middle alone": split(numbers=(1,)),
    "names of another count": {
        name_of(number, 4): data for number, data in enumerate(split().values(), 1)
    },
    "two names exchanged": dict(zip(reversed(list(split())), split().values(), strict=True)),
    "a name that is not numbered": renamed({name_of(3): "x-F32.gguf"}),
    "a file of number 0": renamed({name_of(1): name_of(0)}),
    "a file beyond the last": renamed({name_of(3): name_of(4)}),
    "a count of 99999": {name_of(1, 99999): split()[name_of(1)]},
}


@pytest.mark.parametrize("files", ROWS.values(), ids=ROWS)
def test_a_split_that_lies_is_refused(tmp_path, files):
    directory = write(tmp_path, files)

    for source in (directory, directory / next(iter(files))):
        with pytest.raises(InputError) as caught:
            read_inventory(source)
        assert "x-F32" in str(caught.value)


def test_a_split_that_tells_the_truth_is_read(tmp_path):
    found = read_inventory(write(tmp_path, split()))

    assert len(found.tensors) == len(TENSORS)
