"""What is in a GGUF file, in each version and byte order, and as its library sees it."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from importer.codecs.ggml.types import GGML_TYPES, NAMED
from importer.formats.gguf.header import read_header
from importer.formats.gguf.metadata import Array, Value, read_array
from store.tensorfile import ITEM_BITS
from tests.importer.formats.gguf.builders import GOOD, Writer, gguf, headed


def read(data):
    return read_header("x", len(data), lambda start, end: data[start:end])


def elements(data, key):
    found = read(data).metadata[key]
    assert isinstance(found, Array)
    return list(read_array(found, lambda start, end: data[start:end], len(data), "x"))


SCALARS = [
    ("u8", 255),
    ("i8", -128),
    ("u16", 65535),
    ("i16", -32768),
    ("u32", 2**32 - 1),
    ("i32", -(2**31)),
    ("f32", -1.5),
    ("bool", 1),
    ("string", "grün \U0001f600"),
    ("u64", 2**64 - 1),
    ("i64", -(2**63)),
    ("f64", 1e300),
]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("version", [2, 3])
def test_every_type_of_value_is_read(order, version):
    keys = [(f"a.{kind}", kind, value) for kind, value in SCALARS]
    found = read(gguf(keys=keys, order=order, version=version))

    assert (found.version, found.is_big) == (version, order == ">")
    assert found.metadata == {key: Value(kind, value) for key, kind, value in keys}


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("kind", "value"), SCALARS)
def test_arrays_are_read_when_asked_for(order, kind, value):
    values = [value] * 3
    data = gguf(keys=[("k", ("array", kind), values), ("after", "u8", 7)], order=order)

    assert elements(data, "k") == values
    assert read(data).metadata["after"] == Value("u8", 7)


def test_arrays_of_arrays_are_lists():
    data = gguf(keys=[("k", ("array", ("array", "u16")), [[1, 2], [], [3]]), ("z", "u8", 1)])

    assert elements(data, "k") == [[1, 2], [], [3]]
    assert "z" in read(data).metadata


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("alignment", [1, 8, 32, 64, 4096])
def test_every_type_of_tensor_has_its_place(order, alignment):
    tensors = [
        (f"t{kind.number}", kind.name, (3, 2, kind.elements * 2))
        for kind in GGML_TYPES.values()
    ]
    data = gguf(tensors, order=order, alignment=alignment)
    found = read(data)

    assert found.alignment == alignment
    for info, (name, kind, shape) in zip(found.tensors, tensors, strict=True):
        assert (info.name, info.kind, info.shape) == (name, NAMED[kind], shape)
        assert info.offset % alignment == 0
        expected = bytes(n % 251 for n in range(info.nbytes))
        assert data[info.offset : info.offset + info.nbytes] == expected
    assert -(-found.end // alignment) * alignment == len(data)


def test_plain_types_are_dtypes_of_safetensors():
    for kind in GGML_TYPES.values():
        if kind.is_plain:
            assert ITEM_BITS[kind.name] == 8 * kind.nbytes


@pytest.mark.parametrize(
    "shape", [(), (1,), (0,), (0, 5), (4, 0), (2, 3, 4, 5)], ids=lambda shape: str(len(shape))
)
def test_shapes_of_any_rank(shape):
    (info,) = read(gguf([("t", "F32", shape)])).tensors

    assert info.shape == shape
    assert info.nbytes == 4 * int(np.prod(shape))


def test_the_last_tensor_need_not_be_padded():
    data = gguf([("t", "F32", (1,))])[:-28]

    assert read(data).end == len(data)


def test_a_string_may_reach_over_windows():
    long, tokens = "x" * 3_000_000, ["y" * 1_500_000, "", "z" * 70_000]
    data = gguf(
        [("t", "F32", (1,))],
        [("a", "string", long), ("k", ("array", "string"), tokens), ("b", "u8", 3)],
    )

    assert read(data).metadata["a"] == Value("string", long)
    assert elements(data, "k") == tokens
    assert read(data).tensors[0].name == "t"


def test_numbers_in_arrays_are_not_read():
    asked = []
    data = gguf([("t", "F32", (1,))], [("k", ("array", "f64"), [0.0] * 1_000_000)])

    def tell(start, end):
        asked.append(end - start)
        return data[start:end]

    read_header("x", len(data), tell)

    assert sum(asked) < 200_000


def test_text_and_integers_by_key():
    found = read(GOOD)

    assert found.text("general.architecture") == "llama"
    assert found.text("llama.block_count") == found.text("absent") == ""
    assert found.integer("llama.block_count") == 1
    assert found.integer("general.architecture") is None
    assert found.integer("tokenizer.ggml.tokens") is None


KINDS = ["F32", "F16", "F64", "I8", "I16", "I32", "I64", "BF16", "Q4_0", "Q8_0"]


@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
def test_what_the_library_writes(tmp_path, order):
    from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFWriter

    path = tmp_path / "x.gguf"
    writer = GGUFWriter(path, "llama", endianess=GGUFEndian[order])
    writer.add_custom_alignment(64)
    writer.add_name("grün")
    writer.add_block_count(3)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_add_bos_token(True)
    writer.add_token_list(["a", "<s>", "日本", ""])
    writer.add_token_scores([0.0, -1.5, 2.0, 3.0])
    writer.add_array("mixed.lengths", [1, 2, 3])
    rng = np.random.default_rng(1)
    plain = {
        "F32": "f4",
        "F16": "f2",
        "F64": "f8",
        "I8": "i1",
        "I16": "i2",
        "I32": "i4",
        "I64": "i8",
    }
    for number, kind in enumerate(KINDS):
        if kind in plain:
            writer.add_tensor(f"t{number}", np.ones((2, 3, 5), plain[kind]) * number)
        else:
            rows = NAMED[kind].row_nbytes(64)
            raw = rng.integers(0, 255, (4, rows), "u1")
            writer.add_tensor(f"t{number}", raw, raw_dtype=GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    data = path.read_bytes()
    theirs, ours = GGUFReader(path), read(data)

    assert ours.is_big == (order == "BIG")
    assert_equal(theirs, ours, data)
    assert len(ours.tensors) == len(KINDS)


def assert_equal(theirs, ours, data):
    """Compare what the library reads with what we read."""
    fields = {k: f for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert fields.keys() == ours.metadata.keys()
    for key, found in ours.metadata.items():
        expected = fields[key].contents()
        if isinstance(found, Value):
            value = found.value
        else:
            value = list(read_array(found, lambda a, b: data[a:b], len(data), "x"))
            while found.kind == "array" and any(isinstance(one, list) for one in value):
                value = list(itertools.chain.from_iterable(value))
        same = np.array_equal if isinstance(value, (list, float)) else (lambda a, b: a == b)
        if isinstance(value, float) or (
            isinstance(value, list) and value and isinstance(value[0], float)
        ):
            assert np.array_equal(value, expected, equal_nan=True)
        else:
            assert same(value, expected)
    for one, info in zip(theirs.tensors, ours.tensors, strict=True):
        assert (one.name, one.tensor_type.name) == (info.name, info.kind.name)
        assert tuple(map(int, reversed(one.shape))) == info.shape
        assert (one.n_bytes, one.data_offset) == (info.nbytes, info.offset)


LARGE = """
    import re, sys
    from importer.formats.gguf.header import read_header
    path = sys.argv[1]
    file = open(path, "rb")
    size = file.seek(0, 2)
    def read(start, end):
        file.seek(start)
        return file.read(end - start)
    found = read_header("x", size, read)
    # Not ru_maxrss, which begins with what the parent had.
    status = open("/proc/self/status").read()
    print(len(found.tensors), re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_memory_is_bounded(tmp_path):
    """A vocabulary of 100 MB and 10^5 tensors."""
    writer = Writer()
    one = writer.string("t" * 92)
    path = tmp_path / "large.gguf"
    count, tensors = 1_000_000, 100_000
    tokens = writer.number("I", 8) + writer.number("Q", count)
    key = writer.string("tokenizer.ggml.tokens") + writer.number("I", 9) + tokens
    infos = (
        writer.info(f"blk.{n}.attn_output.weight", "F32", (1, 1), 4 * n) for n in range(tensors)
    )
    with path.open("wb") as file:
        align = writer.key("general.alignment", "u32", 4)
        file.write(headed(b"", align + key, (tensors, 2)))
        for _ in range(10):
            file.write(one * (count // 10))
        file.writelines(infos)
        file.truncate(file.tell() + 4 * tensors + 4)

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LARGE), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )

    listed, kib = map(int, done.stdout.split())
    assert listed == tensors
    assert kib < 125 << 10, f"{kib} KiB"
