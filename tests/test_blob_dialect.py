"""One blob under several names, and blobs in older forms: every reader takes them."""

import json
import shutil

import pytest

from importer.models.description import describe
from importer.recipes.options import parse_options
from importer.verification.compare import compare
from importer.verification.repair import repair
from store import MediaType, ModelName, Store
from store.tensorfile import data_bytes
from store.verify import verify
from tests.check_store import check_store
from tests.importer.builders import (
    MODELS,
    create,
    framed,
    handmade,
    model,
    noise,
    write,
)
from tests.importer.damage import DAMAGES, blob_of, flip, lose

ENCODER = "text_encoder"
EXPERTS = "layers.0.mlp.experts"
SHAPES = {
    "embed.weight": ("BF16", (8, 64)),
    "norm.weight": ("F32", (4,)),
    **{f"{EXPERTS}.{n}.up.weight": ("BF16", (16, 64)) for n in range(3)},
    f"{EXPERTS}.0.down.weight": ("BF16", (16, 48)),
    f"{EXPERTS}.bias": ("F32", (3,)),
}
WEIGHTS = {
    # Without the largest exponents: no infinities, no NaNs.
    name: (dtype, shape, bytes(byte & 0xBF for byte in noise(name, data_bytes(dtype, shape))))
    for name, (dtype, shape) in SHAPES.items()
}
LAYERS = ["embed.weight", "norm.weight", EXPERTS]
each_recipe = pytest.mark.parametrize(
    "recipe", [parse_options(None), parse_options("int4", recipe="uniform")]
)
each_layer = pytest.mark.parametrize("layer", LAYERS)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as store:
        yield store


@pytest.fixture
def encoder(tmp_path):
    """A text encoder alone."""
    return model(tmp_path / "encoder", WEIGHTS, {"model_type": "qwen3"})


@pytest.fixture
def pipeline(tmp_path, encoder):
    """A pipeline with that text encoder, twice."""
    root = tmp_path / "pipeline"
    names = (ENCODER, f"{ENCODER}_2")
    for name in names:
        shutil.copytree(encoder, root / name)
    kinds = {name: ["transformers", "Qwen3Model"] for name in names}
    return write(root, {"model_index.json": {"_class_name": "ZImagePipeline", **kinds}})


def tensor_layers(store, name):
    """Layer name -> digest."""
    layers = store.catalog.get(ModelName.parse(name)).parse().layers
    return {one.name: one.digest for one in layers if one.media_type == MediaType.TENSOR}


def tensors(store, name):
    """What `show` says of each tensor."""
    found = describe(store, ModelName.parse(name))
    assert found.problems == ()
    return {
        one.name: (one.dtype, one.shape, one.quant, one.group_size, one.nbytes)
        for one in found.tensors
    }


def is_whole(store):
    return check_store(store.layout.root) == [] and verify(store).findings == ()


# One blob, several names.


@each_recipe
def test_a_text_encoder_is_stored_once_alone_and_in_a_pipeline(
    store, encoder, pipeline, recipe
):
    create(store, encoder, "alone", recipe=recipe)
    create(store, pipeline, "pipe", recipe=recipe)

    alone, pipe = tensor_layers(store, "alone"), tensor_layers(store, "pipe")
    assert pipe == {
        f"{component}/{name}": digest
        for component in (ENCODER, f"{ENCODER}_2")
        for name, digest in alone.items()
    }
    assert set(LAYERS) < alone.keys()
    assert is_whole(store)


@each_recipe
def test_a_shared_blob_is_shown_and_compared_under_every_name(store, encoder, pipeline, recipe):
    create(store, encoder, "alone", recipe=recipe)
    create(store, pipeline, "pipe", recipe=recipe)

    alone, pipe = tensors(store, "alone"), tensors(store, "pipe")

    assert alone.keys() == WEIGHTS.keys()
    assert pipe == {
        f"{component}/{name}": facts
        for component in (ENCODER, f"{ENCODER}_2")
        for name, facts in alone.items()
    }
    for name, source in (("alone", encoder), ("pipe", pipeline)):
        found = compare(store, ModelName.parse(name), source)
        assert (found.findings, found.tensors) == ((), len(tensors(store, name)))
    assert {share.name for share in describe(store, ModelName.parse("pipe")).components} == {
        ENCODER,
        f"{ENCODER}_2",
    }


@each_layer
def test_a_shared_blob_that_differs_from_a_source_is_told_under_every_name(
    store, encoder, pipeline, layer
):
    create(store, encoder, "alone")
    create(store, pipeline, "pipe")
    flip(blob_of(store, layer, "alone"))
    member = layer if layer in WEIGHTS else f"{EXPERTS}.2.up.weight"

    alone = compare(store, ModelName.parse("alone"), encoder).findings
    pipe = compare(store, ModelName.parse("pipe"), pipeline).findings

    assert [finding.subject for finding in alone] == [member]
    assert [one.subject for one in pipe] == [f"{ENCODER}/{member}", f"{ENCODER}_2/{member}"]


