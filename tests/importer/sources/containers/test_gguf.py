"""GGUF files through the whole pipeline: kept whole, taken apart, split, and which is meant."""

from __future__ import annotations

import json
import os

import pytest

from importer.codecs.ggml.types import NAMED
from importer.codecs.views.swapped import FIELDS
from importer.models.config import config_bytes
from importer.models.description import describe
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.containers.gguf import Gguf, read_elements
from importer.sources.inventory import read_inventory
from importer.sources.location import StoredModel
from importer.verification.compare import compare
from importer.verification.repair import repair
from store import MediaType, ModelName, Store
from store.errors import InputError, UnsupportedError, UsageError
from store.gc import GarbageCollector
from store.tensorblob import read_header
from store.verify import verify
from tests.importer.builders import blobs, create, handmade, safetensors, write
from tests.importer.formats.gguf.builders import GOOD, gguf

NAME = ModelName.parse("m")
ARCHITECTURE = ("general.architecture", "string", "llama")
FILE_TYPE = ("general.file_type", "u32", 15)
W = safetensors({"w.weight": ("F32", (2,))})
TENSORS = [
    ("token_embd.weight", "F16", (8, 64)),
    ("blk.0.ffn_up.weight", "Q8_0", (32, 64)),
    ("blk.0.attn_norm.weight", "F32", (64,)),
]
BLOCKS = (b"\0\x3c" + bytes(range(96, 128))) * 64
MODEL = gguf(
    TENSORS,
    [ARCHITECTURE, FILE_TYPE, ("llama.context_length", "u32", 2048)],
    data={"blk.0.ffn_up.weight": BLOCKS},
)
PROJECTOR = gguf(
    [("mm.0.weight", "F16", (2, 8))],
    [("general.type", "string", "mmproj"), ("general.architecture", "string", "clip")],
)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def config(store, name=NAME):
    manifest = store.catalog.get(name).parse()
    return json.loads(store.blobs.read(manifest.config.ref, 1 << 20))


def layers(store, name=NAME):
    found = store.catalog.get(name).parse().layers
    return [(layer.media_type.rpartition(".")[2], layer.name) for layer in found]


def split(count=3, **change):
    """The files of a split: metadata alone, then a tensor each."""
    files = {}
    for number in range(count):
        tensors = TENSORS[number - 1 : number] if number else []
        keys = [ARCHITECTURE, FILE_TYPE] if not number else []
        said = {"split.no": number, "split.count": count, "split.tensors.count": count - 1}
        said |= change if number == count - 1 else {}
        keys += [(key, "u16", value) for key, value in said.items()]
        files[f"x-Q8_0-{number + 1:05}-of-{count:05}.gguf"] = gguf(tensors, keys)
    return files


def test_a_file_is_kept_whole(tmp_path, store):
    path = write(tmp_path / "s", {"x.gguf": MODEL}) / "x.gguf"
    create(store, path)

    assert layers(store) == [("model", "")]
    (layer,) = store.catalog.get(NAME).parse().layers
    assert store.blobs.read(layer.ref, 1 << 20) == MODEL
    assert list(config(store).items())[:-1] == [
        ("model_format", "gguf"),
        ("model_family", "llama"),
        ("model_families", ["llama"]),
        ("model_type", "3K"),
        ("file_type", "Q4_K_M"),
        ("architecture", "amd64"),
        ("os", "linux"),
    ]
    assert verify(store).findings == ()
    assert compare(store, NAME, path).findings == ()


def test_a_directory_keeps_its_files_too(tmp_path, store):
    source = write(tmp_path / "s", {"x.gguf": MODEL, "README.md": b"#", "LICENSE": b"l"})
    create(store, source)

    assert layers(store) == [("model", ""), ("license", "LICENSE"), ("file", "README.md")]
    assert compare(store, NAME, source).findings == ()


@pytest.mark.parametrize("name", ["weights.bin", "model.safetensors", "blob"])
def test_a_single_file_is_gguf_by_its_content(tmp_path, name):
    found = read_inventory(write(tmp_path, {name: MODEL}) / name, apart=False)

    assert found.whole is not None
    assert len(found.tensors) == 3


def test_a_difference_from_the_source_is_found(tmp_path, store):
    source = write(tmp_path / "s", {"x.gguf": MODEL})
    create(store, source)
    write(source, {"x.gguf": MODEL[:-1] + b"\7"})

    assert [one.subject for one in compare(store, NAME, source).findings] == ["model"]


