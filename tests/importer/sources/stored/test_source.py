"""A stored model is a source: what comes of it is what would come of its own source."""

from __future__ import annotations

import json
import os

import pytest

from importer.models.provenance import provenance_of
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.location import StoredModel, parse_source
from importer.sources.stored.source import read_stored
from importer.verification.repair import repair
from store import CommitOutcome, ModelName, Store
from store.errors import InputError, IntegrityError, UnsupportedError
from store.gc import GarbageCollector
from store.verify import verify
from tests.importer.builders import REPOSITORY, create, handmade, safetensors, tensor_layer

MODELS = ("tiny-llama", "tiny-moe", "tiny-pipeline")
FIXTURES = REPOSITORY / "fixtures" / "models"
BIG = StoredModel(ModelName.parse("big"))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def layers(store, name):
    """Every layer of a model, as the manifest has it."""
    return store.catalog.get(ModelName.parse(name)).parse().layers


def rot(store, digest):
    """Flip a bit of a blob where it stands: it never has another size, even for a moment."""
    path = store.blobs.path(digest)
    path.chmod(0o644)
    with path.open("r+b") as blob:
        blob.seek(-1, os.SEEK_END)
        last = blob.read(1)
        blob.seek(-1, os.SEEK_END)
        blob.write(bytes([last[0] ^ 1]))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("options", [("int4",), ("nvfp4",), ("bf16",), (None,)])
def test_what_comes_of_the_store_is_what_comes_of_the_source(store, model, options):
    recipe = parse_options(*options)
    create(store, FIXTURES / model, "big")
    create(store, BIG, "here", recipe=recipe)
    create(store, FIXTURES / model, "there", recipe=recipe)

    assert layers(store, "here") == layers(store, "there")
    assert verify(store).findings == ()


def test_stacking_and_groups_are_made_of_the_store(store):
    recipe = parse_options("int8", stacked=True)
    create(store, FIXTURES / "tiny-moe", "big")
    create(store, BIG, "here", recipe=recipe)
    create(store, FIXTURES / "tiny-moe", "there", recipe=recipe)

    assert layers(store, "here") == layers(store, "there")


@pytest.mark.parametrize("kind", ["int2", "int8", "nvfp4", "mxfp8"])
def test_codes_that_are_there_are_kept_and_not_quantized_again(store, kind):
    create(store, FIXTURES / "tiny-moe", "big", recipe=parse_options(kind))
    create(store, BIG, "same")
    create(store, BIG, "again", recipe=parse_options(kind))

    assert layers(store, "same") == layers(store, "again") == layers(store, "big")


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("kind", ["int4", "nvfp4"])
def test_codes_are_decoded_to_the_dtype_of_their_values_too(store, kind, dtype):
    create(store, FIXTURES / "tiny-moe", "big", recipe=parse_options(kind))
    create(store, BIG, "small", recipe=parse_options(dtype))

    read = read_stored(store, ModelName.parse("small")).tensors

    assert {tensor.arrays[0].dtype for tensor in read} == {dtype.upper()}
    assert all(tensor.is_plain for tensor in read)


def test_what_is_quantized_twice_is_told(store):
    def plan(quantize):
        recipe = parse_options(quantize, recipe="uniform")
        return plan_import(ImportRequest(ModelName.parse("small"), BIG, recipe), store)

    create(
        store, FIXTURES / "tiny-llama", "big", recipe=parse_options("int4", recipe="uniform")
    )

    (warning,) = plan("int8").warnings

    assert warning.startswith("16 of 21 tensors are quantized a second time")
    assert "was int4" in warning
    assert plan("bf16").warnings == plan("int4").warnings == ()


def test_a_name_is_a_path_first_and_then_a_stored_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    there = {text: StoredModel(ModelName.parse(text)) for text in ("big", "team/big:v1")}

    assert parse_source("big", there.get) == BIG
    assert str(parse_source("team/big:v1", there.get)) == "team/big:v1"
    (tmp_path / "big").mkdir()
    assert str(parse_source("big", there.get)) == "big"
    assert parse_source("./big", lambda _: BIG) != BIG


def test_a_rotten_blob_is_not_read(store):
    create(store, FIXTURES / "tiny-llama", "big")
    before = layers(store, "big")
    rot(store, before[3].digest)
    forget(store)

    with pytest.raises(IntegrityError) as caught:
        create(store, BIG, "small", recipe=parse_options("int4"))

    assert str(before[3].digest) in str(caught.value)
    assert store.catalog.find(ModelName.parse("small")) is None


def forget(store):
    """Forget every blob, as a memo that was deleted has."""
    for _, digest, _ in store.blobs.digests():
        store.memo.forget(digest)


def replace_blobs(store):
    """Replace every blob by a copy, as another import does that does not know them."""
    for layer in layers(store, "big"):
        path = store.blobs.path(layer.digest)
        copy = path.with_name("copy")
        copy.write_bytes(path.read_bytes())
        copy.replace(path)


@pytest.mark.parametrize("happens", [forget, replace_blobs])
@pytest.mark.parametrize("rehash", [False, True])
def test_another_file_of_the_same_blob_is_the_same_source(store, happens, rehash):
    create(store, FIXTURES / "tiny-llama", "big")
    there = layers(store, "big")

    def listen(event):
        if type(event).__name__ == "Planned":
            happens(store)

    forget(store)
    create(store, BIG, "again", listen=listen, rehash=rehash)

    assert layers(store, "again") == there
    assert verify(store).findings == ()


