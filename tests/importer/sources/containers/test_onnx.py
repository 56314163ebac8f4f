"""ONNX files through the whole pipeline, and which files are taken for them."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

from importer.models.provenance import provenance_of
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.inventory import read_inventory
from importer.sources.location import StoredModel
from importer.verification.compare import compare
from store import ModelName, Store
from store.errors import IngotError, InputError, UnsupportedError
from store.tensorfile import encode_header
from store.verify import verify
from tests.importer.builders import REPOSITORY, blobs, create, safetensors, write
from tests.importer.formats.onnx.builders import (
    FLOAT8E4M3FN,
    INT4,
    INT32,
    UINT4,
    UINT8,
    attribute,
    external,
    field,
    model,
    node,
    packed,
    tensor,
)
from tests.importer.formats.onnx.values import values as decoded

FIXTURES = REPOSITORY / "fixtures" / "onnx"
NAME = ModelName.parse("m")
W = safetensors({"w.weight": ("F32", (2,))})
PLAIN = model(tensor("w.weight"))
OTHER = model(tensor("v.weight"))
GRAPH = "the graph is not kept, only its tensors are"


@pytest.fixture
def store(tmp_path_factory):
    with Store(tmp_path_factory.mktemp("store") / "store") as opened:
        yield opened


def plan(store, source, quant=None, variant=None):
    recipe = parse_options(quant) if quant else None
    more = {"recipe": recipe} if recipe else {}
    return plan_import(ImportRequest(NAME, source, variant=variant, **more), store)


def ints(**values):
    return [attribute(name, field(3, value)) for name, value in values.items()]


def raw(nbytes):
    return field(9, bytes(number * 7 & 0xFF for number in range(nbytes)))


def n_bits(*more, **attributes):
    """A file with one weight of MatMulNBits, [8, 64] of 4 bits in blocks of 32."""
    codes, scales = tensor("q_Q4", UINT8, (8, 2, 16), raw(256)), tensor("s", 1, (16,), raw(64))
    names = ("x", "q_Q4", "s", "z", "g")[: 3 + len(more)]
    found = ints(**(attributes or {"K": 64, "N": 8, "bits": 4, "block_size": 32}))
    nodes = [node("MatMulNBits", names, ("y",), found, "com.microsoft")]
    return model(codes, scales, *more, nodes=nodes)


def linear(*tensors, names=("q", "s"), **attributes):
    """A file with one weight of DequantizeLinear."""
    return model(*tensors, nodes=[node("DequantizeLinear", names, ("y",), ints(**attributes))])


# Imports.


@pytest.mark.parametrize("quant", [None, "int4", "bf16"])
@pytest.mark.parametrize(
    "name",
    [
        "torch-script",
        "torch-dynamo",
        "nbits-4-16-asymmetric-QOperator",
        "static-QDQ-QInt4-channels",
        "types-typed",
        "external-one",
    ],
)
def test_an_import_compares_with_its_source(store, name, quant):
    source = FIXTURES / f"{name}.onnx"
    create(store, source, **({"recipe": parse_options(quant)} if quant else {}))

    assert verify(store).findings == ()
    assert compare(store, NAME, source).findings == ()


def test_the_graph_is_said_to_be_lost():
    assert read_inventory(FIXTURES / "torch-script.onnx").notes == (
        f"`torch-script.onnx`: {GRAPH}",
    )


def test_blobs_are_those_of_safetensors(tmp_path):
    there = write(tmp_path / "a", {"model.onnx": PLAIN, "config.json": {}})
    data = encode_header([("w.weight", "F32", (2, 3), 24)]) + bytes(range(24))
    here = write(tmp_path / "b", {"model.safetensors": data, "config.json": {}})
    made = []
    for source in (there, here):
        with Store(tmp_path / f"{source.name}-store") as opened:
            create(opened, source)
            layers = opened.catalog.get(NAME).parse().layers
            made.append([one.digest for one in layers if one.name == "w.weight"])

    assert made[0] == made[1]


def test_a_copy_and_a_second_import_make_nothing_new(store):
    source = FIXTURES / "nbits-4-16-asymmetric-QOperator.onnx"
    create(store, source)
    before = blobs(store).keys()
    create(store, source, "again")
    create(store, StoredModel(NAME), "copy")

    assert len(blobs(store).keys() - before) <= 2  # configurations


def test_weights_that_nobody_asks_for_stay_their_arrays(store):
    source = FIXTURES / "nbits-4-16-asymmetric-QOperator.onnx"

    names = [one.name for one in plan(store, source).tensors]
    assert [one for one in names if one.startswith("onnx::MatMul_21")] == [
        "onnx::MatMul_21_Q4",
        "onnx::MatMul_21_scales",
        "onnx::MatMul_21_zero_points",
    ]
    names = [one.name for one in plan(store, source, "bf16").tensors]
    assert [one for one in names if one.startswith("onnx::MatMul_21")] == ["onnx::MatMul_21"]


@pytest.mark.parametrize("recipe", ["default", "uniform"])
def test_matrices_are_quantized_whatever_their_names_are(store, tmp_path, recipe):
    names = ["onnx::MatMul_7", "val_3", "embed_tokens.weight", "small"]
    shapes = [(64, 32), (32, 64), (64, 32), (4, 32)]
    tensors = [
        tensor(name, dims=dims, data=raw(4 * dims[0] * dims[1]))
        for name, dims in zip(names, shapes, strict=True)
    ]
    path = tmp_path / "x.onnx"
    path.write_bytes(model(*tensors))
    options = parse_options("int4", recipe=recipe)

    found = plan_import(ImportRequest(NAME, path, recipe=options), store)
    made = {one.name: str(one.target) for one in found.tensors}
    assert (made["onnx::MatMul_7"], made["val_3"], made["small"]) == ("int4", "int4", "None")
    assert (made["embed_tokens.weight"] == "None") == (recipe == "default")


def test_the_options_that_made_a_model_are_found_again(store, tmp_path):
    path = tmp_path / "x.onnx"
    path.write_bytes(model(tensor("val_3", dims=(32, 64), data=raw(8192))))
    create(store, path, recipe=parse_options("int4"))

    found = provenance_of(store, store.catalog.get(NAME), path).options()
    assert found is not None
    assert (found.quantize, found.needs_file, found.rules) == ("int4", False, ())


def test_one_array_of_several_weights_is_kept_once(store, tmp_path):
    pairs = [("a", "s", "z"), ("b", "s", "z")]
    nodes = [node("DequantizeLinear", names, (f"{names[0]}w",)) for names in pairs]
    tensors = [tensor(name, UINT8, (4, 8), raw(32)) for name in "ab"]
    aside = tensor("s", 1, (), raw(4)), tensor("z", UINT8, (), raw(1))
    path = tmp_path / "x.onnx"
    path.write_bytes(model(*tensors, *aside, nodes=nodes))

    assert [one.name for one in plan(store, path).tensors] == ["a", "b", "s", "z"]
    assert [one.name for one in plan(store, path, "bf16").tensors] == ["a", "b"]


@pytest.mark.parametrize(
    ("op", "place"),
    [
        *(("MatMulBnb4", 1), ("MatMulFpQ4", 1), ("MatMulPacked", 1), ("GemmFloat8", 1)),
        *(("MatMulBlockQuantizedFp4Weight", 1), ("MatMulBlockQuantizedFp8Weight", 1)),
        *(("MatMulNBitsMlp", 3), ("MatMulNBitsMlp", 6), ("MatMulNBitsQLoRA", 1)),
        *(("MatMulNBitsQkv", 3), ("MatMulNBitsQkv", 6), ("MatMulNBitsQkv", 9)),
        *(("QMoE", 2), ("QMoE", 5), ("QOrderedMatMul", 2), ("QOrderedAttention", 7)),
        *(("QOrderedLongformerAttention", 2), ("QOrderedLongformerAttention", 8)),
    ],
)
def test_a_weight_that_is_not_decoded_is_refused_by_name(tmp_path, op, place):
    names = [f"x{number}" for number in range(place)]
    nodes = [node(op, (*names, "q", "m"), ("y",), (), "com.microsoft")]
    path = tmp_path / "x.onnx"
    path.write_bytes(model(tensor("q", UINT8, (64,), raw(64)), tensor("m"), nodes=nodes))

    why = f"weights of com.microsoft.{op} are not decoded"
    with pytest.raises(UnsupportedError, match=f"`q` is not decoded: {why}") as caught:
        read_inventory(path)

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)


def computed(*names):
    """A file with a weight that is known, and others whose scales the graph computes."""
    nodes = [
        node("DequantizeLinear", ("q", "s"), ("y",), ints(axis=1)),
        *(node("DequantizeLinear", (name, "x"), (f"{name}y",)) for name in names),
    ]
    codes = (tensor(name, UINT8, (4, 8), raw(32)) for name in names)
    return model(Q8, S8, *codes, nodes=nodes)


def test_a_weight_whose_scale_is_computed_stays_its_array_and_is_named(store, tmp_path):
    path = tmp_path / "x.onnx"
    path.write_bytes(computed("p"))
    create(store, path)

    said = "`p` stays the arrays that it is stored as: no tensor of the file is the scale"
    assert said in read_inventory(path).notes
    assert [one.name for one in plan(store, path).tensors] == ["p", "q", "s"]
    assert compare(store, NAME, path).findings == ()


def test_weights_whose_scales_are_computed_are_named_together(tmp_path):
    path = tmp_path / "x.onnx"
    path.write_bytes(computed(*"abcdefg"))

    (_, note) = read_inventory(path).notes
    assert note.startswith("`a`, `b`, `c`, `d`, `e` and 2 more stay the arrays that they are")


@pytest.mark.parametrize("quant", ["f32", "bf16", "int4", "repack"])
def test_a_weight_whose_scale_is_computed_becomes_no_other_type(store, tmp_path, quant):
    path = tmp_path / "x.onnx"
    path.write_bytes(computed("p"))

    why = "`p` is not decoded, no tensor of the file is the scale"
    with pytest.raises(UnsupportedError, match=why) as caught:
        plan(store, path, quant)

    assert (caught.value.code, caught.value.exit_code) == ("E_PREQUANTIZED", 4)


def test_a_float_of_a_node_that_also_takes_codes_is_a_tensor(tmp_path):
    nodes = [node("GemmFloat8", ("x", "w"), ("y",), (), "com.microsoft")]
    path = tmp_path / "x.onnx"
    path.write_bytes(model(tensor("w"), nodes=nodes))

    assert [one.name for one in read_inventory(path).tensors] == ["w"]


def test_values_of_another_type_than_floats_are_refused_by_name(tmp_path):
    path = tmp_path / "x.onnx"
    path.write_bytes(linear(Q8, S8, axis=1, output_dtype=11))

    with pytest.raises(UnsupportedError, match=r"`q` is not decoded: .*output_dtype=11"):
        read_inventory(path)


@pytest.mark.parametrize("layout", [1, 2])
def test_codes_in_the_layout_of_a_gpu_are_refused_by_name(tmp_path, layout):
    path = tmp_path / "x.onnx"
    facts = {"K": 64, "N": 8, "bits": 4, "block_size": 32, "weight_prepacked": layout}
    path.write_bytes(n_bits(**facts))

    why = f"`q_Q4` is not decoded: .*weight_prepacked={layout}"
    with pytest.raises(UnsupportedError, match=why) as caught:
        read_inventory(path)

    assert (caught.value.code, caught.value.exit_code) == ("E_QUANT_FORMAT", 4)


@pytest.mark.parametrize(("axis", "sides"), [(1, (8, 1)), (-1, (8, 1)), (0, (1, 8))])
def test_a_block_of_0_is_a_whole_row_of_a_table_in_fp8(tmp_path, axis, sides):
    """A square table: scales of rows and of columns are as many."""
    scales = np.arange(1, 9, dtype="<f4").reshape(sides)
    values = tensor("s", 1, sides, field(9, scales.tobytes()))
    table = tensor("q", FLOAT8E4M3FN, (8, 8), field(9, bytes([0x38] * 64)))  # ones
    facts = ints(quantize_axis=axis, block_size=0)
    lookup = node("GatherBlockQuantized", ("q", "i", "s"), ("y",), facts, "com.microsoft")
    path = tmp_path / "x.onnx"
    path.write_bytes(model(table, values, nodes=[lookup]))

    (found,) = read_inventory(path).tensors

    expected = np.broadcast_to(scales, (8, 8)).tobytes()
    assert decoded(found, 1 << 10) == expected


def test_two_readings_of_one_weight_are_none(tmp_path):
    path = tmp_path / "x.onnx"
    nodes = [node("DequantizeLinear", ("q", one), (f"y{one}",)) for one in "st"]
    scales = [tensor(one, 1, (), raw(4)) for one in "st"]
    path.write_bytes(model(tensor("q", UINT8, (4, 8), raw(32)), *scales, nodes=nodes))

    with pytest.raises(UnsupportedError, match="two nodes read it in two ways"):
        read_inventory(path)


# Which files.


def chosen(root, variant=None):
    found = read_inventory(root, variant)
    return [file.path for file in found.weights], [one.name for one in found.tensors]


def left_out(root):
    return {one.path: one.reason for one in read_inventory(root).left_out}


@pytest.mark.parametrize(
    ("files", "variant", "weights"),
    [
        (["model.onnx", "model_quantized.onnx", "model_fp16.onnx"], None, ["model.onnx"]),
        (["model.onnx", "model_quantized.onnx"], "quantized", ["model_quantized.onnx"]),
        (["model.onnx", "model_q4f16.onnx", "model_O3.onnx"], "O3", ["model_O3.onnx"]),
        (
            ["model.onnx", "model_qint8_avx512_vnni.onnx", "model_uint8.onnx"],
            "qint8_avx512_vnni",
            ["model_qint8_avx512_vnni.onnx"],
        ),
        (["onnx/model.onnx", "onnx/model_int8.onnx"], None, ["onnx/model.onnx"]),
        (["onnx/model.onnx", "onnx/model_int8.onnx"], "int8", ["onnx/model_int8.onnx"]),
        (["model.onnx", "onnx/model.onnx"], None, ["model.onnx"]),
        (["model.onnx", "other.onnx"], None, ["model.onnx"]),
        (["my-export.onnx"], None, ["my-export.onnx"]),
    ],
)
def test_one_of_several_files_is_the_model(tmp_path, files, variant, weights):
    root = write(tmp_path, dict.fromkeys(files, PLAIN))

    assert chosen(root, variant) == (weights, ["w.weight"])


def test_variants_alone_are_listed(tmp_path):
    root = write(tmp_path, {"model_q4.onnx": PLAIN, "model_fp16.onnx": PLAIN})

    with pytest.raises(InputError) as refused:
        read_inventory(root)
    assert refused.value.code == "E_SRC_VARIANTS"
    assert "`fp16`, `q4`" in str(refused.value)


def test_parts_of_a_model_have_prefixes(tmp_path):
    files = [
        "encoder_model",
        "decoder_model",
        "decoder_model_merged",
        "decoder_with_past_model",
    ]
    root = write(tmp_path, {f"onnx/{name}.onnx": PLAIN for name in files})

    assert chosen(root) == (
        ["onnx/decoder_model.onnx", "onnx/encoder_model.onnx"],
        ["decoder_model.w.weight", "encoder_model.w.weight"],
    )
    assert left_out(root)["onnx/decoder_model_merged.onnx"] == (
        "a second copy of the same weights"
    )


def test_a_merged_decoder_alone_is_taken(tmp_path):
    files = ["encoder_model", "decoder_model_merged"]
    root = write(tmp_path, {f"onnx/{name}.onnx": PLAIN for name in files})

    assert len(chosen(root)[0]) == 2


def test_a_part_without_the_variant_is_the_default_one(tmp_path):
    files = ["vision_encoder", "vision_encoder_q4", "embed_tokens", "decoder_model_merged_q4"]
    root = write(tmp_path, {f"{name}.onnx": PLAIN for name in files})

    assert chosen(root, "q4")[0] == [
        "decoder_model_merged_q4.onnx",
        "embed_tokens.onnx",
        "vision_encoder_q4.onnx",
    ]
    with pytest.raises(InputError, match="`decoder_model_merged` has no default variant"):
        read_inventory(root)


@pytest.mark.parametrize("place", ["onnx/model.onnx", "model.onnx", "unet/model.onnx"])
def test_other_weights_are_preferred(tmp_path, place):
    root = write(tmp_path, {"model.safetensors": W, place: b"not read"})

    assert chosen(root) == (["model.safetensors"], ["w.weight"])
    assert place not in {file.path for file in read_inventory(root).files}


def test_exports_of_a_pipeline_are_components(tmp_path):
    files = {"unet/model.onnx": PLAIN, "vae/model.onnx": OTHER, "model_index.json": {}}
    root = write(tmp_path, files)

    assert chosen(root)[1] == ["unet/w.weight", "vae/v.weight"]


def test_a_file_of_any_name_is_recognized(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(PLAIN)

    assert chosen(path) == (["weights.bin"], ["w.weight"])


# Data in other files.


def outside(location="d.dat", **entries):
    return model(tensor("w.weight", data=external(location=location, **entries)))


DATA = bytes(100)


@pytest.mark.parametrize("name", ["model.onnx_data", "model.onnx.data", "any/where.bin", "d"])
def test_data_of_a_directory_is_found(tmp_path, store, name):
    files = {"model.onnx": outside(name, offset="4", length="24"), name: bytes(range(100))}
    root = write(tmp_path / "s", {**files, "config.json": {}})

    found = read_inventory(root)
    assert [file.path for file in found.files] == ["config.json"]
    assert sorted(file.path for file in found.weights) == sorted(["model.onnx", name])
    create(store, root)
    assert any(blob.endswith(bytes(range(4, 28))) for blob in blobs(store).values())
    assert compare(store, NAME, root).findings == ()


@pytest.mark.parametrize("below", ["", "sub/"])
@pytest.mark.parametrize(
    "name", ["w.bin", "w.pt", "w.ckpt", "w.gguf", "w.safetensors", "w.uqff"]
)
def test_data_may_have_the_name_of_other_weights(tmp_path, store, name, below):
    name = below + name
    files = {"model.onnx": outside(name), name: bytes(range(24))}
    root = write(tmp_path / "s", files)

    assert chosen(root) == (sorted(["model.onnx", name]), ["w.weight"])
    create(store, root)
    assert compare(store, NAME, root).findings == ()


def test_weights_beside_a_graph_are_what_their_names_say(tmp_path):
    files = {"model.onnx": outside("w.safetensors"), "w.safetensors": W}

    assert chosen(write(tmp_path / "a", files)) == (["w.safetensors"], ["w.weight"])
    with pytest.raises(InputError, match=r"`other\.bin`: nothing in it says what it is"):
        read_inventory(write(tmp_path / "b", {"model.onnx": PLAIN, "other.bin": DATA}))
    with pytest.raises(InputError, match=r"`w\.bin`"):
        read_inventory(write(tmp_path / "c", {"model.onnx": b"broken", "w.bin": DATA}))


def test_data_beside_a_single_file_is_found(tmp_path):
    root = write(tmp_path, {"model.onnx": outside("./d.dat"), "d.dat": DATA})

    assert chosen(root / "model.onnx") == (["d.dat", "model.onnx"], ["w.weight"])


def test_data_of_files_that_were_not_selected_is_left_out(tmp_path):
    files = {"model.onnx": PLAIN, "model_fp16.onnx": PLAIN, "model_fp16.onnx_data": DATA}
    root = write(tmp_path, files)

    assert left_out(root)["model_fp16.onnx_data"] == (
        "data of an ONNX file that was not selected"
    )


def test_data_may_overlap(tmp_path):
    pair = [tensor(name, data=external(location="d.dat")) for name in "ab"]
    root = write(tmp_path, {"model.onnx": model(*pair), "d.dat": DATA})

    assert chosen(root)[1] == ["a", "b"]


LOCATIONS = {
    "above": ("../d.dat", "E_PATH"),
    "above, from below": ("a/../../d.dat", "E_PATH"),
    "absolute": ("/etc/passwd", "E_PATH"),
    "a drive": ("C:/d.dat", "E_PATH"),
    "a share": ("\\\\host\\d.dat", "E_PATH"),
    "backslashes": ("..\\d.dat", "E_PATH"),
    "NUL": ("d.dat\0", "E_PATH"),
    "blanks": (" d.dat", "E_SRC_SHARD_MISSING"),
    "two slashes": ("a//d.dat", "E_PATH"),
    "percent": ("%2e%2e/d.dat", "E_SRC_SHARD_MISSING"),
    "control bytes": ("\x1b[2J", "E_PATH"),
    "itself": ("model.onnx", "E_PATH"),
    "a directory": ("a", "E_SRC_SHARD_MISSING"),
    "missing": ("e.bin", "E_SRC_SHARD_MISSING"),
    "hidden": (".git/d.dat", "E_SRC_SHARD_MISSING"),
}


@pytest.mark.parametrize("row", LOCATIONS)
@pytest.mark.parametrize("is_single", [False, True])
def test_data_elsewhere_is_refused(tmp_path, row, is_single):
    location, code = LOCATIONS[row]
    files = {"model.onnx": outside(location), "d.dat": DATA, "a/d.dat": DATA}
    root = write(tmp_path / "s", files)
    write(tmp_path, {"d.dat": DATA})

    with pytest.raises(InputError) as refused:
        read_inventory(root / "model.onnx" if is_single else root)
    assert refused.value.code in {code, "E_SRC_TYPE"}


@pytest.mark.parametrize("is_single", [False, True])
def test_a_link_is_not_followed_out(tmp_path, is_single):
    root = write(tmp_path / "s", {"model.onnx": outside("d.dat")})
    write(tmp_path, {"d.dat": DATA})
    (root / "d.dat").symlink_to(tmp_path / "d.dat")

    with pytest.raises(InputError) as refused:
        read_inventory(root / "model.onnx" if is_single else root)
    assert refused.value.code == "E_PATH"


def test_a_pipe_is_not_opened(tmp_path):
    root = write(tmp_path / "s", {"model.onnx": outside("d.dat")})
    os.mkfifo(root / "d.dat")

    for source in (root, root / "model.onnx"):
        with pytest.raises(InputError):
            read_inventory(source)


EXTENTS = {
    "an offset beyond the end": ({"offset": "200"}, "E_ONNX_TRUNCATED"),
    "an end beyond the end": ({"offset": "80"}, "E_ONNX_TRUNCATED"),
    "an offset of 2^62": ({"offset": str(1 << 62)}, "E_ONNX_TRUNCATED"),
    "a length that is less": ({"length": "20"}, "E_ONNX_DATA"),
    "a length that is more": ({"length": "28"}, "E_ONNX_DATA"),
    "a length of 2^62": ({"length": str(1 << 62)}, "E_ONNX_DATA"),
}


@pytest.mark.parametrize("row", EXTENTS)
def test_data_that_is_not_there_is_refused(tmp_path, row):
    entries, code = EXTENTS[row]
    root = write(tmp_path, {"model.onnx": outside(**entries), "d.dat": DATA})

    with pytest.raises(InputError) as refused:
        read_inventory(root)
    assert refused.value.code == code


# Contradictions about quantized weights.

Q8 = tensor("q", UINT8, (4, 8), raw(32))
S, S8 = tensor("s", 1, (), raw(4)), tensor("s", 1, (8,), raw(32))
CONTRADICTIONS = {
    "K that is not there": n_bits(K=65, N=8, bits=4, block_size=32),
    "N that is not there": n_bits(K=64, N=9, bits=4, block_size=32),
    "no K": n_bits(N=8, bits=4, block_size=32),
    "K below zero": n_bits(K=-64, N=8, bits=4, block_size=32),
    "K of 2^62": n_bits(K=1 << 62, N=8, bits=4, block_size=32),
    "blocks of 48": n_bits(K=64, N=8, bits=4, block_size=48),
    "blocks of 8": n_bits(K=64, N=8, bits=4, block_size=8),
    "blocks of 0": n_bits(K=64, N=8, bits=4, block_size=0),
    "another width": n_bits(K=64, N=8, bits=8, block_size=32),
    "zero points too many": n_bits(tensor("z", UINT8, (17,), raw(17))),
    "g_idx of floats": n_bits(tensor("z", 1, (16,), raw(64)), tensor("g", 1, (64,), raw(256))),
    "g_idx too short": n_bits(
        tensor("z", 1, (16,), raw(64)), tensor("g", INT32, (63,), raw(252))
    ),
    "scales of another axis": linear(Q8, S8, axis=0),
    "an axis that is not there": linear(Q8, S8, axis=2),
    "an axis far below zero": linear(Q8, S8, axis=-3),
    "blocks that do not fit": linear(Q8, S8, axis=1, block_size=3),
    "blocks below zero": linear(Q8, S8, axis=1, block_size=-4),
    "zero points of another type": linear(
        Q8, S, tensor("z", 3, (), raw(1)), names=("q", "s", "z")
    ),
    "zero points of another shape": linear(
        Q8, S8, tensor("z", UINT8, (4,), raw(4)), names=("q", "s", "z")
    ),
    "scales of a scalar": linear(tensor("q", UINT8, (), raw(1)), S8),
}


@pytest.mark.parametrize("row", CONTRADICTIONS)
def test_what_does_not_fit_is_an_error(tmp_path, row):
    path = tmp_path / "x.onnx"
    path.write_bytes(CONTRADICTIONS[row])

    with pytest.raises(InputError) as refused:
        read_inventory(path)
    assert refused.value.code == "E_QUANT_PAIR"


def test_a_column_without_a_block_is_an_error(tmp_path, store):
    groups = tensor("g", INT32, (64,), field(5, packed(*[0] * 63, 2)))
    path = tmp_path / "x.onnx"
    path.write_bytes(n_bits(tensor("z", 1, (16,), raw(64)), groups))

    with pytest.raises(IngotError) as refused:
        create(store, path, recipe=parse_options("bf16"))
    assert refused.value.code == "E_ONNX_GROUPS"


def test_integers_of_4_bits_become_bytes(tmp_path, store):
    path = tmp_path / "x.onnx"
    data = field(9, b"\x21\x0f")
    path.write_bytes(model(tensor("i", INT4, (3,), data), tensor("u", UINT4, (3,), data)))
    create(store, path)

    found = {(one.name, one.dtype, one.shape) for one in read_inventory(path).tensors}
    assert found == {("i", "I8", (3,)), ("u", "U8", (3,))}
    contents = blobs(store).values()
    assert any(blob.endswith(b"\1\2\xff") for blob in contents)
    assert any(blob.endswith(b"\1\2\x0f") for blob in contents)
    assert compare(store, NAME, path).findings == ()


def test_a_missing_file_of_data_names_the_directory(tmp_path):
    shutil.copyfile(FIXTURES / "external-one.onnx", tmp_path / "external-one.onnx")

    with pytest.raises(InputError, match=r"`external-one\.onnx_data`, which is missing"):
        read_inventory(tmp_path / "external-one.onnx")