def test_a_damaged_file_is_made_again(tmp_path, store):
    create(store, write(tmp_path / "s", {"x.gguf": MODEL}))
    before = blobs(store)
    (layer,) = store.catalog.get(NAME).parse().layers
    path = store.blobs.path(layer.digest)
    path.chmod(0o644)
    path.write_bytes(MODEL[:-1] + b"\7")

    report = verify(store)
    done = repair(store, report)

    assert len(report.findings) == 1
    assert [one.what for one in done.repaired] == ["model"]
    assert blobs(store) == before


def test_gc_keeps_a_whole_file(tmp_path, store):
    create(store, write(tmp_path / "s", {"x.gguf": MODEL}))
    before = blobs(store)
    GarbageCollector(store).run()

    assert blobs(store) == before


def test_a_stored_model_is_a_source(tmp_path, store):
    create(store, write(tmp_path / "s", {"x.gguf": MODEL}))
    create(store, StoredModel(NAME), "copy")
    create(store, StoredModel(NAME), "int4", recipe=parse_options("int4"))

    first, copy = (store.catalog.get(ModelName.parse(one)).parse() for one in ("m", "copy"))
    assert copy.layers == first.layers
    quantized = describe(store, ModelName.parse("int4"))
    assert [one.type_name for one in quantized.tensors] == ["F16", "F32", "int4"]
    assert compare(store, ModelName.parse("int4"), StoredModel(NAME)).findings == ()


def test_ollamas_own_models_are_sources(store):
    handmade(
        store,
        [
            (MediaType.MODEL, MODEL, {}),
            (MediaType.PROJECTOR, PROJECTOR, {}),
            (MediaType.TEMPLATE, b"{{ .Prompt }}", {}),
        ],
        "theirs",
        b'{"model_format":"gguf"}\n',
    )
    found = describe(store, ModelName.parse("theirs"))
    create(store, StoredModel(ModelName.parse("theirs")))

    assert layers(store) == [("model", ""), ("projector", ""), ("template", "")]
    assert {one.layer for one in found.tensors} == {"model", "projector"}
    assert found.capabilities == ("completion", "vision")
    assert found.parameters == 512 + 2048 + 64 + 16


def test_a_projector_goes_with_its_model(tmp_path, store):
    source = write(tmp_path / "s", {"x-Q8_0.gguf": MODEL, "mmproj-x-F16.gguf": PROJECTOR})
    create(store, source)

    assert layers(store) == [("model", ""), ("projector", "")]
    assert config(store)["model_family"] == "llama"
    assert compare(store, NAME, source).findings == ()


KINDS = [
    ([], MediaType.MODEL),
    ([("general.type", "string", "model")], MediaType.MODEL),
    ([("general.type", "string", "adapter")], MediaType.ADAPTER),
    ([("general.type", "string", "projector")], MediaType.PROJECTOR),
    ([("llama.vision.block_count", "u32", 2)], MediaType.PROJECTOR),
    (
        [("llama.vision.block_count", "u32", 2), ("llama.block_count", "u32", 1)],
        MediaType.MODEL,
    ),
]


@pytest.mark.parametrize(("keys", "media_type"), KINDS)
def test_what_a_file_says_of_itself_decides_its_layer(tmp_path, keys, media_type):
    write(tmp_path, {"x.gguf": gguf(TENSORS, [ARCHITECTURE, *keys])})

    (layer,) = read_inventory(tmp_path, apart=False).whole.layers

    assert layer.media_type == media_type


def test_an_importance_matrix_is_not_a_model(tmp_path):
    write(tmp_path, {"x.gguf": gguf(TENSORS, [("general.type", "string", "imatrix")])})

    with pytest.raises(UnsupportedError, match="type `imatrix`"):
        read_inventory(tmp_path / "x.gguf")


LABELS = {
    "llama-3.2-1b.Q4_K_M.gguf": "Q4_K_M",
    "Llama-3.2-1B-Instruct-IQ3_XXS.gguf": "IQ3_XXS",
    "x-UD-Q2_K_XL.gguf": "UD-Q2_K_XL",
    "gemma-3-4b-it-qat-q4_0.gguf": "Q4_0",
    "x-bf16-00001-of-00002.gguf": "BF16",
    "Q8_0/model-00001-of-00002.gguf": "Q8_0",
    "a/Q8_0/x-TQ1_0.gguf": "TQ1_0",
    "gpt-oss-20b-mxfp4.gguf": "MXFP4",
    "Qwen2.5-7B.gguf": "",
    "Qwen3-0.6B.F32.gguf": "F32",
    "model.gguf": "",
}


