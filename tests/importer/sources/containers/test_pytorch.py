"""PyTorch's checkpoints through the whole pipeline, and which files are taken for them."""

from __future__ import annotations

import json
import shutil

import pytest

from importer.codecs.runtime import NUMPY
from importer.codecs.views.strided import Strided
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from importer.sources.location import StoredModel
from importer.verification.compare import compare
from store import ModelName, Store
from store.errors import InputError, UnsupportedError
from store.tensorfile import encode_header
from store.verify import verify
from tests.importer.builders import REPOSITORY, blobs, create, safetensors, write
from tests.importer.formats.pytorch.builders import (
    archive,
    checkpoint,
    entry,
    mapping,
    pickled,
    storage,
    stream,
    tensor,
)

FIXTURES = REPOSITORY / "fixtures" / "pytorch"
W = safetensors({"w.weight": ("F32", (2,))})
B = checkpoint(mapping(**{"w.weight": tensor()}))
NAME = ModelName.parse("m")
WEIGHT = "model.layers.0.q_proj.weight"


def large(strides=(256, 1)):
    """An archive with a weight of 64 x 256 in BF16."""
    at = storage(length=64 * 256, cls="torch\nBFloat16Storage")
    value = mapping(**{WEIGHT: tensor(at, shape=(64, 256), strides=strides)})
    data = bytes(range(0, 128, 2)) * 512
    return archive(entry("x/data.pkl", pickled(value)), entry("x/data/0", data))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


@pytest.mark.parametrize(
    "name", ["dtypes.bin", "dtypes-legacy.pt", "views.pth", "training.ckpt"]
)
def test_an_import_compares_with_its_source(store, name):
    create(store, FIXTURES / name)

    assert verify(store).findings == ()
    assert compare(store, NAME, FIXTURES / name).findings == ()


def test_the_blobs_are_those_of_safetensors(tmp_path):
    data = bytes(range(0, 128, 2)) * 512
    header = encode_header([(WEIGHT, "BF16", (64, 256), len(data))])
    path = write(tmp_path / "st", {"model.safetensors": header + data})
    value = mapping(
        **{
            WEIGHT: tensor(
                storage(length=64 * 256, cls="torch\nBFloat16Storage"),
                shape=(64, 256),
                strides=(256, 1),
            )
        }
    )
    zipped = archive(entry("x/data.pkl", pickled(value)), entry("x/data/0", data))
    other = write(tmp_path / "pt", {"pytorch_model.bin": zipped})
    made = []
    for source in (path, other):
        with Store(tmp_path / f"{source.name}-store") as opened:
            create(opened, source, recipe=parse_options("int4"))
            (layer,) = [
                one.digest
                for one in opened.catalog.get(NAME).parse().layers
                if one.name == WEIGHT
            ]
            made.append(layer)

    assert made[0] == made[1]


@pytest.mark.parametrize("strides", [(256, 1), (1, 64)])
@pytest.mark.parametrize("quant", ["int4", "bf16", None])
def test_everything_downstream_works(tmp_path, store, strides, quant):
    source = write(tmp_path / "s", {"pytorch_model.bin": large(strides), "config.json": {}})
    recipe = {} if quant is None else {"recipe": parse_options(quant)}

    create(store, source, **recipe)
    before = blobs(store)
    create(store, source, "again", **recipe)
    create(store, StoredModel(NAME), "copy")

    assert blobs(store) == before or quant is None or len(blobs(store)) >= len(before)
    assert verify(store).findings == ()
    assert compare(store, NAME, source).findings == ()


def test_a_difference_is_found(tmp_path, store):
    source = write(tmp_path / "s", {"pytorch_model.bin": large((1, 64))})
    create(store, source)
    path = source / "pytorch_model.bin"
    data = bytearray(path.read_bytes())
    data[600] ^= 1
    path.write_bytes(data)

    assert [one.subject for one in compare(store, NAME, source).findings] == [WEIGHT]


def test_a_plan_reads_no_weight(tmp_path, store):
    source = write(tmp_path / "s", {"pytorch_model.bin": large()})
    plan = plan_import(ImportRequest(NAME, source, parse_options("int4")), store)

    assert [one.name for one in plan.inventory.tensors] == [WEIGHT]


def sharded(tmp_path, **change):
    weight_map = {
        "a": "pytorch_model-1.bin",
        "b": "pytorch_model-1.bin",
        "c": "pytorch_model-2.bin",
    }
    write(tmp_path, {"pytorch_model.bin.index.json": {"weight_map": weight_map | change}})
    for number in (1, 2):
        shutil.copy(FIXTURES / f"shard-{number}.bin", tmp_path / f"pytorch_model-{number}.bin")
    return tmp_path


def test_shards_are_read_by_their_index(tmp_path):
    found = read_inventory(sharded(tmp_path))

    assert [one.name for one in found.tensors] == ["a", "b", "c"]
    assert [file.path for file in found.weights] == [
        "pytorch_model-1.bin",
        "pytorch_model-2.bin",
    ]
    assert [out.path for out in found.left_out] == ["pytorch_model.bin.index.json"]