def test_a_blob_that_rots_while_it_is_read_is_told(store):
    create(store, FIXTURES / "tiny-llama", "big")
    lost = next(one for one in layers(store, "big") if one.name == "lm_head.weight")

    def listen(event):
        if type(event).__name__ == "BlobDone":
            rot(store, lost.digest)

    with pytest.raises(IntegrityError, match=str(lost.digest)):
        create(store, BIG, "small", recipe=parse_options("int4"), listen=listen)

    assert store.catalog.find(ModelName.parse("small")) is None


def test_a_blob_that_is_gone_is_named(store):
    create(store, FIXTURES / "tiny-llama", "big")
    gone = layers(store, "big")[0]
    store.blobs.path(gone.digest).unlink()

    with pytest.raises(IntegrityError, match="is missing"):
        create(store, BIG, "small", recipe=parse_options("int4"))


@pytest.mark.parametrize(
    "scales",
    [{"w.weight.scale": ("F16", (4, 3)), "w.weight.bias": ("F16", (4, 3))}],
)
def test_scales_that_do_not_fit_are_refused(store, scales):
    content = safetensors(
        {"w.weight": ("U32", (4, 8)), **scales}, {"quant_type": "int4", "group_size": "32"}
    )
    handmade(store, [tensor_layer(content, "w.weight")], "big")

    with pytest.raises(InputError) as caught:
        read_stored(store, BIG.name)

    assert caught.value.code == "E_QUANT_PAIR"


def test_a_group_size_that_a_type_does_not_have_is_refused(store):
    content = safetensors(
        {"w.weight": ("U32", (4, 8)), "w.weight.scale": ("U8", (4, 8))},
        {"quant_type": "nvfp4", "group_size": "8"},
    )
    handmade(store, [tensor_layer(content, "w.weight")], "big")

    with pytest.raises(UnsupportedError):
        read_stored(store, BIG.name)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_nvfp4_may_have_a_scale_of_the_whole_tensor(store, shape):
    content = safetensors(
        {
            "w.weight": ("U32", (4, 8)),
            "w.weight.scale": ("U8", (4, 4)),
            "w.weight.global_scale": ("F32", shape),
        },
        {"quant_type": "nvfp4", "group_size": "16"},
    )
    handmade(store, [tensor_layer(content, "w.weight")], "big")

    (found,) = read_stored(store, BIG.name).tensors

    assert (found.stored_as, found.shape, len(found.arrays)) == ("nvfp4", (4, 64), 3)


@pytest.mark.parametrize("whole", [("F16", ()), ("F32", (2,)), ("F32", (4, 4))])
def test_a_scale_of_the_whole_tensor_is_one_number(store, whole):
    content = safetensors(
        {
            "w.weight": ("U32", (4, 8)),
            "w.weight.scale": ("U8", (4, 4)),
            "w.weight.global_scale": whole,
        },
        {"quant_type": "nvfp4", "group_size": "16"},
    )
    handmade(store, [tensor_layer(content, "w.weight")], "big")

    with pytest.raises(InputError) as caught:
        read_stored(store, BIG.name)

    assert caught.value.code == "E_QUANT_PAIR"


def test_other_types_have_no_scale_of_the_whole_tensor(store):
    content = safetensors(
        {
            "w.weight": ("U32", (4, 8)),
            "w.weight.scale": ("U8", (4, 2)),
            "w.weight.global_scale": ("F32", ()),
        },
        {"quant_type": "mxfp4", "group_size": "32"},
    )
    handmade(store, [tensor_layer(content, "w.weight")], "big")

    with pytest.raises(UnsupportedError, match="scale of the whole tensor"):
        read_stored(store, BIG.name)


def test_the_record_names_the_model_and_repair_uses_it(store):
    create(store, FIXTURES / "tiny-llama", "big")
    create(store, BIG, "small", recipe=parse_options("int4"))
    stored = store.catalog.get(ModelName.parse("small"))
    config = json.loads(store.blobs.path(stored.parse().config.digest).read_bytes())
    assert config["ingot"]["model"] == str(store.catalog.get(BIG.name).digest)
    assert provenance_of(store, stored).sources == (BIG,)
    lost = next(one for one in layers(store, "small") if one.name == "lm_head.weight")
    rot(store, lost.digest)

    done = repair(store, verify(store))

    assert [blob.digest for blob in done.repaired] == [lost.digest]
    assert done.remaining == ()


def test_gc_keeps_what_an_import_reads(store):
    create(store, FIXTURES / "tiny-llama", "big")
    there = {layer.digest for layer in layers(store, "big")}

    def rm_and_collect(event):
        if type(event).__name__ == "Planned":
            return
        if store.catalog.find(BIG.name) is not None:
            with Store(store.layout.root) as other:
                other.remove([BIG.name])
                GarbageCollector(other).run()

    create(store, BIG, "small", listen=rm_and_collect)

    assert {layer.digest for layer in layers(store, "small")} == there
    assert verify(store).findings == ()


def test_what_stays_is_not_read(store, monkeypatch):
    create(store, FIXTURES / "tiny-moe", "big", recipe=parse_options("int8"))
    read = []
    monkeypatch.setattr(
        "importer.engine.reader.read_exactly",
        lambda file, *_: read.append(file.path) or pytest.fail("read"),
    )

    result = create(store, BIG, "same")

    assert read == []
    assert result.tally(CommitOutcome.NEW)[0] == 1  # the configuration
    assert layers(store, "same") == layers(store, "big")


def test_what_stays_and_is_not_known_to_be_good_is_made_again(store):
    create(store, FIXTURES / "tiny-moe", "big")
    forget(store)

    create(store, BIG, "same")

    assert layers(store, "same") == layers(store, "big")
    assert verify(store).findings == ()