@pytest.mark.parametrize(("path", "label"), LABELS.items())
def test_the_variant_is_the_type_in_a_name(path, label):
    assert Gguf().claims(path).variant == label


@pytest.mark.parametrize("path", ["x.gguf.index.json", "x.gguf.txt", "x.bin", "gguf"])
def test_other_names_are_not_claimed(path):
    assert Gguf().claims(path) is None


VARIANTS = {
    "x-Q4_K_M.gguf": MODEL,
    "x-Q8_0.gguf": MODEL + bytes(1 << 20),
    "BF16/x-BF16-00001-of-00002.gguf": b"",
    "BF16/x-BF16-00002-of-00002.gguf": b"",
    "mmproj-F16.gguf": PROJECTOR,
    "mmproj-BF16.gguf": PROJECTOR,
    "imatrix.gguf": b"",
}


def test_several_models_are_listed_with_their_sizes(tmp_path):
    with pytest.raises(UsageError) as caught:
        read_inventory(write(tmp_path, VARIANTS))

    assert caught.value.code == "E_SRC_VARIANTS"
    message = str(caught.value)
    assert message.startswith("the source has 3 models: `BF16`, `Q4_K_M` (")
    assert "`Q8_0` (1.1 MB)" in message


@pytest.mark.parametrize("variant", ["Q4_K_M", "q4_k_m", "x-Q4_K_M"])
def test_a_variant_is_chosen(tmp_path, variant):
    found = read_inventory(write(tmp_path, VARIANTS), variant, apart=False)

    assert [layer.file.path for layer in found.whole.layers] == [
        "x-Q4_K_M.gguf",
        "mmproj-F16.gguf",
    ]
    assert {out.path: out.reason for out in found.left_out} == {
        "x-Q8_0.gguf": "another variant: `Q8_0`",
        "BF16/x-BF16-00001-of-00002.gguf": "another variant: `BF16`",
        "BF16/x-BF16-00002-of-00002.gguf": "another variant: `BF16`",
        "mmproj-BF16.gguf": "another variant of a companion: `BF16`",
        "imatrix.gguf": "importance matrix",
    }


def test_a_variant_that_is_not_there_lists_what_is(tmp_path):
    with pytest.raises(
        UsageError, match=r"none of 3 models of variant `Q2_K`: `BF16`, `Q4_K_M`"
    ):
        read_inventory(write(tmp_path, VARIANTS), "Q2_K")


def test_two_of_a_label_are_told_apart_by_name_or_path(tmp_path):
    files = {"a-Q8_0.gguf": MODEL, "b-Q8_0.gguf": MODEL, "c/b-Q8_0.gguf": MODEL}
    write(tmp_path, files)

    with pytest.raises(
        UsageError, match=r"3 of 3 models of variant `Q8_0`: `a-Q8_0` .*`c/b-Q8_0`"
    ):
        read_inventory(tmp_path, "Q8_0")
    for variant, path in (("a-Q8_0", "a-Q8_0.gguf"), ("c/b-Q8_0", "c/b-Q8_0.gguf")):
        assert [file.path for file in read_inventory(tmp_path, variant).weights] == [path]


def test_safetensors_go_first_unless_the_variant_is_of_gguf(tmp_path):
    write(tmp_path, {"model.safetensors": W, "x-Q8_0.gguf": MODEL, "x-Q4_0.gguf": MODEL})

    found = read_inventory(tmp_path)
    assert [file.path for file in found.weights] == ["model.safetensors"]
    assert {out.reason for out in found.left_out} == {"weights in another format"}
    meant = read_inventory(tmp_path, "Q4_0")
    assert [file.path for file in meant.weights] == ["x-Q4_0.gguf"]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_split_is_found_by_any_of_its_files(tmp_path, store, number):
    files = split()
    source = write(tmp_path / "s", {**files, "y-00001-of-00003.gguf": b""})
    create(store, source / f"x-Q8_0-0000{number}-of-00003.gguf")
    create(store, StoredModel(NAME), "again")

    assert sorted(layer for layer in layers(store) if layer[0] == "tensor") == [
        ("tensor", "model.embed_tokens.weight"),
        ("tensor", "model.layers.0.mlp.up_proj.weight"),
    ]
    assert config(store)["model_format"] == "safetensors"