def test_an_index_that_lies_is_refused(tmp_path):
    with pytest.raises(InputError) as caught:
        read_inventory(sharded(tmp_path, c="pytorch_model-1.bin"))

    assert caught.value.code == "E_SRC_INDEX"


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "x.pt", "model.pth", "v1.ckpt", "A.CKPT"]
)
def test_weights_are_recognized_by_name_and_content(tmp_path, name):
    found = read_inventory(
        write(tmp_path, {name: B, "training_args.bin": b"", "optimizer.pt": b""})
    )

    assert [one.name for one in found.tensors] == ["w.weight"]
    assert {out.path for out in found.left_out} == {"training_args.bin", "optimizer.pt"}


@pytest.mark.parametrize("name", ["x.safetensors", "blob", "x.bin"])
def test_a_single_file_is_read_by_its_content(tmp_path, name):
    write(tmp_path, {name: B})

    assert [one.dtype for one in read_inventory(tmp_path / name).tensors] == ["F32"]


def test_safetensors_are_preferred(tmp_path):
    found = read_inventory(write(tmp_path, {"model.safetensors": W, "pytorch_model.bin": b"x"}))

    assert [file.path for file in found.weights] == ["model.safetensors"]
    assert found.left_out[0].reason == "weights in another format"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.safetensors", B, "is a zip archive, expected a safetensors file"),
        ("model.safetensors", stream(b"}"), "is a pickle, expected a safetensors file"),
        ("model.safetensors", b"GGUF" + bytes(9), "GGUF"),
        ("pytorch_model.bin", W, "it is a safetensors file, expected a PyTorch checkpoint"),
        ("pytorch_model.bin", b"version https://git-lfs.github.com", "Git LFS pointer"),
    ],
)
def test_another_content_is_said(tmp_path, name, content, said):
    with pytest.raises(InputError) as caught:
        read_inventory(write(tmp_path, {name: content}))

    assert f"`{name}`" in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "pytorch_model.bin", "model.gguf", "m.onnx"]
)
def test_how_to_fetch_what_a_pointer_stands_for_is_said_of_every_format(tmp_path, name):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    with pytest.raises(InputError) as caught:
        read_inventory(write(tmp_path, {name: pointer}))

    assert caught.value.hint == "`git lfs pull` fetches the file itself"


def test_every_component_of_a_sentence_model_is_read(tmp_path):
    files = {"modules.json": [], "model.safetensors": W, "2_Dense/pytorch_model.bin": B}
    found = read_inventory(write(tmp_path, files))

    assert [one.name for one in found.tensors] == ["2_Dense/w.weight", "w.weight"]


def test_strides_that_are_not_worth_a_run_are_refused(tmp_path):
    shape = (2048, 2, 1024)
    at = storage(length=2048 * 2048)
    value = mapping(w=tensor(at, shape=shape, strides=(1, 2048, 2)))
    data = archive(
        entry("x/data.pkl", pickled(value)), entry("x/data/0", bytes(2048 * 2048 * 4))
    )
    write(tmp_path, {"pytorch_model.bin": data})

    with pytest.raises(UnsupportedError) as caught:
        read_inventory(tmp_path)

    assert caught.value.code == "E_PT_STRIDES"
    assert "`w` [2048, 2, 1024]" in str(caught.value)


VIEWS = [
    ((2048, 1024), (1, 2048)),
    ((1500, 1000), (2000, 1)),
    ((64, 16, 16, 96), (24576, 16, 1, 256)),
    ((3, 700, 700), (1, 2100, 3)),
    ((5, 1, 7), (1, 99, 5)),
    ((0, 4), (1, 0)),
    ((1000, 3), (0, 1)),
]


@pytest.mark.parametrize(("shape", "strides"), VIEWS)
def test_views_are_numpys(shape, strides):
    import numpy as np

    decoder = Strided("F32", strides)
    assert decoder.can_read(shape)
    extent = (
        0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    )
    stored = np.arange(extent, dtype="<u4")
    view = np.lib.stride_tricks.as_strided(stored, shape, [4 * stride for stride in strides])
    data, unit, count = stored.tobytes(), decoder.unit(shape), view.size
    made = b""
    for start in range(0, max(count, 1), unit * 3):
        piece = range(start, min(start + unit * 3, count))
        (span,) = decoder.spans(shape, piece)
        runs = [span.begin + run * span.stride for run in range(span.runs)]
        read = b"".join(data[at : at + span.run] for at in runs)
        assert len(read) == span.nbytes
        made += bytes(decoder.decode([read], shape, piece, NUMPY))
    assert made == np.ascontiguousarray(view).tobytes()


def test_the_golden_file_names_its_writer():
    assert json.loads((FIXTURES / "golden.json").read_text())["torch"]