@each_layer
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("left", ["alone", "pipe"])
def test_a_shared_blob_is_healed_from_either_source(  # noqa: PLR0913, PLR0917 - a table
    store, encoder, pipeline, layer, damage, left
):
    recipe = parse_options("int4", recipe="uniform")
    create(store, encoder, "alone", recipe=recipe)
    create(store, pipeline, "pipe", recipe=recipe)
    path = blob_of(store, layer, "alone")
    content = path.read_bytes()
    damage(path)
    shutil.rmtree(pipeline if left == "alone" else encoder)

    done = repair(store, verify(store))

    assert (done.remaining, done.unrepaired) == ((), ())
    assert path.read_bytes() == content
    assert is_whole(store)


def test_a_report_waits_for_a_blob_that_two_layers_share(store, pipeline):
    create(store, pipeline, "pipe", recipe=parse_options("int4", recipe="uniform"), report=True)
    manifest = store.catalog.get(ModelName.parse("pipe")).parse()
    (report,) = [one for one in manifest.layers if one.media_type == MediaType.QUALITY]
    lose(store.blobs.path(report.digest))
    lose(blob_of(store, f"{ENCODER}/embed.weight", "pipe"))
    # The source differs now: what the report is of cannot be made again.
    for component in (ENCODER, f"{ENCODER}_2"):
        model(pipeline / component, WEIGHTS | {"embed.weight": ("BF16", (8, 64), bytes(1024))})

    done = repair(store, verify(store))

    (loss,) = done.unrepaired
    assert any("no report of quality: tensors are missing" in one for one in loss.reasons)


# Older forms.


def in_older_form(content, layer, prefix):
    """Rewrite a blob as it was: components in keys, global keys where members are alike.

    A plain tensor gets the single key `data`, which is older still.
    """
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    metadata = header.pop("__metadata__", {})
    if len(header) == 1 and layer.endswith("norm.weight"):
        return framed({"data": header.popitem()[1]}, content[end:], padded=True)
    facts = ("quant_type", "group_size")
    said = {key[: -len(fact)] for key in metadata for fact in facts if key.endswith(fact)} - {
        ""
    }
    own = {name: tuple(metadata[name + fact] for fact in facts) for name in said}
    if len(set(own.values())) == 1:
        metadata = dict(zip(facts, next(iter(own.values())), strict=True))
    elif own:
        metadata = {prefix + key: value for key, value in metadata.items() if key not in facts}
    header = {prefix + key: entry for key, entry in header.items()}
    if metadata:
        header["__metadata__"] = metadata
    return framed(dict(sorted(header.items())), content[end:], padded=True)


@pytest.fixture
def older(tmp_path, store):
    """Make a model, and give another store with the same model in the older form."""

    def make(source, components=(), **asked):
        create(store, source, **asked)
        manifest = store.catalog.get(ModelName.parse("m")).parse()
        layers = []
        for layer in manifest.layers:
            content = store.blobs.path(layer.digest).read_bytes()
            if layer.media_type == MediaType.TENSOR:
                inside = [f"{one}/" for one in components if layer.name.startswith(f"{one}/")]
                content = in_older_form(content, layer.name, "".join(inside))
            fields = {"name": layer.name, "dtype": layer.dtype, "shape": layer.shape}
            layers.append((layer.media_type, content, fields))
        config = store.blobs.path(manifest.config.digest).read_bytes()
        found = Store(tmp_path / "older")
        handmade(found, layers, config=config)
        return found

    return make


CASES = {
    "plain pipeline": ("tiny-pipeline", parse_options(None)),
    "pipeline": ("tiny-pipeline", parse_options("mxfp8", recipe="uniform")),
    "alike members": ("tiny-moe", parse_options("int4", recipe="uniform")),
    "a plain member": (
        "tiny-moe",
        parse_options("int8", recipe="uniform", rules=["*.3.up_proj.*=keep"]),
    ),
    "unlike members": ("tiny-moe", parse_options("int4", rules=["*.3.up_proj.*=int8"])),
}


@pytest.mark.parametrize(("fixture", "recipe"), CASES.values(), ids=CASES)
def test_blobs_in_older_forms_are_verified_shown_and_compared(store, older, fixture, recipe):
    components = ("text_encoder", "transformer", "vae") if "pipeline" in fixture else ()
    with older(MODELS / fixture, components, recipe=recipe) as opened:
        digests, before = tensor_layers(store, "m"), tensor_layers(opened, "m")
        changed = {name for name in digests if digests[name] != before[name]}
        assert len(changed) >= (29 if components else 1)

        assert verify(opened).findings == ()
        assert tensors(opened, "m") == tensors(store, "m")
        found = compare(opened, ModelName.parse("m"), MODELS / fixture)
        assert (found.findings, found.notes) == ((), ())


def test_an_encoder_in_a_pipeline_of_the_older_form_is_verified(older, pipeline):
    components = (ENCODER, f"{ENCODER}_2")
    with older(pipeline, components, recipe=parse_options("int4", recipe="uniform")) as opened:
        assert verify(opened).findings == ()
        assert tensors(opened, "m").keys() == {
            f"{component}/{name}" for component in components for name in WEIGHTS
        }
        damaged = blob_of(opened, f"{ENCODER}/{EXPERTS}")
        lose(damaged)

        done = repair(opened, verify(opened), source=pipeline)

        # What is made now has another digest: it is not put into the place of the older form.
        assert not damaged.exists()
        assert len(done.unrepaired) == 1