def test_a_split_is_taken_apart_and_says_so(tmp_path, store):
    source = write(tmp_path / "s", split())
    plan = plan_import(ImportRequest(NAME, source), store)

    assert any("Ollama loads one file, and it is a split" in one for one in plan.warnings)
    assert len(plan.inventory.weights) == 3
    create(store, source)
    assert compare(store, NAME, source).findings == ()


@pytest.mark.parametrize("named", ["", "x-Q8_0-00003-of-00003.gguf"])
def test_a_missing_member_of_a_split_is_an_error(tmp_path, named):
    files = split()
    del files["x-Q8_0-00002-of-00003.gguf"]

    with pytest.raises(InputError, match=r"1 of 3 shards are missing.*number 2"):
        read_inventory(write(tmp_path, files) / named)


LIES = {
    "another number": ({"split.no": 1}, "number 2 of a split of 3"),
    "another count": ({"split.count": 4}, "a split of 4"),
    "more tensors": ({"split.tensors.count": 7}, "it says"),
}


@pytest.mark.parametrize(("change", "message"), LIES.values(), ids=LIES)
def test_a_split_that_lies_is_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=message) as caught:
        read_inventory(write(tmp_path, split(**change)))

    assert caught.value.code == "E_GGUF_SPLIT"


def test_a_renamed_member_of_a_split_is_refused(tmp_path):
    data = split()["x-Q8_0-00002-of-00003.gguf"]

    with pytest.raises(InputError, match="number 2 of a split of 3, its name does not"):
        read_inventory(write(tmp_path, {"x.gguf": data}))


def test_a_tensor_in_two_files_of_a_split_is_refused(tmp_path):
    files = split()
    keys = [
        ("split.no", "u16", 1),
        ("split.count", "u16", 3),
        ("split.tensors.count", "u16", 2),
    ]
    files["x-Q8_0-00002-of-00003.gguf"] = gguf(TENSORS[1:2], keys)

    with pytest.raises(InputError, match="is in `x-Q8_0-00002"):
        read_inventory(write(tmp_path, files))


def test_names_alone_need_no_labels(tmp_path):
    write(tmp_path, {"a.gguf": MODEL, "b.gguf": MODEL})

    with pytest.raises(UsageError, match=r"2 models: `a` .*`b`"):
        read_inventory(tmp_path)
    assert [file.path for file in read_inventory(tmp_path, "b").weights] == ["b.gguf"]


def test_bytes_after_the_end_are_told(tmp_path):
    found = read_inventory(write(tmp_path, {"x.gguf": MODEL + bytes(99)}), apart=False)

    assert found.notes == ("`x.gguf` has 99 bytes after its last tensor, which nobody reads",)


def test_arrays_of_metadata_can_be_read(tmp_path):
    from importer.sources.containers import FORMATS
    from importer.sources.tree import read_tree

    write(tmp_path, {"x.gguf": GOOD})
    (file,) = read_tree(tmp_path).files
    from importer.sources.base import Selection

    contents = FORMATS["gguf"].read(Selection("gguf", ("x.gguf",)), {"x.gguf": file}, "")
    array = contents.headers["x.gguf"].metadata["tokenizer.ggml.tokens"]

    assert list(read_elements(file, array)) == ["a", "bc", "<s>"]
    assert contents.metadata["x.gguf"]["llama.block_count"] == "1"


def entry_of(store, layer):
    with store.blobs.open(layer.digest) as blob:
        return read_header(store, blob, layer.size, "x")


def test_blocks_that_are_taken_out_keep_their_bytes(tmp_path, store):
    path = write(tmp_path / "s", {"x.gguf": MODEL}) / "x.gguf"
    create(store, path, unpack=True)

    (layer,) = [one for one in store.catalog.get(NAME).parse().layers if "up_proj" in one.name]
    assert (layer.dtype, layer.shape) == ("F32", (32, 64))
    header = entry_of(store, layer)
    (entry,) = header.entries
    assert (entry.dtype, entry.shape) == ("U8", (32, 68))
    assert dict(header.metadata) == {"quant_type": "Q8_0"}
    assert store.blobs.read(layer.ref, 1 << 20)[header.nbytes :] == BLOCKS
    (shown,) = [one for one in describe(store, NAME).tensors if "up_proj" in one.name]
    assert (shown.type_name, shown.shape, shown.dtype) == ("Q8_0", (32, 64), "F32")
    assert verify(store).findings == ()
    assert compare(store, NAME, path).findings == ()


