"""Shards and index agree in everything, or the import says what does not, by both names."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.sources.containers.safetensors import read_header
from importer.sources.inventory import read_inventory
from store.errors import InputError, UnsupportedError
from tests.importer.builders import framed, safetensors, shards, source_file, write

A = {"a.weight": ("F32", (2, 3))}
B = {"b.weight": ("BF16", (4,))}
INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def refused(directory, error=InputError):
    with pytest.raises(error) as caught:
        read_inventory(directory)
    return caught.value.code, str(caught.value)


def index(**weight_map):
    return {"weight_map": weight_map}


def test_tensors_are_where_the_headers_say(tmp_path):
    content = safetensors({**A, **B}, {"format": "pt"})
    write(tmp_path, {"model.safetensors": content})

    found = read_inventory(tmp_path).tensors

    assert [(t.name, t.dtype, t.shape, t.nbytes) for t in found] == [
        ("a.weight", "F32", (2, 3), 24),
        ("b.weight", "BF16", (4,), 8),
    ]
    assert [t.arrays[0].offset for t in found] == [len(content) - 32, len(content) - 8]


@pytest.mark.parametrize("indexed", [True, False])
def test_a_sharded_checkpoint_is_complete(tmp_path, indexed):
    write(tmp_path, shards(A, B, indexed=indexed))

    found = read_inventory(tmp_path)

    assert {t.name: t.file.path for t in found.tensors} == {
        "a.weight": FIRST,
        "b.weight": SECOND,
    }
    assert [file.path for file in found.weights] == [FIRST, SECOND]


def test_files_that_an_index_does_not_name_are_not_read(tmp_path):
    write(tmp_path, {**shards(A, B), "model.safetensors": b"not even one"})

    assert len(read_inventory(tmp_path).tensors) == 2


def test_a_shard_that_is_missing_is_named(tmp_path):
    files = shards(A, B)
    del files[SECOND]
    write(tmp_path, files)

    assert refused(tmp_path) == (
        "E_SRC_SHARD_MISSING",
        f"`{INDEX}` names 1 file that is missing: `{SECOND}`",
    )


def test_at_most_ten_missing_shards_are_named(tmp_path):
    weight_map = {f"t{number}": f"{number:02}.safetensors" for number in range(30)}
    write(tmp_path, {INDEX: {"weight_map": weight_map}})

    _, message = refused(tmp_path)

    assert "names 30 files that are missing" in message
    assert message.endswith("`09.safetensors` and 20 more")


def test_a_tensor_in_another_shard_than_the_index_says(tmp_path):
    wrong = index(**{"a.weight": SECOND, "b.weight": SECOND, "c": FIRST})
    write(tmp_path, {**shards({**A, "c": ("U8", (1,))}, B), INDEX: wrong})

    assert refused(tmp_path) == (
        "E_SRC_INDEX",
        f"`{INDEX}`: puts tensor `a.weight` in `{SECOND}`, it is in `{FIRST}`",
    )


def test_a_tensor_that_the_index_does_not_know(tmp_path):
    write(tmp_path, {**shards({**A, **B}), INDEX: index(**{"a.weight": "w.safetensors"})})
    os.rename(tmp_path / "model-00001-of-00001.safetensors", tmp_path / "w.safetensors")

    assert refused(tmp_path) == (
        "E_SRC_INDEX",
        f"`{INDEX}`: does not know tensor `b.weight`, which is in `w.safetensors`",
    )


def test_a_tensor_that_only_the_index_knows(tmp_path):
    more = index(**{"a.weight": FIRST, "b.weight": SECOND, "c.weight": SECOND, "d": FIRST})
    write(tmp_path, {**shards(A, B), INDEX: more})

    assert refused(tmp_path) == (
        "E_SRC_INDEX",
        f"`{INDEX}`: puts tensor `c.weight` in `{SECOND}`, which lacks it (and 1 more)",
    )


@pytest.mark.parametrize("indexed", [True, False])
def test_a_tensor_in_two_shards(tmp_path, indexed):
    write(tmp_path, shards({**A, "c": ("U8", (1,))}, {**A, **B}, indexed=indexed))

    assert refused(tmp_path) == (
        "E_SRC_DUPLICATE",
        f"tensor `a.weight` is in `{FIRST}` and in `{SECOND}`",
    )


@pytest.mark.parametrize("missing", [1, 8, 23, 24])
def test_a_truncated_shard_is_named_with_its_sizes(tmp_path, missing):
    files = shards(A, B)
    files[FIRST] = files[FIRST][:-missing]
    write(tmp_path, files)

    assert refused(tmp_path) == (
        "E_ST_TRUNCATED",
        f"`{FIRST}`: header promises 24 bytes of data, file has {24 - missing}",
    )


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"weight_map": []},
        {"weight_map": {}},
        {"weight_map": {"a": 1}},
        {"weight_map": {"a": None}},
        {"weight_map": {"a": ["x"]}},
        {"weight_map": "x"},
        "{",
        b"\xff",
        '{"weight_map": {"a": "x", "a": "y"}}',
        '{"weight_map": {"a": NaN}}',
        '{"weight_map": {"\\ud800": "x"}}',
    ],
)
def test_a_malformed_index_is_refused(tmp_path, document):
    content = document if isinstance(document, (bytes, str)) else document or document
    write(tmp_path, {INDEX: content, **shards(A, indexed=False)})

    assert refused(tmp_path)[0] == "E_SRC_INDEX"


@pytest.mark.parametrize(
    "path",
    ["../w.safetensors", "/etc/passwd", "C:\\w", "\\\\host\\w", "a/../b", "a\nb", "", "nul"],
)
def test_an_unsafe_shard_path_is_refused_and_escaped(tmp_path, path):
    write(tmp_path, {INDEX: index(a=path)})

    code, message = refused(tmp_path)

    assert code == "E_PATH"
    assert message.isprintable()


def test_shards_of_a_component_are_beside_their_index(tmp_path):
    files = shards(A, B, stem="diffusion_pytorch_model")
    write(tmp_path, {"model_index.json": {}, **{f"unet/{k}": v for k, v in files.items()}})

    found = read_inventory(tmp_path)

    assert [t.name for t in found.tensors] == ["unet/a.weight", "unet/b.weight"]
    assert {t.own_name for t in found.tensors} == {"a.weight", "b.weight"}


def test_an_index_may_name_shards_below_it(tmp_path):
    write(tmp_path, {INDEX: index(**{"a.weight": "sub/x.safetensors"})})
    write(tmp_path, {"sub/x.safetensors": safetensors(A)})

    assert [t.file.path for t in read_inventory(tmp_path).tensors] == ["sub/x.safetensors"]


@pytest.mark.parametrize("metadata", ['"__metadata__":null,', '"__metadata__":{},', ""])
def test_a_header_as_mlx_writes_it_is_read(tmp_path, metadata):
    header = "{" + metadata + '"a":{"data_offsets":[0,4],"dtype":"F32","shape":[1]}}'
    write(tmp_path, {"model.safetensors": framed(header, b"1234")})

    assert [t.name for t in read_inventory(tmp_path).tensors] == ["a"]


def test_a_dtype_that_is_not_known_is_unsupported(tmp_path):
    header = {"a": {"dtype": "Q4", "shape": [1], "data_offsets": [0, 1]}}
    write(tmp_path, {"model.safetensors": framed(header, b"1")})

    code, message = refused(tmp_path, UnsupportedError)

    assert code == "E_ST_DTYPE"
    assert "`Q4`" in message


VALID = safetensors({**A, **B}, {"format": "pt"})


@given(st.integers(0, len(VALID) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_harmless(tmp_path_factory, place, flip):
    content = bytearray(VALID)
    content[place] ^= flip
    directory = tmp_path_factory.mktemp("flip")
    write(directory, {"model.safetensors": bytes(content)})

    try:
        found = read_inventory(directory).tensors
    except (InputError, UnsupportedError):
        return
    # What is accepted covers the data exactly, in two parsers' eyes.
    assert sum(tensor.nbytes for tensor in found) == 32


def test_reading_one_file_gives_its_tensors_in_the_order_of_the_data(tmp_path):
    write(tmp_path, {"model.safetensors": safetensors({**B, **A})})
    file = read_inventory(tmp_path).weights[0]

    assert [tensor.name for tensor in read_header(file).tensors] == ["b.weight", "a.weight"]
    assert source_file().name == file.name