@pytest.mark.parametrize("asked", ["int4", "repack", "f32", "bf16", None])
def test_stored_blocks_are_a_source_like_the_file(tmp_path, store, asked):
    path = write(tmp_path / "s", {"x.gguf": MODEL}) / "x.gguf"
    create(store, path, unpack=True)
    recipe = {} if asked is None else {"recipe": parse_options(asked)}
    create(store, path, "direct", unpack=True, **recipe)
    create(store, StoredModel(NAME), "again", **recipe)

    tensors = [
        [(one.name, one.digest) for one in describe(store, ModelName.parse(name)).tensors]
        for name in ("direct", "again")
    ]
    assert tensors[0] == tensors[1]
    assert compare(store, ModelName.parse("again"), StoredModel(NAME)).findings == ()
    assert verify(store).findings == ()


def test_damaged_blocks_are_made_again(tmp_path, store):
    create(store, write(tmp_path / "s", {"x.gguf": MODEL}), unpack=True)
    before = blobs(store)
    (layer,) = [one for one in store.catalog.get(NAME).parse().layers if "up_proj" in one.name]
    path = store.blobs.path(layer.digest)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"\7")

    assert [one.what for one in repair(store, verify(store)).repaired] == [layer.name]
    assert blobs(store) == before


def test_a_blob_of_blocks_is_a_source(tmp_path, store):
    create(store, write(tmp_path / "s", {"x.gguf": MODEL}), unpack=True)
    (layer,) = [one for one in store.catalog.get(NAME).parse().layers if "up_proj" in one.name]
    (tensor,) = read_inventory(store.blobs.path(layer.digest)).tensors

    name = "model.layers.0.mlp.up_proj.weight"
    assert (tensor.name, tensor.shape) == (name, (32, 64))
    assert tensor.stored_as == "Q8_0"


LYING_BLOBS = {
    "another type": ("Q9_X", (2, 34), UnsupportedError, "quantized to `Q9_X`"),
    "a plain type": ("F32", (2, 34), UnsupportedError, "quantized to `F32`"),
    "rows that do not fit": ("Q8_0", (2, 35), InputError, "rows of 35 bytes, Q8_0 needs"),
}


@pytest.mark.parametrize("row", LYING_BLOBS.values(), ids=LYING_BLOBS)
def test_a_blob_of_blocks_that_lies_is_refused(tmp_path, row):
    kind, shape, error, message = row
    data = safetensors({"w.weight": ("U8", shape)}, {"quant_type": kind})

    with pytest.raises(error, match=message):
        read_inventory(write(tmp_path, {"model.safetensors": data}))


def test_experts_of_blocks_share_a_blob(tmp_path, store):
    names = [f"model.layers.0.mlp.experts.{name}" for name in ("down_proj", "up_proj")]
    data = gguf([(name, "Q4_0", (2, 4, 32)) for name in names], [ARCHITECTURE])
    create(store, write(tmp_path / "s", {"x.gguf": data}), unpack=True)

    (layer,) = [one for one in store.catalog.get(NAME).parse().layers if not one.is_file]
    assert layer.name == "model.layers.0.mlp.experts"
    assert dict(entry_of(store, layer).metadata) == {
        "quant_type": "Q4_0",
        **{f"{name}.quant_type": "Q4_0" for name in names},
    }
    assert [one.shape for one in describe(store, NAME).tensors] == [(2, 4, 32)] * 2
    assert compare(store, NAME, tmp_path / "s").findings == ()


PLAIN = ["F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"]


def test_a_big_endian_file_gives_the_blobs_of_a_little_endian_one(tmp_path):
    import numpy as np

    tensors = [(f"{kind}.weight", kind, (4, 256)) for kind in (*PLAIN, *FIELDS)]
    rng = np.random.default_rng(3)
    little, big = {}, {}
    for name, kind, _ in tensors:
        count = 4 * 256 // NAMED[kind].elements
        raw = rng.integers(0, 120, (count, NAMED[kind].nbytes), "u1")
        if kind == "F64":
            raw[:, -1] = 0x3F  # below what F32 has
        turned = raw[:, ::-1].copy() if kind in PLAIN else raw.copy()
        for at in FIELDS.get(kind, ()):
            turned[:, at : at + 2] = raw[:, [at + 1, at]]
        little[name], big[name] = raw.tobytes(), turned.tobytes()
    made = []
    for order, data in (("<", little), (">", big)):
        path = write(
            tmp_path / str(ord(order)),
            {"x.gguf": gguf(tensors, [ARCHITECTURE], order=order, data=data)},
        )
        with Store(tmp_path / f"store{ord(order)}") as opened:
            create(opened, path, unpack=True)
            assert compare(opened, NAME, path).findings == ()
            create(opened, path, "f32", recipe=parse_options("f32"))
            made.append(
                [
                    (one.name, one.digest)
                    for model in ("m", "f32")
                    for one in describe(opened, ModelName.parse(model)).tensors
                ]
            )

    assert made[0] == made[1]


def test_blocks_that_no_one_defines_in_a_big_endian_file_are_refused_by_name(tmp_path, store):
    data = gguf([("w.weight", "Q5_K", (2, 256))], [ARCHITECTURE], order=">")
    path = write(tmp_path / "s", {"x.gguf": data})

    create(store, path)
    with pytest.raises(UnsupportedError, match=r"big-endian, and `w.weight` is Q5_K") as caught:
        create(store, path, unpack=True)
    assert caught.value.code == "E_ONLY_WHOLE"


def test_names_that_are_scales_elsewhere_are_tensors(tmp_path, store):
    tensors = [
        ("blk.0.ffn_up.weight", "NVFP4", (2, 64)),
        ("blk.0.ffn_up.scale", "F32", (1,)),
        ("blk.0.ffn_up.input_scale", "F32", (1,)),
        ("blk.0.ffn_up.weight_scale", "F32", (1,)),
    ]
    source = write(tmp_path / "s", {"x.gguf": gguf(tensors, [ARCHITECTURE])})
    create(store, source)

    found = describe(store, NAME)
    assert len(found.tensors) == 4
    assert found.prequantized is None
    assert "prequantized" not in config(store)["ingot"]
    create(store, source, "apart", unpack=True)
    layers = store.catalog.get(ModelName.parse("apart")).parse().layers
    assert sorted(one.name for one in layers if not one.is_file) == [
        "blk.0.ffn_up.input_scale",
        "blk.0.ffn_up.scale",
        "blk.0.ffn_up.weight",
        "blk.0.ffn_up.weight_scale",
    ]
    other = gguf(tensors, [("general.architecture", "string", "unknown")])
    with pytest.raises(UnsupportedError, match=r"`blk.0.ffn_up.scale`") as caught:
        create(store, write(tmp_path / "o", {"x.gguf": other}), "other", unpack=True)
    assert caught.value.code == "E_GGUF_SCALE"


@pytest.mark.parametrize("small_first", [True, False])
def test_a_split_that_the_library_writes(tmp_path, store, small_first):
    import numpy as np
    from gguf import GGUFReader, GGUFWriter

    (tmp_path / "s").mkdir()
    writer = GGUFWriter(
        tmp_path / "s" / "model.gguf",
        "of nobody",
        split_max_tensors=2,
        small_first_shard=small_first,
    )
    values = {f"blk.{n}.w.weight": np.full((2, 4), n, "f4") for n in range(5)}
    for name, array in values.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    files = sorted((tmp_path / "s").iterdir())
    assert len(files) == 3 + small_first
    theirs = {one.name for path in files for one in GGUFReader(path).tensors}

    create(store, files[-1])

    assert {one.name for one in describe(store, NAME).tensors} == theirs == set(values)
    assert compare(store, NAME, files[0]).findings == ()


def test_nothing_in_a_configuration_depends_on_the_path(tmp_path, store):
    made = []
    for name in ("a", "b"):
        source = write(tmp_path / name, {"x.gguf": MODEL})
        os.utime(source / "x.gguf", (1, 1))
        made.append(config_bytes(plan_import(ImportRequest(NAME, source), store)))

    assert made[0] == made[1]
